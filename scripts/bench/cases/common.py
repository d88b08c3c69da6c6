"""What several cases share."""

import os
from functools import wraps

from measure import Contender
from processes import BenchError, pinned
from servers import HOST, LEAF_UPDATE, Bare, Etcd, Leafd, Nginx, Redis

CONNECTIONS = 64
TAG = "order"
PATH = f"/api/segment/get/{TAG}"
CALIBRATION_S = 1.5
# The kinds of leafd's threads (processes.cpu_of_threads) and their figures.
THREADS = {"http": "http_us", "main": "raft_us", "leafd-writer": "writer_us"}
# What is told of contenders when leafd is strict_leafd_contender().
STRICT_COLUMNS = ("ids_rate", "cpu_us", "user_us", "system_us", *THREADS.values(), "load_us", "p50",
                  "p99", "p99.9", "idle", "others")


def load_command(bench, address, *arguments, bound=False, connections=CONNECTIONS):
    """The load on an address; bound: on its own core."""
    return [*(pinned(bench.load_cores) if bound else []), bench.tool("load"), "--address", address,
            "--connections", str(connections), *map(str, arguments)]


def ids_contender(bench, leafd, *arguments, name="leafd", label="leafd, 1 node", path=PATH,
                  check=None, threads=None, **options):
    """One id a request of leafd; arguments and options go to the load."""
    return Contender(name, label, [leafd], load_command(
        bench, leafd.addresses, "--expect", "ids:1", *arguments, path, **options), check, threads)


def tags_contender(bench, leafd, tags, name="leafd", label="leafd, 1 node", arguments=(),
                   **options):
    """The same of many tags in turn."""
    targets = write_lines(bench, f"{leafd.name}-{name}-tags",
                          [f"/api/segment/get/{tag}" for tag in tags])
    return Contender(name, label, [leafd], load_command(
        bench, leafd.addresses, "--expect", "ids:1", "--group-by-target", "--targets", targets,
        *arguments, **options))


def single_leafd(bench):
    """One node on the servers' core, with one thread for HTTP and a tag to take ids from."""
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, {"http-loops": 1}, bench.server_cores))
    leafd.must_put_tag(TAG)
    return leafd


def others(make):
    """Of a function that starts other servers and returns a list of contenders: it has none of them
    where two builds of leafd are measured against each other (compare.py)."""
    @wraps(make)
    def made(bench, *arguments, **options):
        return [] if bench.base else make(bench, *arguments, **options)

    return made


@others
def bare_contenders(bench, *loads):
    """The bare loop on the servers' core, with each of these loads: (name, label, arguments,
    options of load_command)."""
    bare = bench.start(Bare(bench.data, bench.tool("bare"), bench.server_cores))
    return [Contender(name, label, [bare], load_command(
        bench, f"{HOST}:{bare.port}", "--expect", f"text:{Bare.BODY}", *arguments, bound=True,
        **options)) for name, label, arguments, options in loads]


@others
def constant_contenders(bench, *arguments):
    """The bare loop, nginx and Redis on the servers' core; the load's arguments are appended."""
    nginx = bench.start(Nginx(bench.data, cores=bench.server_cores))
    redis = bench.start(Redis(bench.data, cores=bench.server_cores))
    constant = ("--expect", f"text:{Nginx.BODY}", PATH, *arguments)
    return [
        *bare_contenders(bench, ("bare", "bare epoll loop", (PATH, *arguments), {})),
        Contender("nginx", "nginx, return 200", [nginx],
                  load_command(bench, f"{HOST}:{nginx.port}", *constant, bound=True)),
        Contender("redis", "Redis, INCR", [redis],
                  load_command(bench, f"{HOST}:{redis.port}", "--protocol", "resp", "--expect",
                               "ids:1", "--strict", "INCR order", *arguments, bound=True)),
    ]


def strict_leafd_contender(bench):
    """Three nodes with a strict tag; the connections are spread over them."""
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    status, text = leafd.put_tag(TAG, mode="strict")
    if status != 201:
        raise BenchError(f"leafd refuses strict tags: {status}: {text}")
    return ids_contender(bench, leafd, "--strict", label="leafd, 3 nodes", check=dense_loads(),
                         threads=THREADS)


def dense_loads():
    """A Contender's check: strict ids that were acknowledged are dense, also from one load to the
    next, so that none of them comes in two loads."""
    last = 0  # the greatest id of the loads before

    def check(report):
        nonlocal last
        ids = report["ids"]
        if ids["min"] != last + 1 or ids["max"] - ids["min"] + 1 != ids["count"]:
            raise BenchError(f"acknowledged ids are not dense: after {last} came {ids}")
        last = ids["max"]

    return check


@others
def mariadb_contenders(bench, server, label="MariaDB", check=None):
    """Leaf's UPDATE on a MariaDB that is started here, with text or prepared statements, whichever
    is faster here."""
    bench.start(server)
    ways = [Contender(server.name, text, [server], load_command(
        bench, f"{HOST}:{server.port}", "--protocol", protocol, "--expect", "ids:1", "--strict",
        LEAF_UPDATE), check)
        for text, protocol in ((label, "mariadb"), (f"{label}, prepared", "mariadb-prepared"))]
    best = {way: max(way.measure(CALIBRATION_S)["rate"] for _ in range(2)) for way in ways}
    bench.say("MariaDB: " + ", ".join(f"{way.label} {rate:.0f}/s" for way, rate in best.items()))
    return [max(best, key=best.get)]


@others
def etcd_contenders(bench, targets=None, size=1, arguments=()):
    """An etcd of so many members with puts over HTTP, to one key, or to the keys of a targets file;
    the connections are spread over the members. The revision in each answer is the id: every put
    has a new one."""
    etcd = bench.start(Etcd(bench.data, size))
    label = f"etcd, {size} member" + ("s" if size > 1 else "")
    return [Contender("etcd", label, [etcd], load_command(
        bench, etcd.addresses, "--expect", "field:revision", *arguments,
        "--post", etcd.put_body(TAG), *(["--targets", targets] if targets else ["/v3/kv/put"])))]


def write_lines(bench, name, lines):
    """A file of the benchmark's own; its path."""
    path = os.path.join(bench.data, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    return path
