"""Holds leases of quorlock, by a process `quorlock hold` for each. Needs Unix, Python 3.8, and that program on the PATH."""
import contextlib, functools, json, math, os, select, subprocess, threading, time
class Error(Exception): """The lease was not granted or given back. The text says why, and what to do."""
class Busy(Error): """Somebody else holds it."""
class NoQuorum(Error): """Too few nodes answer."""
class Lost(Error): """The lease is over: stop the work."""
class Cancelled(Error): """The wait was ended by `cancel`."""
_FLAGS = ("try", "elect", "shared", "classic", "danger_skip_quarantine")
_clock = functools.partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # Counts in sleep too.
class _Over:
    """As much of an Event as is needed, also where a handler of a signal ends the lease."""
    def __init__(self, lease): self._lease = lease
    def is_set(self): return self._lease._end is not None
    def wait(self, timeout=None):
        with self._lease._changed:
            return self._lease._changed.wait_for(self.is_set, timeout)
class Lease:
    """Waits until it holds `name`, by options of `quorlock hold --help`, as in wait="1m", try_=True, also=["b", "c"]; without
    `wait` as long as it takes, or until `cancel`, an Event, is set. It has resource, owner, token (larger than that of every
    lease before; of every one of its slot, where it has one; readers share theirs), also, slot, term; `released`; and `lost`,
    with `wait` and `is_set`, for its end, by a release too. All threads may use it, and no forked child: it is its parent's."""
    def __init__(self, name, *, program=None, cancel=None, **options):
        line = [program or os.environ.get("QUORLOCK_BIN") or "quorlock", "hold", "--json", "--caller", str(os.getpid())]
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"a name is text, and not {name!r}")
        for key, value in options.items():
            option = "--" + key.strip("_").replace("_", "-")
            for one in value if isinstance(value, (list, tuple, set)) else [value]:
                if one is None or one is False and key.strip("_") in _FLAGS:
                    continue
                if one is False or not isinstance(one, (str, int, float)):
                    raise TypeError(f"{option} takes text, a number or True, and not {one!r}")
                line += [option] if one is True else [f"{option}={one}"]
        self.lost, self._changed, self._pid = _Over(self), threading.Condition(), os.getpid()
        self._granted = self._end = None
        self.released = False
        self._asked, self._count = {}, 0  # By number, when it was asked, and the answer.
        self._until = self._ask_at = math.inf  # By _clock: until when it surely holds, and when to ask again.
        try:
            self._helper = subprocess.Popen(line + ["--", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise Error(f"quorlock cannot be started, from the PATH or QUORLOCK_BIN: {error}") from None
        try:
            os.set_blocking(self._helper.stdin.fileno(), False)  # A stopped helper must hold up nobody.
            threading.Thread(target=self._listen, name="quorlock", daemon=True).start()
            with self._changed:
                self._wait(lambda: self._granted or self._end, cancel)
            self.check(cancel)  # From here on it is known until when.
            for key in ("resource", "also", "owner", "token", "slot", "term"):
                value = self._granted.get(key)
                setattr(self, key, int(value) if value and key in ("token", "term") else value)
        except BaseException:
            with self._changed:
                self._ask("release")  # Undoes it, also where a forked child has the pipe too.
                self._helper.stdin.close()
                late = threading.Timer(5, self._helper.kill)  # Where it is stopped.
                late.daemon = True
                if not self._end:
                    late.start()
            raise
    def check(self, cancel=None):
        """The seconds for which the lease surely holds. Raises Lost once it is over. Call it right before each effect."""
        if os.getpid() != self._pid:
            raise Lost("this process was forked from the one that has the lease")
        with self._changed:
            asked = None if self._end else self._ask("check")
            self._wait(lambda: self._end or asked[1], cancel)
            self._look()  # The answer may have come too late.
            if self._end:
                raise type(self._end)(*self._end.args)
            return self._until - _clock()
    def release(self):
        """Gives the lease back. Raises Lost if it was lost before, and NoQuorum if too few nodes confirm: it then expires.
        A second one does nothing. A `with` is silent where too few nodes confirm."""
        if os.getpid() != self._pid:
            return
        try:
            with self._changed:
                if self.released:
                    return
                before, self.released = self._end, True
                self._over(Lost("the lease was given back"))
                asked = self._ask("release")
                self._helper.stdin.close()
        finally:
            self._helper.stdin.close()  # Also where it is interrupted.
        with self._changed:
            if not before and not self._changed.wait_for(lambda: asked[1] or self._helper.returncode is not None, timeout=5):
                self._helper.kill()
                raise NoQuorum("quorlock does not answer; the lease expires by itself")
        last = asked[1] or {"event": "lost", "reason": "the lease was lost while it was given back"}
        if before or last["event"] != "released":
            raise before or (Lost if last["event"] == "lost" else NoQuorum)(last["reason"])
    def __enter__(self):
        try:
            self.check()  # One that was given back is not held again.
        except BaseException:
            self.__exit__(True)
            raise
        return self
    def __exit__(self, kind, *_):
        with contextlib.suppress(Error if kind else NoQuorum):
            self.release()
    def _wait(self, is_done, cancel):
        while not is_done():
            if cancel and cancel.is_set():
                raise Cancelled("the wait was cancelled")
            self._changed.wait(cancel and 0.1)
    def _ask(self, what):
        self._count = number = self._count + 1  # A handler of a signal may ask in between.
        self._ask_at = math.inf  # Until that is answered.
        self._asked[number] = asked = [_clock(), None]
        with contextlib.suppress(OSError, ValueError):  # Where it has ended its output says so.
            self._helper.stdin.write(f"{what} {number}\n".encode())
        return asked
    def _over(self, end):
        self._end, self._until, self._ask_at = self._end or end, math.inf, math.inf
        self._changed.notify_all()
    def _look(self):  # By the clock alone, whatever else stands still.
        if not self._end and _clock() >= self._until:
            self._over(Lost("this process or quorlock stood still until the lease was over"))
            self._helper.kill()
    def _listen(self):
        said = ""
        try:
            self._read()
        except Exception as error:  # What it has said is no event.
            said = f" ({error!r})"
        self._helper.kill()  # Where it does not end, and can say nothing any more.
        status = self._helper.wait()
        with self._changed, self._helper:  # Whose end closes the pipes.
            self._over((Lost if self._granted else Error)(f"`quorlock hold` ended with status {status}{said}; see its standard error"))
    def _read(self):
        out, chunk, rest, poll = self._helper.stdout, None, b"", select.poll()
        poll.register(out, select.POLLIN)
        while chunk != b"":
            within = max(0, math.ceil((min(self._until, self._ask_at, _clock() + 60) - _clock()) * 1000))
            chunk = poll.poll(within) and os.read(out.fileno(), 65536)
            with self._changed:
                *lines, rest = (rest + (chunk or b"")).split(b"\n")
                for event in (json.loads(line) for line in lines if line.startswith(b"{")):
                    self._heard(event)
                self._look()
                if _clock() >= self._ask_at:
                    self._ask("check")
    def _heard(self, event):
        asked, failed = self._asked.pop(int(event.get("asked", 0)), None), {"busy": Busy, "broken": NoQuorum, None: Lost}
        if event["event"] == "granted":
            self._granted, self._until = event, _clock() + event["validity_ms"] * 0.00095  # Unless it answers by then.
        elif event["event"] in ("lost", "failed"):
            self._over(failed.get(event.get("what"), Error)(event["reason"]))
        if asked:
            asked[1] = event
            if event["event"] in ("held", "refused") and not self._end:
                # From before it was asked, and a twentieth less, so that who is told late is told in time.
                self._until, self._ask_at = (asked[0] + event["validity_ms"] * part for part in (0.00095, 0.0003))
        self._changed.notify_all()
hold = Lease
