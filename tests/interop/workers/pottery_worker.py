# A worker with pottery. Arguments: the port of the counter, the resource, the ports of the locks.
# Its lines and answers are those of tests/interop/foreign.rs.
import random
import sys
import time

from pottery import Redlock, ReleaseUnlockedLock
from redis import Redis

counter_port, resource, *ports = sys.argv[1:]
counter = Redis(port=int(counter_port))
masters = {Redis(port=int(port)) for port in ports}
# It puts its own prefix before each key.
key = resource.removeprefix('redlock:')


def attempt(seconds):
    lock = Redlock(key=key, masters=masters, auto_release_time=seconds)
    return lock if lock.acquire(blocking=False) else None


def increment():
    seen = int(counter.get('counter'))
    time.sleep(0.001)
    counter.set('counter', seen + 1)


def work(times):
    done = 0
    while done < times:
        lock = attempt(20)
        if lock is not None:
            increment()
            lock.release()
            done += 1
        time.sleep(random.uniform(0.001, 0.005))


held = None
for line in sys.stdin:
    verb, *arguments = line.split()
    answer = 'done'
    if verb == 'hello':
        answer = 'ready'
    elif verb == 'try':
        held = attempt(int(arguments[0]) / 1000)
        answer = 'busy' if held is None else 'got'
    elif verb == 'release':
        try:
            held.release()
            answer = 'released'
        except ReleaseUnlockedLock:
            answer = 'gone'
    elif verb == 'work':
        work(int(arguments[0]))
    elif verb == 'careless':
        for _ in range(int(arguments[0])):
            increment()
    print(answer, flush=True)
