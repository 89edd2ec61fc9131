// A worker with node-redlock. Arguments: how many sets of connections, and the addresses of the servers.
// Its lines and answers are those of benches/compare/src/waiting/orders.rs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(process.env.NODE_MODULES + '/');
const { default: Redlock } = require('redlock');
const Redis = require('ioredis');

const TTL = 10000;
const [count, urls] = process.argv.slice(2);
const connected = [];
// With its own retries it keeps the keys of a failed attempt while it pauses, and eight processes that begin at once can
// block each other for the ttl. So it has one attempt each, and a loop with its default pauses: 200 ms, or 100 more or less.
const client = () => {
    const nodes = urls.split(',').map((url) => new Redis(url));
    for (const node of nodes) connected.push(new Promise((done) => node.once('ready', done)));
    const redlock = new Redlock(nodes, { retryCount: 0 });
    redlock.on('error', () => {});
    return redlock;
};
const clients = Array.from({ length: Number(count) }, client);
await Promise.all(connected);

const now = () => process.hrtime.bigint();
const millis = (then) => Math.max(0, Number((then - now()) / 1000000n));
const say = (line) => process.stdout.write(line + '\n');
const lock = async (slot, resource, limit) => {
    for (;;) {
        try {
            return await clients[slot % clients.length].acquire([resource], TTL);
        } catch (error) {
            if (limit && now() >= limit) return null;
            await sleep(100 + Math.random() * 200);
        }
    }
};

const held = new Map();
const take = async (slot, resource) => {
    const asked = now();
    const lease = await lock(Number(slot), resource);
    const got = now();
    held.set(slot, lease);
    say(`got ${slot} ${asked} ${got}`);
};
const give = async (slot) => {
    const called = now();
    await held.get(slot).release();
    say(`gave ${slot} ${called} ${now()}`);
};
const fight = async (task, resources, hold, prefix, until) => {
    for (;;) {
        const asked = now();
        if (asked >= until) return;
        const lease = await lock(task, `${prefix}:${task % resources}`, until + 3000000000n);
        if (!lease) return say(`number starved ${Number(now() - asked) / 1000}`);
        const got = now();
        await sleep(hold / 1000);
        const called = now();
        await lease.release().catch((error) => say(`failed ${error.message.split('\n')[0]}`));
        say(`grant ${task} ${asked} ${got} ${called}`);
    }
};
const hot = async (tasks, resources, hold, prefix, from, until) => {
    const each = (_, task) => fight(task, Number(resources), Number(hold), prefix, BigInt(until));
    const all = Promise.all(Array.from({ length: Number(tasks) }, each));
    await sleep(millis(BigInt(from)));
    const before = process.cpuUsage();
    await sleep(millis(BigInt(until)));
    const used = process.cpuUsage(before);
    await all;
    say(`number cpu ${used.user + used.system}`);
    say('done');
};

const verbs = { take, give, hot };
say('ready');
for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(' ');
    const failed = (error) => say(`failed ${String(error).split('\n')[0]}`);
    if (verbs[verb]) verbs[verb](...words).catch(failed);
    else say(`failed no order: ${line}`);
}
process.exit(0);
