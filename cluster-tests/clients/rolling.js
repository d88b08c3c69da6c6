// rolling.js - asks nodes for ids over keep-alive connections of node's http.Agent while they are
// restarted one after the other: see test_rolling_restart.py for what is printed.
'use strict';
const http = require('http');

const urls = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
let asked = 0;
let stopped = false;

function ask(url) {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { agent, timeout: 15000 }, (reply) => {
      reply.on('data', () => {});
      reply.on('error', reject);
      reply.on('end', () =>
        reply.statusCode === 200 ? resolve() : reject(new Error(`status ${reply.statusCode}`)));
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', reject);
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
