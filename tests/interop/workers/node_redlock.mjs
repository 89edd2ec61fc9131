// A worker with node-redlock. Arguments: the port of the counter, the resource, the ports of the locks.
// Its lines and answers are those of tests/interop/foreign.rs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(process.env.NODE_MODULES + '/');
const { default: Redlock } = require('redlock');
const Redis = require('ioredis');

const [counterPort, resource, ...ports] = process.argv.slice(2);
const connect = (port) => new Redis({ host: '127.0.0.1', port: Number(port) });
const counter = connect(counterPort);
// It keeps the keys of a failed attempt while it goes on by itself: one attempt each, and a loop of our own.
const redlock = new Redlock(ports.map(connect), { retryCount: 0, automaticExtensionThreshold: 500 });
redlock.on('error', () => {});

// Several at once, where they are named with commas between them.
const attempt = (ttl) => redlock.acquire(resource.split(','), ttl).catch(() => null);
const increment = async () => {
    const seen = Number(await counter.get('counter'));
    await sleep(1);
    await counter.set('counter', seen + 1);
};
const work = async (times) => {
    for (let done = 0; done < times; ) {
        const lock = await attempt(20000);
        if (lock) {
            await increment();
            await lock.release();
            done += 1;
        }
        await sleep(1 + Math.random() * 4);
    }
};

let held = null;
for await (const line of createInterface({ input: process.stdin })) {
    const [verb, argument] = line.split(' ');
    let answer = 'done';
    if (verb === 'hello') answer = 'ready';
    else if (verb === 'try') {
        held = await attempt(Number(argument));
        answer = held ? 'got' : 'busy';
    } else if (verb === 'release') {
        answer = await held.release().then(() => 'released', () => 'gone');
    } else if (verb === 'work') await work(Number(argument));
    else if (verb === 'careless') for (let i = 0; i < Number(argument); i++) await increment();
    console.log(answer);
}
process.exit(0);
