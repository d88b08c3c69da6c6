// http_node.js - takes ids over HTTP by what JavaScript programs use: axios, fetch, a client of our
// own openapi.json (openapi-fetch), as docs/clients.md says. Prints what test_resp_clients.py
// compares. Arguments: which of them, address, tag.
'use strict';
const [which, address, tag] = process.argv.slice(2);
const base = `http://${address}`;
const path = `/api/segment/get/${tag}`;

const clients = {
  async axios() {
    const axios = require('axios');
    const text = { responseType: 'text', transformResponse: (body) => body };
    console.log((await axios.get(base + path, text)).data);
    console.log((await axios.get(`${base}${path}?format=json`)).data.ranges[0].first);
  },
  async fetch() {
    console.log(await (await fetch(base + path)).text());
    console.log((await (await fetch(`${base}${path}?format=json`)).json()).ranges[0].first);
  },
  async 'openapi-fetch'() {
    const module = require('openapi-fetch');
    const client = (module.default || module)({ baseUrl: base });
    for (let i = 0; i < 2; i++) {
      const options = { params: { path: { tag }, query: { format: 'json' } } };
      const { data } = await client.GET('/api/segment/get/{tag}', options);
      console.log(data.ranges[0].first);
    }
  },
};

clients[which]().catch((error) => {
  console.log('failed', error);
  process.exit(1);
});
