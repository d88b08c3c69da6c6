"""One strict tag on three nodes against the databases that people take ids from."""

import os

from cases.common import (STRICT_COLUMNS, etcd_contenders, mariadb_contenders,
                          strict_leafd_contender)
from measure import Target
from servers import MariaDB

name = "strict"
title = "strictly rising ids of one tag, 64 connections"
text = """
Each connection takes one id at a time, as fast as it can. leafd: one strict tag, the connections
spread over three nodes, the log replicated to all of them. MariaDB: Leaf's UPDATE of its table,
one server. etcd: puts to one key of one member. All are durable before they answer. Nothing is
bound to a core: servers and load share all of them. The load checks that every id is greater than
all that were acknowledged before it was asked for, and of leafd also that none is left out.
"""
targets = [
    Target("ids_rate", "leafd", "mariadb", at_least=5),
    Target("ids_rate", "leafd", "etcd", at_least=5),
]
charts = ("ids_rate", "cpu_us", "p99")
columns = STRICT_COLUMNS


def in_the_way(figures):
    """The processor time that there is for an id, and where it goes."""
    leafd = figures["leafd"]
    cores = os.cpu_count()
    there_is = {name: 1e6 * cores / (5 * figures[name]["ids_rate"]) for name in ("mariadb", "etcd")}
    served = leafd["http_us"] + leafd["load_us"]
    return [
        f"The time of {cores} processors, which three nodes and the load share. At five times "
        f"MariaDB's rate there are {there_is['mariadb']:.1f} µs for an id, at five times etcd's "
        f"{there_is['etcd']:.1f}. To take the request and give the answer alone costs "
        f"{served:.1f} µs (HTTP threads {leafd['http_us']:.1f}, load {leafd['load_us']:.1f}); to "
        f"replicate it, {leafd['raft_us'] + leafd['writer_us']:.1f}: the three raft loops "
        f"{leafd['raft_us']:.1f}, the three writers {leafd['writer_us']:.1f}. "
        f"{leafd['idle']:.0f} % of the machine was idle, waiting for the one disk that the three "
        "nodes share; each commit flushes it twice on each node (LMDB writes its pages, flushes, "
        "writes the page that makes them valid, and flushes again).",
        "MariaDB gives up the row's lock before its log is flushed, so that all clients share a "
        "flush of one disk; it and etcd lose acknowledged ids with that disk. The case "
        "strict_replicated has the same comparison with the guarantee that leafd gives."]


def prepare(bench):
    return [strict_leafd_contender(bench), *mariadb_contenders(bench, MariaDB(bench.data)),
            *etcd_contenders(bench, arguments=("--strict",))]
