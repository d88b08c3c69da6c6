"""Many ids a request."""

from cases.common import load_command, single_leafd
from measure import Contender, Target

name = "batch"
title = "1,000 ids a request, as a range and as text"
text = """
One node on a core of its own, 64 connections, count=1000. The tag's segments have up to a thousand
million ids, as a tag for such use should, so that refills do not count.
"""
targets = [
    Target("ids_per_cpu_s", "range", at_least=100e6),
    Target("ids_per_cpu_s", "text", at_least=20e6),
]
charts = ("ids_per_cpu_s", "cpu_us")
columns = ("ids_rate", "ids_per_cpu_s", "cpu_us", "user_us", "system_us", "load_us", "p50", "p99",
           "others")
told = ("ids_rate", "ids_per_cpu_s", "others")

COUNT = 1000
BIG = "big"


def prepare(bench):
    leafd = single_leafd(bench)
    leafd.must_put_tag(BIG, step=10_000_000, max_step=1_000_000_000)

    def contender(form, expect):
        return Contender(form, f"leafd, {form}", [leafd], load_command(
            bench, leafd.addresses, "--expect", f"{expect}:{COUNT}",
            f"/api/segment/get/{BIG}?count={COUNT}&format={form}", bound=True))

    return [contender("range", "ranges"), contender("text", "ids")]
