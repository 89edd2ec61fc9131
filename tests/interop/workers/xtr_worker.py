# A worker with xtr-lock: its readers and writers on a majority of several servers. Arguments: the port of the store, the
# resource, the ports of the locks. The lines `hello` and `release` are those of tests/interop/foreign.rs; beside them
#   read MS, write MS    one attempt with this ttl: got, busy
#   held                 whether the servers say so: held, gone
#   look                 what stands in the store
#   put VALUE            looks whether its lock has expired, says `checked`, and half a second later writes: put, expired
import asyncio
import sys
import time

from redis import Redis
from xtr_lock import CombinedStore, LockFactory, RedisStore
from xtr_lock.strategy import ConsensusStrategy

store_port, resource, *ports = sys.argv[1:]
store = Redis(port=int(store_port))


def lock_for(seconds):
    # Without a name server, and with new connections each time: those of a server that was restarted are gone.
    stores = [RedisStore.from_url(f'redis://127.0.0.1:{port}', seconds) for port in ports]
    return LockFactory(CombinedStore(stores, ConsensusStrategy())).create_lock(resource, ttl=seconds)


async def obey(verb, arguments, held):
    if verb == 'hello':
        return 'ready', held
    if verb in ('read', 'write'):
        lock = lock_for(int(arguments[0]) / 1000)
        got = await (lock.acquire_read() if verb == 'read' else lock.acquire())
        return ('got', lock) if got else ('busy', held)
    if verb == 'release':
        await held.release()
        return 'released', None
    if verb == 'held':
        return ('held' if await held.is_acquired() else 'gone'), held
    if verb == 'look':
        return store.get('value').decode(), held
    if verb == 'put':
        if held.is_expired():
            return 'expired', held
        print('checked', flush=True)
        time.sleep(0.5)
        store.set('value', arguments[0])
        return 'put', held
    raise ValueError(verb)


async def main():
    held = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *arguments = line.split()
        answer, held = await obey(verb, arguments, held)
        print(answer, flush=True)


asyncio.run(main())
