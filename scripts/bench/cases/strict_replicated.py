"""The case strict against databases that survive the loss of a machine as leafd does."""

from cases.common import (STRICT_COLUMNS, etcd_contenders, mariadb_contenders,
                          strict_leafd_contender)
from servers import MariaDBPair

name = "strict_replicated"
title = "strictly rising ids of one tag against replicated databases, 64 connections"
text = """
The load of the case strict where all give the same guarantee: an id that was acknowledged survives
the loss of any one machine. leafd: one strict tag on three nodes. MariaDB: a primary with a binary
log and one semi-synchronous replica, in two ways. The first has every id on two disks before it is
acknowledged, as leafd and etcd have, so that it also survives when all machines lose power and one
does not come back: the wait point is AFTER_SYNC and the replica syncs its relay log. The second
does the least that the guarantee needs: the wait point is AFTER_COMMIT and the replica holds the id
in memory. The case fails if the primary ever went on without its replica, or the replica lacks an
id. etcd: puts to one key, the connections spread over three members. Nothing is bound to a core:
all share this machine's cores and its disk. The load checks that every id is greater than all that
were acknowledged before it was asked for, and of leafd also that none is left out.
"""
targets = []
charts = ("ids_rate", "cpu_us", "p99")
columns = STRICT_COLUMNS

MEMBERS = 3


def prepare(bench):
    return [
        strict_leafd_contender(bench),
        *pair_contenders(bench, MariaDBPair(bench.data), "MariaDB and replica, two disks"),
        *pair_contenders(bench, MariaDBPair(bench.data, "mariadb_least", least=True),
                         "MariaDB and replica, the least"),
        *etcd_contenders(bench, size=MEMBERS, arguments=("--strict",)),
    ]


def pair_contenders(bench, pair, label):
    return mariadb_contenders(bench, pair, label, pair.check_load)
