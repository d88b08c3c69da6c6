"""bench - what one id costs when it is there already, without a network.

    make bench

Nanoseconds an id: the best of five runs, and the median; and what the loop alone costs.
"""
import asyncio
import os
import statistics
import sys
import time
from itertools import repeat

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "tests")]

import fake  # noqa: E402
import leafd.aio  # noqa: E402

CALLS = 1000000
RUNS = 5


def measure(take, calls=CALLS):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter_ns()
        for _ in repeat(None, calls):
            take()
        times.append((time.perf_counter_ns() - begin) / calls)
    return times


def show(what, times):
    print(f"{what:34} {min(times):8.1f} {statistics.median(times):8.1f}")


def main():
    print(f"{'':34} {'best':>8} {'median':>8}  ns")
    show("an empty function", measure(lambda: None))
    with fake.Cluster(1) as cluster, leafd.Client(cluster.urls) as client:
        segment = client.segment("order")
        segment.next_many(100000)
        show("segment.next()", measure(segment.next))
        show("next(segment)", measure(segment.__next__))
        show("segment.next_many(1000), an id",
             [ns / 1000 for ns in measure(lambda: segment.next_many(1000), CALLS // 1000)])
        snowflake = client.snowflake()
        show("snowflake.next() (244 at least)", measure(snowflake.next))
        show("strict.next(), over a socket", measure(client.strict("invoice").next, 300))
    with fake.Cluster(1) as cluster:
        show("await segment.next() of leafd.aio", asyncio.run(measure_aio(cluster)))


async def measure_aio(cluster):
    async with leafd.aio.Client(cluster.urls) as client:
        segment = client.segment("order")
        await segment.next_many(100000)
        times = []
        for _ in range(RUNS):
            begin = time.perf_counter_ns()
            for _ in repeat(None, CALLS):
                await segment.next()
            times.append((time.perf_counter_ns() - begin) / CALLS)
        return times


if __name__ == "__main__":
    main()
