// A worker of `quorlock chaos --worker` with node-redlock: `using`, which extends by itself, and its signal before each write.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(process.env.NODE_MODULES + '/');
const { default: Redlock } = require('redlock');
const Redis = require('ioredis');

const told = (name) => process.env['CHAOS_' + name];
const ttl = Number(told('TTL_MS'));
const nodes = told('NODES').split(',').map((url) => new Redis(url, { maxRetriesPerRequest: 1 }));
for (const node of nodes) node.on('error', () => {});
// With its own retries it keeps the keys of a failed attempt while it pauses: one attempt each, and a loop of our own.
const redlock = new Redlock(nodes, { retryCount: 0 });
redlock.on('error', () => {});

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = async (event, more = {}) => {
    process.stdout.write(JSON.stringify({ event, ...more }) + '\n');
    if ((await answers.next()).done) process.exit();
};

let state;
const work = async (signal) => {
    state = 'held';
    await say('got');
    const ends = Date.now() + ttl * (0.4 + 0.9 * Math.random());
    while (Date.now() < ends) {
        await say('read');
        if (signal.aborted) throw signal.error;
        await say('write');
        if (signal.aborted) throw signal.error;
    }
    await say('release');
    state = 'released';
};
for (;;) {
    await say('ask');
    state = 'asked';
    const why = await redlock.using([told('RESOURCE')], ttl, work).catch((error) => error.message);
    if (state === 'held') await say('lost', { why });
    if (state === 'asked') await say('failed', { why });
    if (state !== 'released') await sleep(10 + Math.random() * 40);
}
