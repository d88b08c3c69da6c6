"""What threads that claim ids of one tag cost each other."""

from cases.common import single_leafd
from measure import Procedure, Target
from processes import BenchError, run_timed

name = "contention"
title = "claims of one id by several threads"
text = """
Threads that do nothing but claim ids, one at a time, with what the HTTP threads claim them with
(claims.c): one thread; two, each of a tag of its own; two of the same tag; four of four tags and of
one. The processor time of a claim has the waiting for the tag's cache line in it, not the waiting
for a processor. A node's threads do this once a request, among some ten microseconds of other work.
"""
targets = [
    Target("claim_ns", "t2-apart", "t1", at_most=1.1),
    Target("claim_ns", "t4-apart", "t1", at_most=1.1),
    Target("claim_ns", "t2-one", "t1"),
    Target("claim_ns", "t4-one", "t1"),
]
charts = ("claim_ns",)
columns = ("claim_ns",)
told = columns

CLAIMS = 3_000_000
LIMIT_S = 60
# Contender: (threads, tags).
WAYS = {"t1": (1, 1), "t2-apart": (2, 2), "t2-one": (2, 1), "t4-apart": (4, 4), "t4-one": (4, 1)}


def claims(bench, threads, tags):
    code, out, errors, _ = run_timed([bench.tool("claims"), str(threads), str(tags), str(CLAIMS)],
                                     LIMIT_S)
    if code != 0:
        raise BenchError(f"claims ended with {code}: {errors}")
    return {"claim_ns": float(out)}


def prepare(bench):
    leafd = single_leafd(bench)  # names the build in the report
    return [Procedure(way, f"{threads} threads, {tags} tags", [leafd],
                      f"claims {threads} {tags} {CLAIMS}",
                      lambda _, threads=threads, tags=tags: claims(bench, threads, tags))
            for way, (threads, tags) in WAYS.items()]
