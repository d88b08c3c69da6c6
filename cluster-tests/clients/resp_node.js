// resp_node.js - takes ids by ioredis or by node-redis, as they are out of the box: INCR, INCRBY, a
// pipeline; prints what test_resp_clients.py compares. Arguments: which of them, port, tag.
'use strict';
const [which, port, tag] = process.argv.slice(2);

async function ioredis() {
  const Redis = require('ioredis');
  const redis = new Redis(Number(port), '127.0.0.1');
  console.log('incr', await redis.incr(tag));
  console.log('incrby', await redis.incrby(tag, 10));
  const pipeline = redis.pipeline();
  for (let i = 0; i < 100; i++) pipeline.incr(tag);
  console.log('pipeline', (await pipeline.exec()).pop()[1]);
  console.log('error', await redis.set(tag, 1).catch((error) => error.message));
  redis.disconnect();
}

async function nodeRedis() {
  const redis = require('redis').createClient({ url: `redis://127.0.0.1:${port}` });
  redis.on('error', (error) => console.log('connection', error.message));
  await redis.connect();
  console.log('incr', await redis.incr(tag));
  console.log('incrby', await redis.incrBy(tag, 10));
  const asked = [];
  for (let i = 0; i < 100; i++) asked.push(redis.incr(tag));
  console.log('pipeline', (await Promise.all(asked)).pop());
  console.log('error', await redis.set(tag, '1').catch((error) => error.message));
  await redis.close();
}

(which === 'ioredis' ? ioredis() : nodeRedis()).catch((error) => {
  console.log('failed', error);
  process.exit(1);
});
