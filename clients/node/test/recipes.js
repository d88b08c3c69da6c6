// The README's examples for Knex, Sequelize and Prisma. The first two run by the packages in the
// folder RECIPES (`make recipes`), without a database: Knex shows its statement, Sequelize validates.
// Prisma's client is a stand-in that calls what $extends() is given.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { FakeClient } from "../lib/index.js";

const load = createRequire(process.env.RECIPES);
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const examples = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, text]) => text);

/** Runs the example that has the word; what it names is given, and what it declares is the result. */
async function run(word, result, given) {
    const text = examples.find((one) => one.includes(word));
    assert.ok(text !== undefined, `README.md has an example with ${word}`);
    const AsyncFunction = run.constructor;
    return new AsyncFunction(...Object.keys(given), `${text}; return ${result};`)(
        ...Object.values(given));
}

const client = new FakeClient();
client.setNext("order", 9007199254740993n); // no double has it
const orders = client.segment("order");

const knex = load("knex")({ client: "pg" });
const inserted = [];
await run("knex(", "undefined", { orders, knex: (table) => ({
    insert: (row) => inserted.push(knex(table).insert(row).toSQL().toNative()) }) });
assert.deepEqual(inserted[0].bindings, ["9007199254740993", "tea"]);
assert.match(inserted[0].sql, /insert into "orders" \("id", "item"\)/);

const { DataTypes, Sequelize } = load("sequelize");
const sequelize = new Sequelize({ dialect: "postgres", logging: false,
    dialectModule: { types: { getTypeParser() {}, setTypeParser() {} } } });
const Order = await run("sequelize.define", "Order", { orders, sequelize, DataTypes });
const order = await Order.build({}).validate();
assert.equal((order ?? {}).id, "9007199254740994");
assert.equal((await Order.build({ id: "7" }).validate()).id, "7", "an id that is given stays");

const prisma = { $extends: ({ query }) => ({ order: { create: (args) =>
    query.order.create({ args, query: async (asked) => asked.data }) } }) };
const db = await run("prisma.$extends", "db", { orders, prisma });
assert.deepEqual(await db.order.create({ data: { item: "tea" } }),
    { id: 9007199254740995n, item: "tea" });
console.log("recipes: as they must be");
