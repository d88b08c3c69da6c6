"""Replicated grants, one an id, against puts of etcd."""

from cases.common import etcd_contenders, tags_contender, write_lines
from measure import Target
from servers import Etcd, Leafd

name = "grants"
title = "replicated grants: segments of one id on many tags, 64 connections"
text = """
The worst that can be asked of leafd: 1,000 tags whose segments have one id, so that every id is a
grant of its own that goes through the replicated log. The connections are spread over three nodes
and go through the tags in turn. etcd: the same connections, puts to 1,000 keys of one member.
Nothing is bound to a core.
"""
targets = [Target("ids_rate", "leafd", "etcd", at_least=5)]
charts = ("ids_rate", "cpu_us", "p99")

TAGS = 1000


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    tags = [f"tag-{number}" for number in range(TAGS)]
    leafd.make_tags(tags, step=1, max_step=1)
    puts = write_lines(bench, "keys", [f"/v3/kv/put\t{Etcd.put_body(tag)}" for tag in tags])
    return [
        tags_contender(bench, leafd, tags, label="leafd, 3 nodes"),
        *etcd_contenders(bench, puts),
    ]
