// resp_strings.js - takes two ids as strings, by ioredis or node-redis 6 or 5 (redis5). Arguments:
// which of them, port, tag.
'use strict';
const [which, port, tag] = process.argv.slice(2);

async function ioredis() {
  const Redis = require('ioredis');
  const redis = new Redis(Number(port), '127.0.0.1', { stringNumbers: true });
  console.log(await redis.incr(tag));
  console.log(await redis.call('LEAFD.NEXT', tag));
  redis.disconnect();
}

async function nodeRedis() {
  const { createClient, RESP_TYPES } = require(which);
  const typeMapping = { [RESP_TYPES.NUMBER]: String };
  const plain = createClient({ url: `redis://127.0.0.1:${port}` });
  await plain.connect();
  console.log(await plain.withTypeMapping(typeMapping).incr(tag));
  console.log(await plain.sendCommand(['LEAFD.NEXT', tag], { typeMapping }));
  await plain.close();
}

(which === 'ioredis' ? ioredis() : nodeRedis()).catch((error) => {
  console.log('failed', error);
  process.exit(1);
});
