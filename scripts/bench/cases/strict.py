"""One strict tag on three nodes against the databases that people take ids from."""

from cases.common import etcd_contender, mariadb_contender, strict_leafd_contender
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


def prepare(bench):
    return [strict_leafd_contender(bench), mariadb_contender(bench, MariaDB(bench.data)),
            etcd_contender(bench, arguments=("--strict",))]
