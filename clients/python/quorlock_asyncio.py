"""Leases of quorlock for asyncio, beside quorlock.py: `async with quorlock_asyncio.hold("invoice:42", wait="5s") as lease`."""
import asyncio, contextlib, threading
import quorlock
def _aside(what, undo=lambda: None):
    """Does it in a thread that holds up nobody's end, also where nobody awaits it any more; and undoes it where nobody can."""
    loop, done = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    done.add_done_callback(lambda done: done.cancelled() or done.exception())  # Nobody has to hear of it.
    def run():
        try:
            tell, value = done.set_result, what()
        except Exception as error:
            tell, value = done.set_exception, error
        try:
            loop.call_soon_threadsafe(lambda: done.done() or tell(value))
        except RuntimeError:  # The loop has ended.
            undo()
    threading.Thread(target=run, name="quorlock", daemon=True).start()
    return done
@contextlib.asynccontextmanager
async def hold(name, **options):
    """As quorlock.hold. Who is cancelled gives up the wait, or gives the lease back. Check it by
    `await loop.run_in_executor(None, lease.check)`: a helper that stands still holds up a thread then, and not the loop."""
    cancel, turn, held = threading.Event(), threading.Lock(), []
    def acquire():
        lease = quorlock.hold(name, cancel=cancel, **options)
        with turn:
            if not cancel.is_set():
                held.append(lease)
                return lease
        lease.__exit__(True)
    def give_back():
        if held:
            threading.Thread(target=held[0].__exit__, args=(True,), daemon=True).start()
    try:
        lease = await _aside(acquire, give_back)
    except BaseException:
        with turn:
            cancel.set()
        give_back()
        raise
    try:
        yield lease
    except GeneratorExit:  # Nothing can be awaited.
        give_back()
        raise
    except BaseException:
        await asyncio.shield(_aside(lambda: lease.__exit__(True)))
        raise
    await asyncio.shield(_aside(lambda: lease.__exit__(None)))
