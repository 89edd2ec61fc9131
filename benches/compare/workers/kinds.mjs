// A worker with a library that knows kinds of locks. Arguments: which kind, and the addresses of the servers.
// To a line `NAME NAME ..` it acquires these, releases them, and answers with how many nanoseconds the acquire took, and both.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.env.NODE_MODULES + '/');
const Redis = require('ioredis');

const TTL = 10000;
const [kind, urls] = process.argv.slice(2);
const nodes = urls.split(',').map((url) => new Redis(url));
await Promise.all(nodes.map((node) => new Promise((done) => node.once('ready', done))));

const kinds = {
    redlock: () => {
        const { default: Redlock } = require('redlock');
        const redlock = new Redlock(nodes, { retryCount: 0 });
        redlock.on('error', () => {});
        return async (names) => {
            const lock = await redlock.acquire(names, TTL);
            return () => lock.release();
        };
    },
    semaphore: () => {
        const { RedlockSemaphore } = require('redis-semaphore');
        return async ([name]) => {
            const semaphore = new RedlockSemaphore(nodes, name, 10, { lockTimeout: TTL });
            await semaphore.acquire();
            return () => semaphore.release();
        };
    },
};

const acquire = kinds[kind]();
const now = () => process.hrtime.bigint();
process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
    try {
        const asked = now();
        const release = await acquire(line.split(' '));
        const got = now();
        await release();
        process.stdout.write(`${got - asked} ${now() - asked}\n`);
    } catch (error) {
        process.stdout.write(`failed ${String(error).split('\n')[0]}\n`);
    }
}
process.exit(0);
