// The README's examples for Knex, Sequelize and Prisma, by the packages in the folder RECIPES (`make
// recipes`). Knex shows its statement, and Sequelize validates, without a database; Prisma has one in
// memory.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
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

const all = [{}, { id: "8" }, {}];
await Order.options.hooks.beforeBulkCreate[0](all);
assert.deepEqual(all.map(({ id }) => id).sort(), ["8", "9007199254740995", "9007199254740996"]);

writeFileSync(`${process.env.RECIPES}/schema.prisma`, `
generator client {
  provider = "prisma-client-js"
}
datasource db {
  provider = "sqlite"
}
model Order {
  ${readme.match(/id BigInt @id.*/)[0]}
  item String
}
`);
const made = spawnSync("npx", ["--no-install", "prisma", "generate"], { cwd: process.env.RECIPES,
    encoding: "utf8", timeout: 300_000,
    // It would fetch one, which migrations need.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true" } });
assert.equal(made.status, 0, made.stdout + made.stderr);
const { PrismaClient } = load("@prisma/client");
const { PrismaLibSql } = load("@prisma/adapter-libsql");
const prisma = new PrismaClient({ adapter: new PrismaLibSql({ url: ":memory:" }) });
await prisma.$executeRawUnsafe('CREATE TABLE "Order" (id BIGINT PRIMARY KEY, item TEXT NOT NULL)');
client.setNext("order", 1000n); // libsql refuses what no double has
const db = await run("prisma.$extends", "db", { orders, prisma });
assert.deepEqual(await db.order.create({ data: { item: "tea" } }), { id: 1000n, item: "tea" });
assert.equal((await db.order.create({ data: { id: 7n, item: "tea" } })).id, 7n);
await db.order.createMany({ data: [{ item: "salt" }, { id: 8n, item: "salt" }] });
await db.order.createMany({ data: { item: "salt" } });
assert.deepEqual((await db.order.findMany({ where: { item: "salt" } })).map(({ id }) => id).sort(),
    [1001n, 1002n, 8n]);
await prisma.$disconnect();
console.log("recipes: as they must be");
