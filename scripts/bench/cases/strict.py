"""One strict tag on three nodes against the databases that people take ids from."""

import os

from cases.common import CONNECTIONS, TAG, etcd_contender, load_command
from measure import Contender, Target
from processes import BenchError
from servers import Leafd, MariaDB

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

CALIBRATION_S = 1.5


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    status, text_of = leafd.put_tag(TAG, mode="strict")
    if status != 201:
        raise BenchError(f"leafd refuses strict tags: {status}: {text_of}")
    return [leafd_contender(bench, leafd), mariadb_contender(bench), etcd_contender(bench)]


def leafd_contender(bench, leafd):
    seen = os.path.join(bench.data, "strict.ids")
    last = [0]  # the greatest id of the loads before

    def check(report):
        """Strict ids that were acknowledged are dense, also from one load to the next."""
        ids = report["ids"]
        if ids["min"] != last[0] + 1 or ids["max"] - ids["min"] + 1 != ids["count"]:
            raise BenchError(f"acknowledged ids are not dense: after {last[0]} came {ids}")
        last[0] = ids["max"]

    return Contender("leafd", "leafd, 3 nodes", [leafd], load_command(
        bench, leafd.addresses, "--expect", "ids:1", "--strict", "--seen", seen,
        f"/api/segment/get/{TAG}"), check)


def mariadb_contender(bench):
    """Text or prepared statements, whichever is faster here."""
    server = bench.start(MariaDB(bench.data))
    command = [bench.tool("load_mariadb"), "--port", str(server.port), "--connections",
               str(CONNECTIONS)]
    ways = [Contender("mariadb", "MariaDB", [server], command),
            Contender("mariadb", "MariaDB, prepared", [server], [*command, "--prepared"])]
    best = {way: max(way.measure(CALIBRATION_S)["rate"] for _ in range(2))
            for way in ways}
    bench.say("MariaDB: " + ", ".join(f"{way.label} {rate:.0f}/s" for way, rate in best.items()))
    return max(best, key=best.get)
