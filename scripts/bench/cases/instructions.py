"""Instructions per request in user space, counted by callgrind."""

import os
import re

from cases.common import PATH, TAG, load_command
from measure import Procedure, run_load
from ports import take_port
from processes import BenchError
from servers import HOST, Bare, Leafd, Nginx, Redis

name = "instructions"
title = "instructions per request in user space"
text = """
Counted by callgrind, so that they are the same whatever else the machine does: each server runs
twice under it, for few and for many requests, and the difference is divided by the requests that
it has more. System calls are not in it. 64 connections, one request at once and 32. There is no
target: the profile behind the figures is what a change of the code begins with.
"""
targets = []
charts = ("instructions", "instructions_32")
columns = ("instructions", "instructions_32")
told = ("instructions", "instructions_32")
rounds = 1

FEW, MANY = 6400, 32000
PIPELINE = 32
LIMIT_S = 120
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
COLLECTED = re.compile(r"Collected : (\d+)")
# Valgrind cannot map as much as leafd asks for by default, and takes its time to start.
SETTINGS = {"http-loops": 1, "data-map-bytes": "256MiB"}


def collected(log_path):
    """The instructions that the last run under callgrind had."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        counts = COLLECTED.findall(log.read())
    if not counts:
        raise BenchError(f"callgrind counted nothing: see {log_path}")
    return int(counts[-1])


class Counted:
    """A server under callgrind. make(): a new server, not started; address and log of one."""

    def __init__(self, bench, make, address, log, arguments):
        self.bench = bench
        self.make = make
        self.address = address
        self.log = log
        self.arguments = arguments

    def run(self, requests, pipeline):
        """The instructions of a life with so many requests."""
        server = self.bench.start(self.make())
        run_load(load_command(self.bench, self.address(server), "--requests", requests,
                              "--seconds", LIMIT_S, "--pipeline", pipeline, *self.arguments),
                 LIMIT_S)
        server.stop()
        self.bench.servers.remove(server)
        return collected(self.log(server))

    def measure(self, _):
        return {figure: (self.run(MANY, depth) - self.run(FEW, depth)) / (MANY - FEW)
                for figure, depth in (("instructions", 1), ("instructions_32", PIPELINE))}


class Grind:
    """Mixed into a server: its process runs under callgrind."""

    def run(self, command, name=None):
        return super().run([*VALGRIND, *command], name)


class GrindBare(Grind, Bare):
    """The bare loop under callgrind."""


class GrindNginx(Grind, Nginx):
    """nginx under callgrind."""


class GrindRedis(Grind, Redis):
    """Redis under callgrind."""


class GrindLeafd(Leafd):
    """One node of leafd under callgrind."""

    def __init__(self, bench, name="leafd"):
        self.resp_address = f"{HOST}:{take_port()}"
        super().__init__(bench.data, bench.leafd, 1,
                         {**SETTINGS, **({"resp-listen": self.resp_address} if name != "leafd"
                                         else {})}, name=name)
        self.cluster.nodes[0].prefix = VALGRIND

    def start(self):
        super().start()
        self.must_put_tag(TAG)
        return self

    def stop(self):
        """Cleanly, so that callgrind tells what it has counted."""
        if self.cluster.running():
            self.cluster.nodes[0].stop(LIMIT_S)


def prepare(bench):
    tool = bench.tool("bare")
    constant = ("--expect", f"text:{Nginx.BODY}", PATH)

    def by_port(server):
        return f"{HOST}:{server.port}"

    def log_of(server):
        return os.path.join(server.directory, f"{server.name}.log")

    counted = {
        "leafd": Counted(bench, lambda: GrindLeafd(bench), lambda one: one.addresses,
                         lambda one: one.cluster.nodes[0].log_path, ("--expect", "ids:1", PATH)),
        "leafd, INCR": Counted(bench, lambda: GrindLeafd(bench, "leafd-resp"),
                               lambda one: one.resp_address,
                               lambda one: one.cluster.nodes[0].log_path,
                               ("--protocol", "resp", "--expect", "ids:1", f"INCR {TAG}")),
        "bare": Counted(bench, lambda: GrindBare(bench.data, tool), by_port, log_of, constant),
        "nginx": Counted(bench, lambda: GrindNginx(bench.data), by_port, log_of, constant),
        "redis": Counted(bench, lambda: GrindRedis(bench.data), by_port, log_of,
                         ("--protocol", "resp", "--expect", "ids:1", "INCR order")),
    }
    if bench.base:
        counted = {"leafd": counted["leafd"]}
    return [Procedure(key, key, [], f"{' '.join(VALGRIND)}, {FEW} and {MANY} requests",
                      one.measure) for key, one in counted.items()]
