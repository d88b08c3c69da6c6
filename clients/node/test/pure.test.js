// The parts without a network: sizes of requests, pieces, settings, answers, the way from node to
// node, and a walk of the snowflake generator by a clock that does what it likes.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as api from "../lib/api.js";
import { IdBuffer, Rate, cut, nextSize } from "../lib/buffer.js";
import { Client, LeafdError } from "../lib/index.js";
import { Generator, WHY } from "../lib/generator.js";
import { Door, after } from "../lib/door.js";
import { Journey, Usual } from "../lib/journey.js";
import { makeSettings } from "../lib/settings.js";
import { failure, randomOf, waitFor } from "./help.js";

function within(random, low, high) {
    return low + Math.floor(random() * (high - low + 1));
}

test("what was read last of a file holds while it cannot be read", async () => {
    const folder = mkdtempSync(join(tmpdir(), "leafd-"));
    try {
        const tokenFile = join(folder, "token");
        writeFileSync(tokenFile, "one\n");
        const { token } = makeSettings({ endpoints: "http://127.0.0.1:1", tokenFile });
        rmSync(tokenFile);
        symlinkSync(tokenFile, tokenFile); // a loop
        const until = performance.now() + 1500; // it is looked at each second
        await waitFor(() => {
            assert.equal(token.current(), "one");
            return performance.now() > until;
        });
        rmSync(tokenFile);
        writeFileSync(tokenFile, "two\n");
        await waitFor(() => token.current() === "two");
    } finally {
        rmSync(folder, { recursive: true });
    }
});

test("sizes follow the rate within their bounds", () => {
    for (let seed = 0; seed < 3000; seed++) {
        const random = randomOf(seed);
        const low = within(random, 1, 1000);
        const high = within(random, low, 100000);
        const before = within(random, low, high);
        const taken = within(random, 0, seed % 2 ? 10 : 1e7);
        const elapsed = seed % 7 ? random() * 1e6 : 0;
        const cover = 1 + random() * 1e5;
        const size = nextSize(before, taken, elapsed, cover, low, high);
        assert.ok(Number.isInteger(size) && size <= Math.min(before * 2, high));
        assert.ok(size >= Math.min(Math.max(low, Math.floor(before / 2)), before * 2, high));
        const wanted = elapsed > 0 ? taken / elapsed * cover : Infinity;
        if (wanted >= Math.max(before / 2, low) && wanted <= Math.min(before * 2, high)) {
            assert.ok(Math.abs(size - wanted) <= 0.5001);
        }
    }
    assert.equal(nextSize(100, 100, 10000, 10000, 10, 100000), 100);
    assert.equal(nextSize(100, 1, 10000, 10000, 10, 100000), 50);
    assert.equal(nextSize(100, 75, 10000, 10000, 10, 100000), 75);
    assert.equal(nextSize(100, 0, 0, 10000, 10, 100000), 200);
    assert.equal(nextSize(1, 0, 10000, 10000, 10, 100000), 2);
});

test("every id of an answer is in one piece, and the half is where it is asked", () => {
    for (let seed = 0; seed < 1000; seed++) {
        const random = randomOf(seed);
        const ranges = [];
        let at = 1n;
        for (let n = within(random, 1, 9); n > 0; n--) {
            const size = within(random, 1, random() < 0.5 ? 2 : 300);
            const step = BigInt(within(random, 1, 3));
            ranges.push({ first: at, size, step });
            at += BigInt(size) * step + BigInt(within(random, 0, 5));
        }
        const spread = (parts) => parts.flatMap(({ first, size, step }) =>
            Array.from({ length: size }, (_, n) => first + BigInt(n) * step));
        const pieces = cut(ranges);
        assert.deepEqual(spread(pieces), spread(ranges));
        const front = pieces.filter((piece) => !piece.past);
        assert.equal(spread(front).length, Math.floor(spread(ranges).length / 2));
        assert.deepEqual(pieces.slice(0, front.length), front);
    }
});

/** An answer of one range. */
function granted(first, size, generation = -1n, askedAt = 0) {
    return { ranges: [{ first: BigInt(first), size, step: 1n }], generation, askedAt };
}

test("a buffer hands out what came, and counts it", () => {
    for (let seed = 0; seed < 300; seed++) {
        const random = randomOf(seed);
        const buffer = new IdBuffer();
        let [expected, got, at] = [[], [], 1];
        for (let n = within(random, 1, 60); n > 0; n--) {
            if (buffer.wants && random() < 0.7) {
                const size = within(random, 1, 40);
                buffer.add(granted(at, size));
                expected.push(...Array.from({ length: size }, (_, k) => BigInt(at + k)));
                at += size + within(random, 0, 2);
            } else if (random() < 0.02) {
                assert.equal(buffer.burn(), expected.length - got.length);
                expected = [...got];
                assert.ok(buffer.empty);
            }
            for (let takes = within(random, 0, 30); takes > 0; takes--) {
                const id = buffer.take();
                if (id === undefined) {
                    assert.ok(buffer.empty);
                    break;
                }
                got.push(id);
            }
            assert.equal(buffer.taken, got.length);
            assert.deepEqual(got, expected.slice(0, got.length));
        }
    }
    const buffer = new IdBuffer();
    assert.equal(buffer.add(granted(1, 1)), 0);
    assert.equal(buffer.add(granted(2, 3)), 3);
    assert.equal(buffer.held, 1);
});

test("ranges of an age or of an older generation are dropped, and no others", () => {
    for (let seed = 0; seed < 500; seed++) {
        const random = randomOf(seed);
        const answers = [1, 100].map((at) => granted(at, within(random, 1, 40),
            BigInt(within(random, -1, 3)), random()));
        const buffer = new IdBuffer();
        buffer.add(answers[0]);
        const got = Array.from({ length: within(random, 0, answers[0].ranges[0].size) },
            () => buffer.take());
        buffer.advance();
        buffer.add(answers[1]);
        let [isGone, dropped] = [undefined, undefined];
        if (random() < 0.5) {
            const limit = random() < 0.5 ? answers[0].askedAt : random();
            isGone = (answer) => answer.askedAt <= limit;
            dropped = buffer.dropAged(limit);
        } else {
            const limit = BigInt(within(random, 0, 4));
            isGone = ({ generation }) => generation >= 0n && generation < limit;
            dropped = buffer.dropOlder(limit);
        }
        const held = answers.filter((answer) => !isGone(answer)).flatMap(({ ranges: [one] }) =>
            Array.from({ length: one.size }, (_, n) => one.first + BigInt(n)))
            .filter((id) => !got.includes(id));
        const all = answers[0].ranges[0].size + answers[1].ranges[0].size;
        assert.equal(dropped, all - got.length - held.length);
        assert.deepEqual([buffer.held, buffer.empty], [held.length, held.length === 0]);
        assert.equal(buffer.askedAt === Infinity, held.length === 0);
        assert.deepEqual(held.map(() => buffer.take()), held);
        assert.equal(buffer.take(), undefined);
        assert.equal(buffer.taken, got.length + held.length);
    }
});

test("time in which callers waited with nothing held is none of the rate", () => {
    const rate = new Rate();
    assert.equal(rate.next(0, 0, 10000, 10, 100000), 10);
    rate.wait(0);
    rate.go(99000);
    rate.wait(99500);
    rate.wait(99600);
    rate.go(107500);
    assert.equal(rate.next(15, 109500, 10000, 10, 100000), 20); // 15 in 2.5 s; twice at most
    assert.equal(rate.next(45, 129500, 10000, 10, 100000), 15);
    rate.wait(140000);
    assert.equal(rate.next(66, 143500, 10000, 10, 100000), 20); // it still waits
    rate.go(150000);
    assert.equal(rate.next(66, 150000, 10000, 10, 100000), 40); // in no time
});

test("the usual time follows what is measured", () => {
    const usual = new Usual(300);
    assert.equal(usual.patienceMs, 600);
    usual.add(100);
    assert.equal(usual.patienceMs, 200);
    usual.add(900);
    assert.equal(usual.patienceMs, 400);
    for (let n = 0; n < 100; n++) {
        usual.add(0.1);
    }
    assert.equal(usual.patienceMs, 40);
});

test("what are no stepped ranges, and what are", async () => {
    for (const body of ["1 3", "1 3 0", "1 4 2", "1 5 2 1", "1 7 2", "1 3 1", "5 1 2", "1 5 -2",
        "1 5 2\n4 4 1", "1 9223372036854775809 9223372036854775808"]) {
        const error = await failure(() => api.rangesOf(answer(`${body}\n`), 2, true));
        assert.deepEqual([error.code, error.status], ["bad_answer", 200]);
    }
    assert.deepEqual(api.rangesOf(answer("7 7 5\n10 20 5\n"), 4, true),
        [{ first: 7n, size: 1, step: 5n }, { first: 10n, size: 3, step: 5n }]);
    assert.equal((await failure(() => api.rangesOf(answer("1 2 1\n"), 2))).code, "bad_answer");
});

test("settings that break their rule", async () => {
    const cases = [
        ["endpoints", [], "1 to 64"], ["endpoints", "ftp://a", "base URL"],
        ["endpoints", ["http://a/b"], "base URL"], ["endpoints", ["http://u:p@a"], "base URL"],
        ["endpoints", ["http://a:0"], "base URL"], ["endpoints", ["http://a:65536"], "base URL"],
        ["endpoints", Array(65).fill("http://a"), "1 to 64"], ["endpoints", 7, "1 to 64"],
        ["endpoints", ["http://a?x"], "base URL"], ["endpoints", ["http://a b"], "base URL"],
        ["endpoints", ["http://a..b"], "base URL"], ["endpoints", ["http://.a"], "base URL"],
        ["endpoints", [`http://${"a".repeat(64)}`], "base URL"],
        ["endpoints", ["http://[::g]"], "base URL"],
        ["endpoints", [`http://${Array(6).fill("a".repeat(49)).join(".")}`], "base URL"],
        ["adminEndpoints", ["nothing"], "base URL"], ["token", "a b", "ASCII"],
        ["token", "", "ASCII"], ["token", "x".repeat(1025), "ASCII"], ["token", "a\r\nb", "ASCII"],
        ["caFile", "/nonexistent", "PEM"], ["caFile", "/etc/hostname", "PEM"],
        ["caFile", 7, "PEM"], ["attemptMs", 0, "1 to 600000"],
        ["deadlineMs", 600001, "1 to 600000"], ["coverMs", 1.5, "whole"],
        ["minCount", 0, "1 to 100000"], ["minCount", "7", "whole"],
        ["maxCount", 99, "100 to 100000"], ["maxCount", 100001, "100 to 100000"],
        ["windowMs", 999, "1000 to 86400000"], ["windowMs", 86400001, "1000 to 86400000"]];
    for (const [name, value, word] of cases) {
        const error = await failure(() => new Client({ endpoints: "http://a", [name]: value }));
        assert.deepEqual([error.code, error.status, error.retryable], ["bad_setting", 0, false]);
        assert.ok(error.message.startsWith(`${name}=`) && error.message.includes(word), error);
        assert.ok(name !== "token" || value === "" || !error.message.includes(value));
    }
    const unknown = await failure(() => new Client({ endpoints: "http://a", dedlineMs: 5 }));
    assert.match(unknown.message, /dedlineMs: there is no such setting/);
    for (const settings of [undefined, null, "http://a", []]) {
        assert.equal((await failure(() => new Client(settings))).code, "bad_setting");
    }
});

test("settings at their bounds", async () => {
    await new Client({ endpoints: Array(64).fill("http://a"), token: "x".repeat(1024),
        attemptMs: 1, deadlineMs: 600000, coverMs: 1, minCount: 100000, maxCount: 100000,
        windowMs: 1000 }).close();
    await new Client({ endpoints: "https://[::1]:9/", windowMs: 86400000, minCount: 1,
        maxCount: 1, token: undefined }).close();
});

test("names of tags", async () => {
    const client = new Client({ endpoints: "http://127.0.0.1:1" });
    for (const tag of ["a".repeat(128), "é".repeat(64), "a/b;c.d %", "😀"]) {
        assert.equal(client.segment(tag).tag, tag);
    }
    for (const tag of ["a".repeat(129), "", "é".repeat(65), "a\nb", "\ud800", null, 7]) {
        for (const make of ["segment", "strict"]) {
            assert.equal((await failure(() => client[make](tag))).code, "bad_setting");
        }
    }
    await client.close();
});

function answer(body, status = 200, headers = {}) {
    return { status, headers, body };
}

test("what are no ranges", async () => {
    const many = Array.from({ length: 65 }, (_, n) => `${n} ${n}\n`).join("");
    const cases = [["", 1], ["1", 1], ["1 2\n", 3], ["2 1\n", 2], ["1 2\n2 3\n", 4],
        ["5 6\n1 2\n", 4], ["a b\n", 1], ["1 2\n\n3 4\n", 4], ["0 9223372036854775808\n", 5],
        ["1 2\r\n", 2], ["١ ٢\n", 2], ["-1 1\n", 3], ["1  2\n", 2], [many, 65]];
    for (const [body, count] of cases) {
        const error = await failure(() => api.rangesOf(answer(body), count));
        assert.deepEqual([error.code, error.status], ["bad_answer", 200]);
    }
});

test("ranges at their bounds", () => {
    const last = (1n << 63n) - 1n;
    assert.deepEqual(api.rangesOf(answer(`0 0\n${last - 1n} ${last}\n`), 3),
        [{ first: 0n, size: 1, step: 1n }, { first: last - 1n, size: 2, step: 1n }]);
    const many = Array.from({ length: 64 }, (_, n) => `${2 * n} ${2 * n}\n`).join("");
    assert.equal(api.rangesOf(answer(many), 64).length, 64);
});

test("what is no worker id", async () => {
    const good = { worker_id: 1, epoch: 1, from_ms: 0, until_ms: 9, layout: null };
    const layout = { epoch_ms: 1, time_bits: 41, worker_bits: 6, sequence_bits: 6 };
    assert.deepEqual(api.grantOf(answer(JSON.stringify({ ...good, layout }))).layout,
        { epochMs: 1, timeBits: 41, workerBits: 6, sequenceBits: 6 });
    const bad = ["", "[]", "null", "{}", ...[{ worker_id: 1024 }, { epoch: 0 }, { from_ms: 10 },
        { layout: undefined }, { worker_id: 1.5 }, { worker_id: true }, { worker_id: "1" },
        { worker_id: 64, layout }, { layout: { ...layout, time_bits: 60 } },
        { layout: { ...layout, epoch_ms: 9 } }]
        .map((change) => JSON.stringify({ ...good, ...change }))];
    for (const body of bad) {
        assert.equal((await failure(() => api.grantOf(answer(body)))).code, "bad_answer", body);
    }
});

test("errors of servers", () => {
    const cases = [[404, '{"code":"unknown_tag","message":"x"}', "unknown_tag"],
        [404, "<html>", "bad_answer"], [302, '{"code":"moved","message":"x"}', "bad_answer"],
        [500, "{}", "bad_answer"], [400, '{"code":"A B","message":"x"}', "bad_answer"],
        [400, '{"code":"a","message":7}', "bad_answer"], [400, "null", "bad_answer"],
        [206, "", "bad_answer"], [201, "1 1\n", "bad_answer"]];
    for (const [status, body, code] of cases) {
        const error = api.errorOf(answer(body, status));
        assert.deepEqual([error.code, error.status], [code, status]);
    }
    assert.equal(api.retryAfterMs(answer("", 503, { "retry-after": "3" })), 3000);
    for (const text of ["", "x", "-1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT"]) {
        assert.equal(api.retryAfterMs(answer("", 503, { "retry-after": text })), 0);
    }
});

test("what makes sense to ask again", () => {
    const cases = { unknown_tag: [404, false], no_leader: [503, true], quota: [429, true],
        share: [429, false], no_worker_id: [409, true], unreachable: [0, true],
        bad_answer: [503, false], closed: [0, false], fenced: [409, true],
        window_over: [0, true], layout_unknown: [0, true], bad_setting: [0, false] };
    for (const [code, [status, good]] of Object.entries(cases)) {
        assert.equal(new LeafdError(code, "", status).retryable, good, code);
    }
});

function doorOf(nodes) {
    const counted = { failovers: 0 };
    const addresses = Array.from({ length: nodes }, (_, n) => ({ host: `n${n}`,
        url: `http://n${n}:1` }));
    return [new Door(addresses, (name) => counted[name]++), counted];
}

test("rounds wait longer and longer, up to a second", () => {
    for (let seed = 0; seed < 100; seed++) {
        const [door] = doorOf(3);
        const journey = new Journey(door, () => 1e6, randomOf(seed));
        const waits = [];
        let asked = new Set();
        for (let n = 0; n < 36; n++) {
            let move = journey.move(0);
            if (move.waitMs > 0) {
                assert.equal(asked.size, 3);
                asked = new Set();
                waits.push(move.waitMs);
                move = journey.move(0);
            }
            asked.add(move.node);
            journey.failed("down");
        }
        waits.forEach((wait, n) => {
            const top = Math.min(20 * 2 ** n, 1000);
            assert.ok(wait >= top / 2 && wait <= top);
        });
        assert.equal(waits.length, 11);
    }
});

const ipsOf = (nodes) => nodes.map(({ ip }) => ip);

test("a door has the addresses of its names", () => {
    for (let seed = 0; seed < 300; seed++) {
        const random = randomOf(seed);
        const addresses = ["n", "o", "10.0.0.1"].map((host) => ({ host, url: `http://${host}` }));
        let failovers = 0;
        const door = new Door(addresses, () => failovers++);
        assert.deepEqual(door.names, addresses.slice(0, 2));
        const known = [[undefined], [undefined], [undefined]];
        for (let n = 0; n < 10; n++) {
            const at = within(random, 0, 1);
            const count = within(random, 1, 5);
            const ips = Array.from({ length: count }, () => `10.0.1.${within(random, 0, 8)}`);
            const before = door.current;
            const old = door.nodes;
            door.found(addresses[at].host, ips);
            known[at] = [...new Set(ips)].sort();
            assert.deepEqual(ipsOf(door.nodes), known.flat());
            assert.ok(door.nodes.includes(door.current));
            assert.ok(door.current === before || !door.nodes.includes(before));
            failovers = 0;
            const begun = door.current;
            old.filter((one) => !door.nodes.includes(one)).forEach((gone) => door.leave(gone));
            assert.equal(door.current, begun);
            door.leave(begun);
            assert.equal(failovers, 1);
        }
    }
});

test("a door has 64 nodes at most", () => {
    const [door] = doorOf(3);
    for (const { host } of door.names) {
        door.found(host, Array.from({ length: 50 }, (_, n) => `10.0.0.${n}`));
        assert.ok(door.nodes.includes(door.current));
    }
    assert.equal(door.nodes.length, 64);
});

test("each round has the nodes of its beginning", () => {
    const [door] = doorOf(1);
    const journey = new Journey(door, () => 100000);
    const told = [];
    journey.onNodes = () => told.push(ipsOf(journey.nodes).sort());
    assert.ok(!journey.begun);
    assert.deepEqual(journey.looks(1000), { looks: true, waits: true });
    door.found("n0", ["10.0.0.1", "10.0.0.2"]);
    door.resolvedAt = 1000;
    journey.begin();
    const next = new Journey(door, () => 100000);
    assert.deepEqual(next.looks(30999), { looks: false, waits: false });
    assert.deepEqual(next.looks(31000), { looks: true, waits: false });
    const second = new Journey(door, () => 100000, Math.random, journey);
    assert.ok(second.begun && second.node !== journey.node);
    door.found("n0", ["10.0.0.3"]);
    const asked = new Set();
    for (let n = 0; n < 2; n++) {
        assert.ok(journey.begun);
        asked.add(journey.move(1000).node.ip);
        journey.failed("down");
    }
    assert.deepEqual([...asked].sort(), ["10.0.0.1", "10.0.0.2"]);
    assert.ok(!journey.begun);
    assert.deepEqual(journey.looks(1000), { looks: true, waits: true });
    journey.begin();
    assert.ok(journey.move(1000).waitMs > 0);
    assert.equal(journey.move(1000).node.ip, "10.0.0.3");
    assert.deepEqual(told, [["10.0.0.1", "10.0.0.2"], ["10.0.0.3"]]);
    assert.match(journey.unreachable().message, /http:\/\/n0:1 \(10\.0\.0\.2\): down/);
});

test("Retry-After is the least, and the deadline the most", async () => {
    const [door] = doorOf(1);
    const journey = new Journey(door, () => 5000);
    journey.move(0);
    journey.failed("503", 2000);
    assert.equal(journey.move(0).waitMs, 2000);
    assert.equal(journey.move(2000).waitMs, 0);
    journey.failed("503", 60000);
    assert.equal(journey.move(2000).waitMs, 3000);
    const error = await failure(() => journey.move(5000));
    assert.equal(error.code, "unreachable");
    assert.match(error.message, /http:\/\/n0:1: 503/);
});

test("who fails is left once", () => {
    const [door, counted] = doorOf(3);
    const first = door.current;
    const [one, other] = [new Journey(door, () => 5), new Journey(door, () => 5)];
    assert.equal(one.move(0).node, first);
    assert.equal(other.move(0).node, first);
    one.failed("down");
    other.failed("down");
    assert.equal(door.current, after(door.nodes, first));
    assert.equal(counted.failovers, 1);
});

test("a quota waits at the same node, and is the error in the end", async () => {
    const [door] = doorOf(2);
    const journey = new Journey(door, () => 5000);
    const { node } = journey.move(0);
    journey.quota(new LeafdError("quota", "too many", 429), 3000);
    assert.equal(journey.move(0).waitMs, 3000);
    assert.deepEqual([journey.move(3000).node, door.current], [node, node]);
    journey.quota(new LeafdError("quota", "too many", 429), 0);
    const { waitMs } = journey.move(3000);
    assert.ok(waitMs >= 20 && waitMs <= 40, `${waitMs} ms, as after a second round`);
    assert.equal((await failure(() => journey.move(5000))).code, "quota");
});

const LAYOUTS = [
    { epochMs: 1288834974657, timeBits: 41, workerBits: 10, sequenceBits: 12 },
    { epochMs: 1288834974657, timeBits: 41, workerBits: 6, sequenceBits: 6 },
    { epochMs: 1700000000000, timeBits: 45, workerBits: 1, sequenceBits: 4 },
    { epochMs: 1700000000000, timeBits: 39, workerBits: 10, sequenceBits: 14 }];

/** A clock that stands, jumps and goes back; windows that are extended or not. */
function walk(seed) {
    const random = randomOf(seed);
    const pick = (list) => list[within(random, 0, list.length - 1)];
    const layout = pick(LAYOUTS);
    let clock = layout.epochMs + within(random, 1, 1e6);
    const fromMs = pick([0, clock - 5, clock + within(random, 0, 50)]);
    const grant = { workerId: within(random, 0, 2 ** layout.workerBits - 1), epoch: 1, fromMs,
        untilMs: clock + 1000 };
    const generator = new Generator(grant, layout, () => clock, (n) => within(random, 0, n - 1));
    const ids = [];
    for (let turn = within(random, 1, 200); turn > 0; turn--) {
        for (let n = random() < 0.95 ? pick([1, 1, 5, 40]) : 5000; n > 0; n--) {
            const { lastMs } = generator;
            const id = generator.step();
            if (id !== undefined) {
                const { timestampMs, workerId } = api.decode(layout, id);
                assert.equal(workerId, grant.workerId);
                assert.ok(timestampMs > fromMs && timestampMs <= generator.untilMs);
                assert.equal(generator.usedMs, timestampMs);
                assert.ok(ids.length === 0 || id > ids.at(-1));
                ids.push(id);
                continue;
            }
            if (generator.why === WHY.WINDOW) {
                assert.ok(clock > generator.untilMs);
            } else {
                assert.equal(generator.why, WHY.CLOCK);
                assert.ok(clock <= lastMs && generator.waitMs >= 1);
            }
            break;
        }
        clock += pick([0, 0, 1, 1, 1, 2, 30, -1, -3, -5, -6, -200, 700]);
        if (random() < 0.1) {
            generator.extend(clock + within(random, -100, 1000));
        }
    }
    assert.equal(generator.used, ids.length);
    return ids.length;
}

test("walks of the generator", () => {
    let all = 0;
    for (let seed = 0; seed < 300; seed++) {
        all += walk(seed);
    }
    assert.ok(all > 100000);
});

test("a millisecond begins at random, and at 0 when the one before was used up", () => {
    const [layout] = LAYOUTS;
    let clock = layout.epochMs + 1000;
    const generator = new Generator({ workerId: 5, epoch: 1, fromMs: 0, untilMs: clock + 1000 },
        layout, () => clock, (n) => n - 4039);
    const sequence = () => api.decode(layout, generator.step()).sequence;
    for (let n = 57; n < 4096; n++) {
        assert.equal(sequence(), n);
    }
    assert.equal(generator.step(), undefined);
    assert.deepEqual([generator.why, generator.waitMs], [WHY.CLOCK, 1]);
    clock++;
    assert.equal(sequence(), 0);
    clock++;
    assert.equal(sequence(), 57);
});

test("the end of the layout", () => {
    const layout = { epochMs: 1000, timeBits: 10, workerBits: 1, sequenceBits: 4 };
    let clock = 1000 + 1023;
    const generator = new Generator({ workerId: 0, epoch: 1, fromMs: 0, untilMs: 1e9 }, layout,
        () => clock);
    assert.equal(api.decode(layout, generator.step()).timestampMs, 2023);
    clock++;
    assert.equal(generator.step(), undefined);
    assert.equal(generator.why, WHY.END);
});

test("the example of the documentation", () => {
    assert.deepEqual(api.decode(LAYOUTS[0], 2123748187964452921n),
        { timestampMs: 1795176000001, workerId: 3, sequence: 57 });
});
