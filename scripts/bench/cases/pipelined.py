"""One id a request, 32 requests at once."""

from cases.common import constant_contenders, ids_contender, single_leafd
from measure import Target

name = "pipelined"
title = "one id a request, pipelined by 32, 64 connections"
text = """
As the case ids, but each connection sends 32 requests at once, and the next 32 when all are
answered. What is left of a request without its share of system calls.
"""
targets = [
    Target("ids_per_cpu_s", "leafd", "redis", at_least=1),
    Target("ids_per_cpu_s", "leafd", "nginx", at_least=10),
]
charts = ("ids_per_cpu_s", "cpu_us", "rate")
columns = ("ids_rate", "ids_per_cpu_s", "cpu_us", "user_us", "system_us", "load_us", "p50", "p99",
           "p99.9", "others")
told = ("ids_rate", "ids_per_cpu_s", "others")

PIPELINE = ("--pipeline", 32)


def prepare(bench):
    leafd = single_leafd(bench)
    return [
        ids_contender(bench, leafd, *PIPELINE, bound=True),
        *constant_contenders(bench, *PIPELINE),
    ]
