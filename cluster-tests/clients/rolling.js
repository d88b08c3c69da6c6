// rolling.js - asks nodes for ids over keep-alive connections of node's http.Agent while they are
// restarted one after the other: see test_rolling_restart.py for what is printed.
'use strict';
const http = require('http');

const urls = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
let asked = 0;
let stopped = false;

// A node that stops ends no connection before it was idle for half a second. A request that meets
// the end of one was not read: node leaves it to its users to repeat it (request.reusedSocket).
const IDLE_MS = 490;

function ask(url) {
  return new Promise((resolve, reject) => {
    let idleMs = 0;
    const request = http.get(url, { agent, timeout: 15000 }, (reply) => {
      reply.on('data', () => {});
      reply.on('error', reject);
      reply.on('end', () =>
        reply.statusCode === 200 ? resolve() : reject(new Error(`status ${reply.statusCode}`)));
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('socket', (socket) => {
      const now = performance.now();
      idleMs = now - (socket.askedAt ?? now);
      socket.askedAt = now;
    });
    request.on('error', (error) => {
      const unread = error.code === 'ECONNRESET' && request.reusedSocket && idleMs >= IDLE_MS;
      unread ? resolve(ask(url)) : reject(error);
    });
  });
}

async function run(first) {
  let at = first;
  for (let turn = 0; !stopped; turn++) {
    await new Promise((resolve) => setTimeout(resolve, (turn % 5) * 3));
    try {
      asked++;
      await ask(urls[at % urls.length]);
    } catch (error) {
      if (error.code !== 'ECONNREFUSED') {
        console.log(`cut: ${error.code} ${error.message}`);
      }
      at++;
    }
  }
}

const all = urls.flatMap((_, first) => [run(first), run(first)]);
console.log('started');
process.stdin.resume();
process.stdin.on('end', async () => {
  stopped = true;
  await Promise.all(all);
  console.log(`asked: ${asked}`);
  process.exit(0);
});
