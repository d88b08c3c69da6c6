"""What several cases share."""

import os

from measure import Contender
from processes import pinned
from servers import HOST, Bare, Etcd, Leafd, Nginx, Redis

CONNECTIONS = 64
TAG = "order"


def load_command(bench, address, *arguments, bound=False, connections=CONNECTIONS):
    """The load on an address; bound: on its own core."""
    return [*(pinned(bench.load_cores) if bound else []), bench.tool("load"), "--address", address,
            "--connections", str(connections), *map(str, arguments)]


def single_leafd(bench):
    """One node on the servers' core, with one thread for HTTP and a tag to take ids from."""
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, {"http-loops": 1}, bench.server_cores))
    leafd.must_put_tag(TAG)
    return leafd


def constant_contenders(bench, *arguments):
    """The bare loop, nginx and Redis on the servers' core; the load's arguments are appended."""
    bare = bench.start(Bare(bench.data, bench.tool("bare"), bench.server_cores))
    nginx = bench.start(Nginx(bench.data, bench.server_cores))
    redis = bench.start(Redis(bench.data, bench.server_cores))
    constant = ("--expect", f"text:{Nginx.BODY}", "/api/segment/get/order", *arguments)
    return [
        Contender("bare", "bare epoll loop", [bare],
                  load_command(bench, f"{HOST}:{bare.port}", *constant, bound=True)),
        Contender("nginx", "nginx, return 200", [nginx],
                  load_command(bench, f"{HOST}:{nginx.port}", *constant, bound=True)),
        Contender("redis", "Redis, INCR", [redis],
                  load_command(bench, f"{HOST}:{redis.port}", "--protocol", "resp", "--expect",
                               "ids:1", "--strict", "INCR order", *arguments, bound=True)),
    ]


def etcd_contender(bench, targets=None):
    """A single etcd with puts over HTTP, to one key, or to the keys of a targets file. The revision
    in each answer is the id: every put has a new one."""
    etcd = bench.start(Etcd(bench.data))
    return Contender("etcd", "etcd, 1 member", [etcd], load_command(
        bench, f"{HOST}:{etcd.port}", "--expect", "field:revision", "--post", etcd.put_body(TAG),
        *(["--targets", targets] if targets else ["/v3/kv/put"])))


def write_lines(bench, name, lines):
    """A file of the benchmark's own; its path."""
    path = os.path.join(bench.data, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    return path
