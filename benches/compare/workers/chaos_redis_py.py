# A worker of `quorlock chaos --worker` with the lock of redis-py, which is for one server: the first node.
# Before each write it makes sure by `reacquire` that the lock is its own, and has its time anew.
import json
import os
import random
import sys
import time

import redis

told = {name: os.environ["CHAOS_" + name] for name in ("NODES", "RESOURCE", "TTL_MS", "SEED")}
ttl = int(told["TTL_MS"]) / 1000
dice = random.Random(told["SEED"])
client = redis.Redis.from_url(told["NODES"].split(",")[0], socket_timeout=0.5)


def say(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)
    answer = sys.stdin.readline()
    if not answer:
        sys.exit()


while True:
    say("ask")
    lock = client.lock(told["RESOURCE"], timeout=ttl, blocking=False)
    try:
        why = None if lock.acquire() else "busy"
    except redis.RedisError as error:
        why = str(error)
    if why:
        say("failed", why=why)
        time.sleep(dice.uniform(0.01, 0.05))
        continue
    say("got")
    work_ends = time.monotonic() + ttl * dice.uniform(0.4, 1.3)
    try:
        while time.monotonic() < work_ends:
            say("ask")
            lock.reacquire()
            say("got")
            say("read")
            say("write")
    except redis.RedisError as error:
        say("lost", why=str(error))
        continue
    say("release")
    try:
        lock.release()
    except redis.RedisError:
        pass
