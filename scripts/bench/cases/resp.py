"""Ids by Redis's protocol, against Redis: one at a time, and pipelined."""

from cases.common import TAG, load_command, others
from measure import Contender, Target
from ports import take_port
from servers import HOST, Leafd, Redis

name = "resp"
title = "INCR at the RESP listener, 64 connections: one at a time, and pipelined by 16 and by 32"
text = """
The same requests, byte for byte, to leafd's RESP listener and to Redis without persistence, which
counts: one after the other, and 16 or 32 at once, the next when all are answered. One node of leafd
with one HTTP thread; each server has a core for itself, and the load the other one.
"""
DEPTHS = (1, 16, 32)
targets = [
    Target("cpu_us", "leafd-1", "redis-1", at_most=0.92),
    Target("ids_per_cpu_s", "leafd-16", "redis-16", at_least=1.5),
    Target("ids_per_cpu_s", "leafd-32", "redis-32", at_least=1.5),
]
charts = ("ids_per_cpu_s", "cpu_us", "rate")
columns = ("ids_rate", "ids_per_cpu_s", "cpu_us", "user_us", "system_us", "load_us", "p50", "p99",
           "p99.9", "others")
told = ("ids_rate", "ids_per_cpu_s", "cpu_us", "others")


def contenders_of(bench, server, port, label):
    """One for each depth."""
    found = []
    for depth in DEPTHS:
        pipelined = f", {depth} at once" if depth > 1 else ""
        found.append(Contender(f"{server.name}-{depth}", f"{label}{pipelined}", [server],
                               load_command(bench, f"{HOST}:{port}", "--protocol", "resp",
                                            "--expect", "ids:1", "--strict", "--pipeline", depth,
                                            f"INCR {TAG}", bound=True)))
    return found


@others
def redis_contenders(bench):
    """Redis on the servers' core."""
    redis = bench.start(Redis(bench.data, cores=bench.server_cores))
    return contenders_of(bench, redis, redis.port, "Redis")


def prepare(bench):
    port = take_port()
    settings = {"http-loops": 1, "resp-listen": f"{HOST}:{port}"}
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, settings, bench.server_cores))
    leafd.must_put_tag(TAG)
    return [*contenders_of(bench, leafd, port, "leafd"), *redis_contenders(bench)]
