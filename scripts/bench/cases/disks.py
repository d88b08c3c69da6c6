"""Strict ids and grants where each flush takes longer, against three members of etcd."""

from cases.common import (CONNECTIONS, STRICT_COLUMNS, TAG, THREADS, dense_loads, load_command,
                          others, write_lines)
from measure import Target
from processes import BenchError
from servers import Etcd, Leafd
from slow import Disk, SlowContender

name = "disks"
title = "strict ids and grants on slower disks"
text = """
Three nodes of leafd and three members of etcd, while each flush of their disks takes 0, 1, 5 or 20
ms longer, by one program for both (slow_disk.c). Strict ids of one tag with 64 and with 1,024
connections of one id each, grants (segments of one id, 1,000 tags) with 64; etcd: puts to one key.
Nothing is bound to a core. If the server knows tags of mode monotonic, these are measured as well:
their rate and latency must not depend on the disk.
"""
DELAYS_MS = (0, 1, 5, 20)
MANY = 1024
TAGS = 1000
MONOTONIC = "order-monotonic"
SLOW_MS = 5  # the disk on which monotonic ids are compared
AGAINST = {"strict": "etcd", "many": "etcd-many", "grants": "etcd"}
PLAIN = [Target("ids_rate", f"{kind}-{delay}ms", f"{other}-{delay}ms", at_least=4)
         for kind, other in AGAINST.items() for delay in DELAYS_MS]
OF_MONOTONIC = [
    Target("ids_rate", f"monotonic-{SLOW_MS}ms", "monotonic-0ms", at_least=0.95),
    Target("p50", f"monotonic-{SLOW_MS}ms", "monotonic-0ms", at_most=1 / 0.95),
    Target("ids_rate", "monotonic-0ms", "strict-0ms", at_least=2),
    Target("cpu_us", "monotonic-0ms", "strict-0ms", at_most=0.6),
]
targets = list(PLAIN)  # and those of monotonic tags, once the server has them
charts = ("ids_rate", "p50", "p99", "cpu_us")
columns = STRICT_COLUMNS
told = ("ids_rate", "p50", "p99", "others")
rounds = 3


def in_the_way(figures):
    """How many flushes each waits for, as latency grows with the delay."""
    slow = DELAYS_MS[-1]
    waited = {name: (figures[f"{name}-{slow}ms"]["p50"] - figures[f"{name}-0ms"]["p50"])
              / (1000 * slow) for name in ("strict", "etcd")}
    bound = waited["etcd"] / 2
    return [
        f"With {slow} ms more a flush, half of the requests of {CONNECTIONS} connections waited "
        f"{waited['strict']:.1f} such delays longer at leafd and {waited['etcd']:.1f} at etcd. A "
        "client that asks for its next id when it has the last one gets one id in that time, "
        "whatever the servers' processors could do. Two flushes are the least that a commit of "
        f"LMDB takes: with so few clients no more than {bound:.1f} times etcd's rate is to be had. "
        "With many clients a commit carries many ids, and processors count."]


def slow_contenders(disk, server, kinds, threads=None):
    """Of (name, label, load's command, check) one for each delay."""
    return [SlowContender(disk, delay, f"{name}-{delay}ms", f"{label}, flushes + {delay} ms",
                          [server], command, check, threads)
            for name, label, command, check in kinds for delay in DELAYS_MS]


def ids_load(bench, leafd, tag, connections=CONNECTIONS):
    return load_command(bench, leafd.addresses, "--expect", "ids:1", "--strict",
                        f"/api/segment/get/{tag}", connections=connections)


def leafd_contenders(bench, disk):
    leafd = bench.start(Leafd(bench.data, bench.leafd, prefix=disk.prefix))
    leafd.must_put_tag(TAG, mode="strict")
    tags = [f"tag-{number}" for number in range(TAGS)]
    leafd.make_tags(tags, step=1, max_step=1)
    lines = write_lines(bench, "tags", [f"/api/segment/get/{tag}" for tag in tags])
    dense = dense_loads()  # one for all loads on the tag
    kinds = [
        ("strict", "leafd strict", ids_load(bench, leafd, TAG), dense),
        ("many", f"leafd strict, {MANY:,} connections", ids_load(bench, leafd, TAG, MANY), dense),
        ("grants", "leafd grants", load_command(
            bench, leafd.addresses, "--expect", "ids:1", "--group-by-target", "--targets", lines),
         None),
    ]
    if has_monotonic(bench, leafd):
        kinds.append(("monotonic", "leafd monotonic", ids_load(bench, leafd, MONOTONIC), None))
    return slow_contenders(disk, leafd, kinds, THREADS)


def has_monotonic(bench, leafd):
    """Make the monotonic tag. False if this server does not know the mode."""
    leafd.wait_newest_level()
    status, answer = leafd.put_tag(MONOTONIC, mode="monotonic")
    known = status == 201
    if not known and status != 400:
        raise BenchError(f"the tag {MONOTONIC} could not be made: {status}: {answer}")
    if not known:
        bench.say("tags of mode monotonic are not measured, the server refuses the mode: "
                  f"{answer.strip()}")
    targets[:] = PLAIN + OF_MONOTONIC if known else PLAIN
    return known


@others
def etcd_contenders(bench, disk):
    etcd = bench.start(Etcd(bench.data, 3, prefix=disk.prefix))

    def puts(connections):
        return load_command(bench, etcd.addresses, "--expect", "field:revision", "--strict",
                            "--post", etcd.put_body(TAG), "/v3/kv/put", connections=connections)

    return slow_contenders(disk, etcd, [
        ("etcd", "etcd", puts(CONNECTIONS), None),
        ("etcd-many", f"etcd, {MANY:,} connections", puts(MANY), None)])


def prepare(bench):
    disk = Disk(bench)
    return [*leafd_contenders(bench, disk), *etcd_contenders(bench, disk)]
