"""Leases of quorlock for asyncio, beside quorlock.py: `async with quorlock_asyncio.hold("invoice:42", wait="5s") as lease`."""
import asyncio, concurrent.futures, contextlib, threading
import quorlock
@contextlib.asynccontextmanager
async def hold(name, **options):
    """As quorlock.hold, in a thread of its own. Who is cancelled gives up the wait, or gives the lease back. Check it by
    `await asyncio.to_thread(lease.check)`: a helper that stands still holds up that thread, and not the loop."""
    cancel, own = threading.Event(), concurrent.futures.ThreadPoolExecutor(1, "quorlock")
    def give_back(kind):
        return asyncio.shield(asyncio.wrap_future(own.submit(lease.__exit__, kind)))
    try:
        asked = own.submit(quorlock.hold, name, cancel=cancel, **options)
        try:
            lease = await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            cancel.set()
            own.submit(lambda: asked.exception() or asked.result().release())  # It may have been granted.
            raise
        try:
            yield lease
        except BaseException as error:
            await give_back(type(error))
            raise
        await give_back(None)
    finally:
        own.shutdown(wait=False)
