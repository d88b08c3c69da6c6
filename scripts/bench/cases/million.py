"""A million tags against ten."""

import random

from cases.common import load_command, write_lines
from measure import Contender, Procedure, Target, run_load
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
    Target("bytes_a_tag", "memory", at_most=400),
]
charts = ("cpu_us", "user_us", "bytes_a_tag")
columns = ("rate", "cpu_us", "user_us", "system_us", "p50", "p99", "bytes_a_tag", "others")
told = ("cpu_us", "bytes_a_tag", "others")

TAGS = 1_000_000
TOUCH_LIMIT_S = 600


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, {"http-loops": 1}, bench.server_cores))
    before = memory_of(leafd.pids()[0], "RssAnon")
    bench.say(f"making {TAGS} tags and asking each for an id")
    tags = [f"tag-{number:07}" for number in range(TAGS)]
    leafd.make_tags(tags)
    paths = [f"/api/segment/get/{tag}" for tag in tags]
    random.Random(1).shuffle(paths)
    many = write_lines(bench, "million", paths)
    few = write_lines(bench, "ten", paths[:10])

    def load(targets_file, *arguments):
        return load_command(bench, leafd.addresses, "--expect", "ids:1", "--group-by-target",
                            "--targets", targets_file, *arguments, bound=True)

    touched, _ = run_load(load(many, "--requests", TAGS, "--seconds", TOUCH_LIMIT_S), TOUCH_LIMIT_S)
    if touched["good"] != TAGS:
        raise BenchError(f"only {touched['good']} tags gave an id in {TOUCH_LIMIT_S} s")

    def memory(_):
        return {"bytes_a_tag": (memory_of(leafd.pids()[0], "RssAnon") - before) / TAGS}

    return [
        Contender("million", "leafd, 1,000,000 tags", [leafd], load(many)),
        Contender("ten", "leafd, 10 tags", [leafd], load(few)),
        Procedure("memory", "memory", [leafd], "resident memory of the node", memory),
    ]
