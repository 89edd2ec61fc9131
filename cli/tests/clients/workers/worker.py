"""A program of a user of the client in Python, by orders line by line: see `caller.rs`."""
import asyncio, os, signal, sys, threading, time

import quorlock, quorlock_asyncio

lease = None


def told(do):
    """Waits for the word of the loss. Returns the milliseconds since `do`, and since the end as it was known before."""
    asked = time.monotonic()
    end = asked + lease.check() / 0.95
    do()
    began = time.monotonic()
    lease.lost.wait()
    now = time.monotonic()
    return f"told {(now - began) * 1000:.0f} {(now - end) * 1000:.0f}"


def fork():
    child = os.fork()
    if child == 0:
        # With all descriptors of this process.
        time.sleep(600)
        os._exit(0)
    return f"forked {child}"


def in_a_child():
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            lease.check()
        except quorlock.Lost:
            lease.release()  # It does nothing: the lease is the parent's.
            os.write(writing, b"lost")
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf8") as answer:
        said = answer.read()
    os.wait()
    return said


def race():
    """Checks in the moment of a release. Each ends, and none says that it is held behind the release."""
    late, released = [], threading.Event()

    def check():
        try:
            while True:
                was_released = released.is_set()
                lease.check()
                if was_released:
                    late.append(1)
        except quorlock.Lost:
            pass

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.005)
    lease.release()
    released.set()
    for thread in threads:
        thread.join()
    return f"raced {len(late)}"


def settled():
    """Descriptors, and children and threads, once what ends is gone."""
    limit = time.monotonic() + 30
    while count()[1] and time.monotonic() < limit:
        time.sleep(0.01)
    return count()


def count():
    fds = len(os.listdir("/proc/self/fd"))
    children = sum(len(open(f"/proc/self/task/{task}/children").read().split()) for task in os.listdir("/proc/self/task"))
    return fds, children + threading.active_count() - 1


def cycles(name, times):
    with quorlock.hold(name):
        pass
    before, last = settled(), 0
    for at in range(int(times)):
        with quorlock.hold(name) as held:
            held.check()
            assert held.token > last, "tokens rise"
            if at % 10 == 0:
                assert hold(name, "wait=0s") == "busy"
            last = held.token
    after = settled()
    return f"cycles {before[0]} {after[0]} {after[1]}"


def hold(name, *options):
    global lease
    try:
        lease = quorlock.hold(name, **dict(option.split("=") for option in options))
        return f"granted {lease.token}"
    except quorlock.Busy:
        return "busy"
    except quorlock.NoQuorum:
        return "no_quorum"
    except quorlock.Error as error:
        return f"error {str(error).splitlines()[0]}"


def attempt(what, well):
    try:
        return well(what())
    except quorlock.Lost:
        return "lost"
    except quorlock.NoQuorum:
        return "no_quorum"


waits = None  # The thread, how it is cancelled, and what it says at its end.


def begin(name):
    """Waits aside."""
    global waits
    ended, said = threading.Event(), []

    def wait():
        try:
            quorlock.hold(name, cancel=ended)
            said.append("granted")
        except quorlock.Cancelled:
            said.append("cancelled")
        except quorlock.Error as error:
            said.append(f"{type(error).__name__} {error}")

    waits = threading.Thread(target=wait), ended.set, said
    waits[0].start()
    return "begun"


def begin_in_asyncio(name):
    """The same, and whoever is cancelled holds it or waits for it."""
    global waits
    loop, said = asyncio.new_event_loop(), []

    async def work():
        async with quorlock_asyncio.hold(name) as lease:
            said.append(f"granted {lease.token}")
            await asyncio.sleep(600)

    task = loop.create_task(work())

    def run():
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            said.append("cancelled")

    waits = threading.Thread(target=run), lambda: loop.call_soon_threadsafe(task.cancel), said
    waits[0].start()
    return "begun"


def mistakes(name):
    """What must not be taken for something else."""
    for options in ({"blocking": False}, {"wait": False}, {"set": {"wait": "1s"}}, {"wait": b"1s"}, {"wait": [["1s"]]}):
        try:
            quorlock.hold(name, **options)
            return f"taken: {options}"
        except TypeError as error:
            assert "takes text" in str(error), error
    for wrong in (None, 42):
        try:
            quorlock.hold(wrong)
            return f"taken: {wrong}"
        except TypeError as error:
            assert "a name is text" in str(error), error
    held = quorlock.hold(name, try_=False, wait=None)
    assert not held.released and held.also is None
    with held:
        pass
    assert held.released
    try:
        with held:
            return "held again"
    except quorlock.Lost:
        return "refused"


def cancel():
    waits[1]()
    return ended()


def ended():
    thread, _, said = waits
    thread.join()
    return said[-1]


ORDERS = {
    "mistakes": mistakes,
    "begin": begin,
    "begin-in-asyncio": begin_in_asyncio,
    "cancel": cancel,
    "ended": ended,
    "hold": hold,
    "check": lambda: attempt(lambda: lease.check(), lambda left: f"held {left * 1000:.0f}"),
    "is-lost": lambda: str(lease.lost.is_set()).lower(),
    "release": lambda: attempt(lambda: lease.release(), lambda _: "released"),
    "told": lambda: told(lambda: None),
    "kill": lambda pid: told(lambda: os.kill(int(pid), signal.SIGKILL)),
    "stop": lambda pid: told(lambda: os.kill(int(pid), signal.SIGSTOP)),
    "fork": fork,
    "in-a-child": in_a_child,
    "race": race,
    "cycles": cycles,
}
for line in sys.stdin:
    order, *words = line.split()
    print(ORDERS[order](*words), flush=True)
