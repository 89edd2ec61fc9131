/** Holds leases of quorlock, by a process `quorlock hold` for each. Needs Unix, Node 20, and that program on the PATH. */
import { spawn } from "node:child_process";
import { setMaxListeners } from "node:events";
import { createInterface } from "node:readline";
/** The lease was not granted or given back. The text says why, and what to do. */
export class QuorlockError extends Error {
  name = this.constructor.name;
}
/** Somebody else holds it. */
export class Busy extends QuorlockError {}
/** Too few nodes answer. */
export class NoQuorum extends QuorlockError {}
/** The lease is over: stop the work. */
export class Lost extends QuorlockError {}
/** It is over by a release. */
export class Released extends Lost {}
const flags = ["try", "elect", "shared", "classic", "dangerSkipQuarantine"];
/**
 * Waits until it holds `name`. Options are those of `quorlock hold --help`, as in { wait: "1m", try: true, also: ["b", "c"],
 * holdAtLeast: "5s" }; `signal`, an AbortSignal that ends the wait; and `program`, by default that in QUORLOCK_BIN.
 *
 * The lease has resource, owner, token (a number larger than that of every lease before; of every one of its slot, where it has
 * one; readers share theirs), also, slot, term; and `signal`, an AbortSignal that is aborted once it is over, by a release too:
 * its reason is then a Released. The process does not end by itself while it has a lease.
 */
export async function hold(name, all) {
  const { program = process.env.QUORLOCK_BIN || "quorlock", signal, ...options } = all ?? {};
  signal?.throwIfAborted();
  if (signal instanceof EventTarget) setMaxListeners(0, signal); // As many waits as there are may end by one.
  const isText = (text) => typeof text === "string" && text.isWellFormed();
  if (!isText(name)) throw new TypeError("a name is a string of whole characters");
  const line = ["hold", "--json", "--caller", String(process.pid)];
  for (const [key, value] of Object.entries(options)) {
    const option = "--" + key.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one == null || (one === false && flags.includes(key))) continue;
      if (one !== true && typeof one !== "number" && !isText(one)) throw new TypeError(`${option} takes text, a number or true`);
      line.push(one === true ? option : `${option}=${one}`);
    }
  }
  const helper = spawn(program, [...line, "--", name], { stdio: ["pipe", "pipe", "inherit"] });
  const [ended, asked] = [new AbortController(), new Map()]; // By number, when it was asked, and whom to tell.
  let [count, until, timers, granted, released] = [0, Infinity, [], undefined, undefined];
  const lease = { signal: ended.signal, check, release: () => (released ??= Promise.resolve().then(giveBack)) };
  lease[Symbol.asyncDispose] = () => lease.release().catch((error) => { if (error instanceof Lost) throw error; });
  function ask(what) {
    return new Promise((tell) => {
      asked.set(String(++count), { at: performance.now(), tell });
      helper.stdin.write(`${what} ${count}\n`);
    });
  }
  function over(error) {
    timers.forEach(clearTimeout);
    ended.abort(error); // Which keeps the first reason.
    asked.forEach(({ tell }) => tell({ event: "lost", reason: String(error?.message ?? error) }));
    asked.clear();
  }
  function look() { // By the clock alone, whatever else stands still.
    if (ended.signal.aborted) return;
    const early = until - performance.now(); // As timers are, by a part of a millisecond.
    if (early > 0) return void timers.push(setTimeout(look, Math.min(early, 1e9) + 1));
    stuck();
  }
  function stuck() {
    over(new Lost("this process or quorlock stood still until the lease was over"));
    helper.kill("SIGKILL");
  }
  function heard(event) {
    const { at, tell } = asked.get(event.asked) ?? {};
    asked.delete(event.asked);
    if (event.event === "granted") {
      const { resource, owner, token, also, slot, term } = event;
      timers.push(setTimeout(stuck, Math.min(event.validity_ms, 1e9))); // Unless it answers by then.
      Object.assign(lease, { resource, owner, token: token && Number(token), also, slot, term: term && Number(term) });
      granted();
    } else if (event.event === "lost" || event.event === "failed") {
      over(new ({ busy: Busy, broken: NoQuorum, undefined: Lost }[event.what] ?? QuorlockError)(event.reason));
    } else if (tell && !ended.signal.aborted) {
      if (event.event !== "held" || !Number.isFinite(event.validity_ms)) throw new TypeError(event.event);
      // From before it was asked, and a twentieth less, so that who is told late is told in time.
      until = at + event.validity_ms * 0.95;
      timers.forEach(clearTimeout);
      timers = [setTimeout(ask, Math.min(event.validity_ms * 0.3, 1e9), "check")];
      look();
    }
    tell?.(event);
  }
  /** The milliseconds for which the lease surely holds. Throws Lost once it is over. Await it right before each effect. */
  async function check() {
    if (!ended.signal.aborted) await ask("check");
    look(); // The answer may have come too late.
    if (ended.signal.aborted) throw ended.signal.reason;
    return until - performance.now();
  }
  /** Gives the lease back. Throws Lost if it was lost before, and NoQuorum if too few nodes confirm: it then expires. */
  async function giveBack() {
    const lost = ended.signal.aborted;
    over(new Released("the lease was given back"));
    const answer = ask("release");
    helper.stdin.end();
    if (lost) throw ended.signal.reason;
    const late = setTimeout(() => {
      asked.forEach(({ tell }) => tell({ event: "not_released", reason: "quorlock does not answer; the lease expires by itself" }));
      helper.kill("SIGKILL");
    }, 5000);
    const last = await answer;
    clearTimeout(late);
    if (last.event !== "released") throw new (last.event === "lost" ? Lost : NoQuorum)(last.reason);
  }
  const gone = (reason) => over(new (lease.owner ? Lost : QuorlockError)(reason));
  helper.on("error", (error) => gone(`quorlock cannot be started: ${error.message}`));
  helper.on("close", (code, by) => gone(`\`quorlock hold\` ended with ${by ?? code}; see its standard error`));
  if (!helper.stdin) await new Promise((done) => helper.on("error", done)), ended.signal.throwIfAborted();
  helper.stdin.on("error", () => {}); // It has ended, and its output says so.
  createInterface({ input: helper.stdout }).on("line", (text) => {
    try { if (text.startsWith("{")) heard(JSON.parse(text)); }
    catch { gone(`it says what is no event: ${text.slice(0, 80)}`), helper.kill("SIGKILL"); }
  });
  const stop = () => until < Infinity || over(signal.reason);
  try {
    signal?.addEventListener("abort", stop);
    await new Promise((done) => { granted = done; ended.signal.addEventListener("abort", done); });
    await check(); // From here on it is known until when.
  } catch (error) {
    helper.stdin.end(); // Undoes it.
    setTimeout(() => helper.kill("SIGKILL"), 5000).unref(); // Where it is stopped.
    if (error instanceof QuorlockError && error !== signal?.reason) Error.captureStackTrace(error); // With the caller's line.
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  return lease;
}
/** Does `work` with a lease, gives it back, and returns what the work returns. Throws Lost if it was lost before the end. */
export async function withLease(name, options, work) {
  if (!work) [options, work] = [{}, options];
  if (typeof work !== "function") throw new TypeError("withLease takes a name, options, and what is to be done");
  const lease = await hold(name, options);
  let done;
  try {
    done = await work(lease);
  } catch (error) {
    await lease.release().catch(() => {});
    throw error;
  }
  await lease[Symbol.asyncDispose]();
  return done;
}
