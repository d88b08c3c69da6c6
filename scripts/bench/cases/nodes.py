"""Grants a second against the number of nodes."""

from cases.common import tags_contender
from servers import Leafd

name = "nodes"
title = "replicated grants with 1, 3 and 5 nodes"
text = """
The load of the case grants on clusters of one, three and five nodes, all on this machine, so that
they share its cores and its disk: what a grant costs, not what machines of their own could do.
"""
targets = []
charts = ("ids_rate", "cpu_us")

SIZES = (1, 3, 5)
TAGS = 1000


def prepare(bench):
    tags = [f"tag-{number}" for number in range(TAGS)]
    contenders = []
    for size in SIZES:
        leafd = bench.start(Leafd(bench.data, bench.leafd, size, name=f"leafd-{size}"))
        leafd.make_tags(tags, step=1, max_step=1)
        contenders.append(tags_contender(bench, leafd, tags, f"n{size}",
                                         f"{size} node" + ("s" if size > 1 else "")))
    return contenders
