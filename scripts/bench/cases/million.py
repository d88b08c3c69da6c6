"""A million tags against ten."""

import random

from cases.common import tags_contender
from measure import Procedure, Target, run_load
from processes import BenchError, memory_of
from servers import Leafd

name = "million"
title = "a million tags in use against ten"
text = """
One node on a core of its own, with a million tags that have all been asked for an id, so that
their segments are in memory. Requests go through all of them in a random order, or through ten. The
memory is what is resident and belongs to no file, less what it was with no tag.
"""
targets = [
    Target("cpu_us", "million", "ten", at_most=1.2),
    Target("bytes_a_tag", "memory", at_most=360),
]
charts = ("cpu_us", "user_us", "bytes_a_tag")
columns = ("rate", "cpu_us", "user_us", "system_us", "p50", "p99", "bytes_a_tag", "others")
told = ("cpu_us", "bytes_a_tag", "others")

TAGS = 1_000_000
TOUCH_LIMIT_S = 600
SETTINGS = {"http-loops": 1, "data-memory-bytes": "1GiB", "quota": "tags=100%"}


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, SETTINGS, bench.server_cores))
    before = memory_of(leafd.pids()[0], "RssAnon")
    bench.say(f"making {TAGS} tags and asking each for an id")
    tags = [f"tag-{number:07}" for number in range(TAGS)]
    leafd.make_tags(tags)
    random.Random(1).shuffle(tags)
    many = tags_contender(bench, leafd, tags, "million", "leafd, 1,000,000 tags", bound=True)
    few = tags_contender(bench, leafd, tags[:10], "ten", "leafd, 10 tags", bound=True)
    touched, _ = run_load([*many.command, "--requests", str(TAGS), "--seconds",
                           str(TOUCH_LIMIT_S)], TOUCH_LIMIT_S)
    if touched["good"] != TAGS:
        raise BenchError(f"only {touched['good']} tags gave an id in {TOUCH_LIMIT_S} s")

    def memory(_):
        return {"bytes_a_tag": (memory_of(leafd.pids()[0], "RssAnon") - before) / TAGS}

    return [
        many, few,
        Procedure("memory", "memory", [leafd], "resident memory of the node", memory),
    ]
