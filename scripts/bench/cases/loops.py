"""CPU time per request with one HTTP thread and with more."""

import os

from cases.common import TAG, ids_contender
from measure import Target
from servers import Leafd

name = "loops"
title = "one id a request, from one HTTP thread to as many as there are processors"
text = """
A node with one HTTP thread, one with two, and one with as many as there are processors, 64
connections each. Nothing is bound to a core.
"""
LOOPS = sorted({1, 2, os.cpu_count() or 1})
targets = [Target("cpu_us", f"l{count}", "l1", at_most=1.03) for count in LOOPS if count > 1]
charts = ("cpu_us", "rate")
told = ("ids_rate", "cpu_us", "others")


def prepare(bench):
    contenders = []
    for count in LOOPS:
        leafd = bench.start(Leafd(bench.data, bench.leafd, 1, {"http-loops": count},
                                  name=f"leafd-{count}"))
        leafd.must_put_tag(TAG)
        contenders.append(ids_contender(bench, leafd, name=f"l{count}",
                                        label=f"{count} HTTP threads"))
    return contenders
