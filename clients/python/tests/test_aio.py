"""leafd.aio: what is its own; what both clients share is tested with the other one."""
import asyncio
import json
import re
import threading
import time
import types

import fake
import leafd.aio
import pytest
from test_segment import in_child, index_of_current, ips_of, name, self_closing  # noqa: F401
from test_snowflake import LAYOUT, Clock, asked


def run(cluster, work, **settings):
    """work(client), in an event loop of its own."""
    async def whole():
        async with leafd.aio.Client(cluster.urls, **settings) as client:
            return await work(client)

    return asyncio.run(whole(), debug=False)


async def take(source, count):
    return [await source.next() for _ in range(count)]


async def wait_for(condition, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.002)


def test_a_thousand_sources_that_begin_together(cluster):
    """They share some connections, and each asks once."""
    tags = [f"tag{n}" for n in range(1000)]
    for tag in tags:
        cluster.tags[tag] = 1

    async def work(client):
        assert await asyncio.gather(*(client.segment(tag).next() for tag in tags)) == [1] * 1000
        assert client.stats()["requests"] == 1000

    run(cluster, work, connect_ms=60000, attempt_ms=60000, deadline_ms=60000)
    assert cluster.nodes[0].connections <= 32


def test_a_clock_that_is_ahead_by_more_than_a_window_asks_for_few_renewals(cluster):
    clock = Clock(cluster)
    now_ms = clock.ms
    cluster.now_ms = lambda: now_ms

    async def work(client):
        source = client.snowflake("me")
        await source.next()
        clock.ms += 3600000
        assert (await failure(source.next(deadline_ms=500))).code == "window_over"
        assert len(asked(cluster, "PUT")) == 1

    run(cluster, work, _wall_ns=clock.ns, window_ms=60000)


def test_a_call_that_waits_for_a_connection_is_cancelled(cluster):
    """The others go on."""
    for n in range(100):
        cluster.tags[f"tag{n}"] = 1

    async def work(client):
        calls = [asyncio.ensure_future(client.strict(f"tag{n}").next()) for n in range(100)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.wait(calls)
        assert await client.segment("order").next() == 1

    run(cluster, work, connect_ms=60000, attempt_ms=60000, deadline_ms=60000)


async def failure(call):
    with pytest.raises(leafd.LeafdError) as caught:
        await call
    return caught.value


def test_ids_come_from_a_range_and_the_next_one_is_asked_for_at_the_half(cluster):
    async def work(client):
        source = client.segment("order")
        assert await take(source, 50) == list(range(1, 51))
        assert len(cluster.log) == 1
        assert await source.next() == 51
        await wait_for(lambda: len(cluster.log) == 2)
        assert await take(source, 249) == list(range(52, 301))
        assert await source.next_many(1000) == list(range(301, 1301))
        assert len(await source.next_range(77)) == 77
        async for id in source:
            assert id > 1300
            break
        return client.stats()

    assert run(cluster, work)["ids_segment"] == 1300 + 77 + 1


def test_a_name_is_looked_at_again_after_30_s(cluster, name):
    """As with threads."""
    cluster.nodes[0].url = f"http://leafd.test:{cluster.nodes[0].port}"

    async def work(client):
        source = client.strict("invoice")
        assert await source.next() == 1
        assert ips_of(client) == ["127.0.0.1", "127.0.0.2"]
        name[:] = ["127.0.0.3"]
        client._ids.resolved_at -= 30
        assert await source.next() == 2  # which does not wait for the new ones
        await wait_for(lambda: ips_of(client) == ["127.0.0.3"])
        await wait_for(lambda: not cluster.nodes[0].open)  # what was idle is closed
        name[:] = ["127.0.0.1"]
        assert await source.next() == 3

    run(cluster, work, deadline_ms=60000)


def test_the_last_ids_of_a_tag(cluster):
    """Where fewer are left than a source asks for, it asks for half as many, down to one."""
    cluster.max["order"] = 150

    async def work(client):
        source = client.segment("order")
        assert await take(source, 149) == list(range(1, 150))
        assert (await failure(source.next())).code == "exhausted"
        counts = [int(request.options["count"]) for _, request in cluster.log]
        assert counts[0] == 100 and counts[-1] == 1
        assert client.stats()["errors"] == 1
        cluster.max["order"] = 100000
        source._error_until = 0  # as if a second had passed
        assert await take(source, 1000) == list(range(150, 1150))

    run(cluster, work)


def test_many_tasks(cluster):
    async def work(client):
        source = client.segment("order")
        got = await asyncio.gather(*(take(source, 500) for _ in range(40)))
        assert all(mine == sorted(mine) for mine in got)
        assert sorted(id for mine in got for id in mine) == list(range(1, 20001))

    run(cluster, work, max_count=700)


def test_try_next(cluster):
    async def work(client):
        source = client.segment("order")
        assert source.try_next() is None
        await wait_for(lambda: source.try_next() is not None)
        assert len(cluster.log) == 1

    run(cluster, work)


def test_a_call_that_is_cancelled_loses_no_id_twice(cluster):
    async def work(client):
        source, strict = client.segment("order"), client.strict("invoice")
        cluster.nodes[0].faults = [fake.hangs, fake.hangs]
        for call in (source.next(), strict.next(), source.next_many(300)):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(call, 0.1)
        assert len(client._tasks) <= 1
        cluster.nodes[0].drop_connections()
        ids = await take(source, 500)
        assert len(set(ids)) == 500
        assert await strict.next() > 0

    run(cluster, work)


@pytest.mark.parametrize("fault", [fake.closes, fake.loses, fake.halves, fake.hangs,
                                   fake.answers(fake.refusal(503, "no_leader"))])
def test_what_is_tried_again(three, fault):
    three.fault_all(self_closing(fault))

    async def work(client):
        assert len(set(await take(client.segment("order"), 100))) == 100
        three.fault_all(self_closing(fault))
        got = await client.strict("invoice").request(5)
        assert got.ids == range(1, 6)
        assert client.stats()["errors"] == 0

    run(three, work, attempt_ms=1000)


@pytest.mark.parametrize("data, code, status", [
    (fake.reply(200, b"1 x\n"), "bad_answer", 200),
    (fake.refusal(404, "unknown_tag"), "unknown_tag", 404)])
def test_what_is_not_tried_again(three, data, code, status):
    for node in three.nodes:
        node.always = fake.answers(data)

    async def work(client):
        source = client.segment("order")
        for call in (source.next, source.next, lambda: source.next_range(5),
                     client.strict("invoice").next):
            error = await failure(call())
            assert (error.code, error.status) == (code, status)
        assert len(three.log) == 3

    run(three, work)


def test_a_machine_that_swallows_packets(cluster):
    """Two of three: each costs connect_ms, and no more."""
    with fake.hole() as one, fake.hole() as two:
        nodes = types.SimpleNamespace(urls=[one, two, *cluster.urls])

        async def work(client):
            watch = fake.Stopwatch()
            assert await take(client.segment("order"), 1) == [1]
            watch.check_below(2)

        run(nodes, work)


@pytest.mark.parametrize("fault", [fake.hangs, fake.drips, fake.closes])
def test_the_deadline_holds(three, fault):
    for node in three.nodes:
        node.always = fault

    async def work(client):
        async def check(source):
            watch = fake.Stopwatch()
            error = await failure(source.next(deadline_ms=3000))
            assert 2.9 < watch.took_s()
            watch.check_below(9)
            assert error.code == "unreachable"
            assert all(url in error.message for url in three.urls)

        await asyncio.gather(*map(check, (client.segment("order"), client.strict("invoice"),
                                          client.snowflake())))

    run(three, work, attempt_ms=100)


def test_a_connection_that_was_closed_while_idle_is_no_failure(cluster):
    async def work(client):
        strict = client.strict("invoice")
        assert [await strict.next(), await strict.next()] == [1, 2]
        assert cluster.nodes[0].connections == 1
        cluster.nodes[0].drop_connections()
        assert await strict.next() == 3
        cluster.nodes[0].faults = [fake.closes]
        assert await strict.next() == 4
        stats = client.stats()
        assert (stats["retries"], stats["requests"]) == (0, 4)

    run(cluster, work)


def test_closing_ends_calls(cluster):
    async def work(client):
        kept = client.segment("order")
        await kept.next()
        cluster.nodes[0].always = fake.hangs
        calls = [asyncio.ensure_future(call) for call in (
            client.segment("other").next(), client.strict("invoice").next(),
            kept.next_range(3), client.snowflake().next())]
        await wait_for(lambda: len(cluster.log) == 5)
        watch = fake.Stopwatch()
        await client.close()
        assert [(await failure(call)).code for call in calls] == ["closed"] * 4
        watch.check_below(1.5)
        assert (await failure(kept.next())).code == "closed"
        with pytest.raises(leafd.LeafdError, match="closed"):
            client.segment("order")
        assert client.stats()["burnt"] == 99

    run(cluster, work)


def test_snowflake_ids(cluster):
    async def work(client):
        source = client.snowflake()
        got = await asyncio.gather(*(take(source, 2000) for _ in range(5)))
        assert all(mine == sorted(mine) for mine in got)
        ids = sorted(id for mine in got for id in mine)
        assert len(set(ids)) == 10000 and len(asked(cluster, "POST")) == 1
        before = client.stats()["renewals"]
        # Of two the second was sent when all ids were there.
        await wait_for(lambda: client.stats()["renewals"] >= before + 2)
        await client.close()
        last = json.loads(asked(cluster, "PUT")[-1].body)["last_timestamp_ms"]
        assert last == LAYOUT.decode(ids[-1]).timestamp_ms
        assert asked(cluster, "DELETE")[0].options["last_timestamp_ms"] == str(last)
        assert client.decode(ids[0]).worker_id == 0

    run(cluster, work, window_ms=3000)


@pytest.mark.parametrize("fault, code", [
    (None, None), (fake.answers(fake.refusal(409, "fenced")), "fenced"),
    (fake.answers(fake.refusal(403, "forbidden")), "forbidden")])
def test_a_window_that_is_over(cluster, fault, code):
    clock = Clock(cluster)

    async def work(client):
        source = client.snowflake()
        await source.next()
        clock.ms += 3600000
        if fault:
            cluster.nodes[0].faults = [fault]
            assert (await failure(source.next())).code == code
        assert LAYOUT.decode(await source.next()).timestamp_ms == clock.ms
        assert len(cluster.workers) == (2 if code == "fenced" else 1)

    run(cluster, work, _wall_ns=clock.ns)


def test_a_clock_that_goes_back(cluster):
    clock = Clock(cluster)
    told = []

    async def work(client):
        source = client.snowflake("me")
        first = await source.next()
        assert told == []
        clock.ms -= 4
        assert (await failure(source.next(50))).code == "window_over"
        assert told == []
        clock.ms -= 10000
        rest = await source.next_many(4095 - LAYOUT.decode(first).sequence)
        assert rest == list(range(first + 1, first + 1 + len(rest)))
        assert (await failure(source.next(50))).code == "window_over"
        assert told == [leafd.Event("clock_back", name="me", ms=10004)]
        clock.ms += 10005
        assert LAYOUT.decode(await source.next()) == (clock.ms, 0, 0)

    run(cluster, work, _wall_ns=clock.ns, on_event=told.append)


def test_nodes_that_do_not_know_the_layout(three):
    three.nodes[0].layout = three.nodes[1].layout = None

    async def work(client):
        client._admin.current = client._admin.nodes[0]
        await client.snowflake().next()
        assert [request.method for _, request in three.log] == ["POST", "PUT", "PUT"]
        three.nodes[2].layout = None
        assert (await failure(client.snowflake().next())).code == "layout_unknown"

    run(three, work)


def test_a_child_of_fork(cluster):
    async def work(client):
        source, flakes = client.segment("order"), client.snowflake()
        mine = await take(source, 60) + await take(flakes, 5)
        await wait_for(lambda: not source._journeys)

        def child():
            async def inside():
                return await take(source, 50) + await take(flakes, 5)
            return asyncio.run(inside())

        theirs = eval(in_child(child), {})
        assert len(theirs) == 55 and not set(theirs) & set(mine)
        more = await take(source, 300) + await take(flakes, 5)
        assert not set(more) & set(mine + theirs)
        # The parent's connections are as they were.
        assert await client.strict("invoice").next() == 1
        assert not asked(cluster, "DELETE")

    run(cluster, work)


def test_the_example(cluster):
    text = leafd.aio.__doc__
    lines = re.findall(r"^    (.*)$", text, re.M)
    assert len(lines) == 3
    code = "async def main():\n" + "\n".join("    " + line for line in lines)
    names = {"leafd": leafd}
    exec(code.replace("http://127.0.0.1:8080", cluster.urls[0]), names)
    asyncio.run(names["main"]())
    assert len(cluster.log) == 1


LONG = {"attempt_ms": 60000, "deadline_ms": 60000}


def test_ranges_end_with_age_and_generation(cluster):
    told = []
    cluster.nodes[0].generation = 4

    async def work(client):
        source = client.segment("order")
        assert await take(source, 3) == [1, 2, 3]
        cluster.nodes[0].generation = 5
        assert await source.next_range(10) == range(101, 111)
        assert client.stats()["burnt"] == 97
        cluster.nodes[0].generation = None
        await client.segment("other").next()
        began = cluster.log[-1][1].at
        await wait_for(lambda: client.stats()["burnt"] == 97 + 99)
        assert time.monotonic() - began >= 1.9
        assert client.gauges().ids_left == {"order": 0, "other": 0}
        await asyncio.sleep(0)  # a turn, in which the events are told
        return [event[:2] + (event.ids,) for event in told]

    assert run(cluster, work, max_age_ms=2000, on_event=told.append, **LONG) == [
        ("generation", "order", 97), ("aged", "other", 99)]


def test_an_older_generation_is_asked_anew_elsewhere(three):
    async def work(client):
        client._ids.current = client._ids.nodes[0]
        source = client.segment("order")
        for node, generation in zip(three.nodes, (7, 6, 7)):
            node.generation = generation
        await source.next_range(10)
        client._ids.current = client._ids.nodes[1]
        assert await source.next_range(10) == range(21, 31)
        return client.stats()["burnt"]

    assert run(three, work, **LONG) == 10
    assert [three.nodes.index(node) for node, _ in three.log] == [0, 1, 2]


def test_ids_a_step_apart(cluster):
    cluster.steps = {"order": 3, "invoice": 5}

    async def work(client):
        source = client.segment("order")
        assert await take(source, 500) == list(range(1, 1501, 3))
        assert (await source.next_range(4)).step == 3
        strict = client.strict("invoice")
        assert (await strict.request(2)).increment == 5
        assert await strict.next() == 11
        await strict.close()
        assert (await failure(strict.next())).code == "closed"

    run(cluster, work, **LONG)


def test_a_second_node_is_asked_while_a_caller_waits(three):
    async def work(client):
        slow = index_of_current(client)
        three.nodes[slow].always = fake.hangs
        source = client.segment("order")
        watch = fake.Stopwatch()
        assert await source.next() == 101
        watch.check_below(5)
        assert client.stats()["hedges"] == 1
        three.nodes[slow].always = None
        client._ids.current = client._ids.nodes[slow]
        three.nodes[slow].faults = [fake.hangs]
        watch = fake.Stopwatch()
        got = await client.strict("invoice").request(2)
        watch.check_below(5)
        assert got[:2] == (1, 2) and client.stats()["ids_strict"] == 2
        assert client.stats()["hedges"] == 2
        three.nodes[slow].faults = [fake.hangs]
        client._ids.current = client._ids.nodes[slow]
        got = await client.texts("invoice").request(1)
        assert got.texts == ["3"]  # of the two requests either may come first
        before = client.stats()["hedges"]
        texts = client.texts("other")
        await texts.next()
        three.fault_all(lambda node, request, answer: time.sleep(0.3) or answer())
        await texts.next()
        assert client.stats()["hedges"] <= before + 1  # of the call by a key, that was refused

    run(three, work, **LONG)


def test_a_call_by_a_key_that_is_cancelled_ends_both_requests(three):
    three.fault_all(fake.hangs)

    async def work(client):
        call = asyncio.get_running_loop().create_task(client.strict("invoice").next())
        await wait_for(lambda: client.stats()["hedges"] == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await wait_for(lambda: not client._tasks)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert run(three, work, **LONG) == []


def test_a_hook_that_fails_harms_nothing(three):
    def hear(event):
        raise ValueError(event.kind)

    async def work(client):
        three.fault_all(*[fake.refusal_of(503, "not_ready")] * 3)
        return await take(client.segment("order"), 200)

    assert run(three, work, on_event=hear, **LONG) == list(range(1, 201))


def test_two_close_at_once(cluster):
    """The one that comes second waits until the worker ids are given back."""
    async def work(alone):
        client = leafd.aio.Client(cluster.urls, attempt_ms=60000)
        source = client.snowflake()
        await source.next()
        begun, go = threading.Event(), threading.Event()

        def slowly(node, request, answer):
            begun.set()
            go.wait(60)
            return answer()

        cluster.nodes[0].faults = [slowly]
        first = asyncio.ensure_future(source.close() if alone else client.close())
        await wait_for(begun.is_set)
        second = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        with pytest.raises(leafd.LeafdError, match="closed"):
            client.snowflake()
        go.set()
        await asyncio.gather(first, second)

    for alone in (False, True):
        asyncio.run(work(alone))
        assert all(row[3] for row in cluster.workers.values())
        assert len(asked(cluster, "DELETE")) == (2 if alone else 1)
