// A program of a user of the client in Node, by orders line by line: see `caller.rs`.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const { hold, withLease, Busy, NoQuorum, Lost, Released } = await import(pathToFileURL(process.argv[2]));

let [lease, waits] = [];

/** Waits aside. */
function begin(name) {
  const enough = new AbortController();
  waits = { enough, end: hold(name, { signal: enough.signal }).then(() => "granted", (error) => `${error}`.replace("Error: c", "c")) };
  return "begun";
}

/** What must not be taken for something else. */
async function mistakes(name) {
  const refused = (what) => what.then(() => { throw new Error("taken"); }, (error) => { if (!(error instanceof TypeError)) throw error; });
  for (const options of [{ wait: false }, { blocking: false }, { set: { wait: "1s" } }, { also: "b\ud800" }, { wait: new Date() }])
    await refused(hold(name, options));
  for (const wrong of [undefined, 42, "a\ud800"]) await refused(hold(wrong));
  await refused(withLease(name, "1s"));
  const warnings = [];
  process.on("warning", (warning) => warnings.push(warning));
  const { signal } = new AbortController();
  const all = await Promise.all([...Array(12).keys()].map((at) => hold(`${name}:${at}`, { signal, try: false, wait: null })));
  for (const one of all) {
    await one.release();
    if (!(one.signal.reason instanceof Released)) throw one.signal.reason;
  }
  const token = await withLease(name, (held) => held.token);
  const busy = await withLease(name, () => hold(name, { try: true }).catch((error) => error.stack));
  if (!busy.includes("worker.mjs") || warnings.length || !token) throw new Error([busy, warnings]);
  return "refused";
}

async function cancel() {
  waits.enough.abort(new Error("cancelled"));
  return waits.end;
}

/** Waits for the word of the loss. Returns the milliseconds since `act`, and since the end as it was known before. */
async function told(act) {
  const asked = performance.now();
  const end = asked + (await lease.check()) / 0.95;
  const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
  act();
  const began = performance.now();
  await lost;
  const now = performance.now();
  if (!(lease.signal.reason instanceof Lost)) throw lease.signal.reason;
  return `told ${Math.round(now - began)} ${Math.round(now - end)}`;
}

/** Checks in the moment of a release. Each ends, and none says that it is held behind the release. */
async function race() {
  let [late, released] = [0, false];
  const check = async () => {
    for (;;) {
      const wasReleased = released;
      await lease.check();
      late += wasReleased;
    }
  };
  const all = Promise.allSettled([1, 2, 3, 4].map(check));
  await sleep(5);
  await lease.release();
  released = true;
  const ends = await all;
  if (!ends.every((end) => end.reason instanceof Lost)) throw ends;
  return `raced ${late}`;
}

/** Descriptors and children. */
function count() {
  const tasks = readdirSync("/proc/self/task").map((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8"));
  return [readdirSync("/proc/self/fd").length, tasks.join(" ").split(" ").filter(Boolean).length];
}

/** The same once what ends is gone. */
async function settled() {
  const limit = performance.now() + 30_000;
  while (count()[1] > 0 && performance.now() < limit) await sleep(10);
  return count();
}

async function cycles(name, times) {
  await withLease(name, {}, () => {});
  const before = await settled();
  for (let last = 0, at = 0; at < Number(times); at++) {
    last = await withLease(name, {}, async (held) => {
      await held.check();
      if (held.token <= last) throw new Error("tokens rise");
      if (at % 10 === 0 && (await orders.hold(name, "wait=0s")) !== "busy") throw new Error("it is busy");
      return held.token;
    });
  }
  return `cycles ${before[0]} ${(await settled()).join(" ")}`;
}

const lost = (error) => {
  if (error instanceof Lost) return "lost";
  if (error instanceof NoQuorum) return "no_quorum";
  throw error;
};
const orders = {
  hold: (name, ...options) =>
    hold(name, Object.fromEntries(options.map((option) => option.split("=")))).then(
      (held) => `granted ${(lease = held).token}`,
      (error) => (error instanceof Busy ? "busy" : error instanceof NoQuorum ? "no_quorum" : `error ${error.message.split("\n")[0]}`),
    ),
  check: () => lease.check().then((left) => `held ${Math.round(left)}`, lost),
  "is-lost": () => lease.signal.aborted,
  release: () => lease.release().then(() => "released", lost),
  told: () => told(() => {}),
  kill: (pid) => told(() => process.kill(Number(pid), "SIGKILL")),
  stop: (pid) => told(() => process.kill(Number(pid), "SIGSTOP")),
  fork: () => `forked ${spawn("sleep", ["600"], { stdio: "inherit" }).pid}`,
  race,
  mistakes,
  begin,
  cancel,
  ended: () => waits.end,
  cycles,
};
for await (const line of createInterface({ input: process.stdin })) {
  const [order, ...words] = line.split(" ");
  console.log(await orders[order](...words));
}
process.exit(0);
