"""Ids of the client libraries: one thread, 32, and while the leader dies; against HTTP for each."""

import os
import subprocess
import sys
import threading

from cases.common import TAG, ids_contender
from measure import Procedure, Target
from processes import BenchError, cpu_of
from servers import Leafd

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.append(os.path.join(ROOT, "clients", "conformance"))

from driver import Driver, Failed, chosen, parse_loop, why_not  # noqa: E402

name = "clients"
title = "segment ids of the client libraries, against a request for each"
text = """
The function next() of a segment source of each library (docs/clients.md) by its driver's bench,
after a warm-up: one thread, and 32 with a source each where the language has threads that run at
the same time. Beside them one id a request over HTTP with one connection and with 64. One node, on
the same cores as whoever asks; the libraries' settings are the default ones. The CPU time is that
of the whole process, its requests in the background included.

At three nodes next() is called without a pause while the leader gets SIGKILL in the middle: no call
may fail, and of the longest waits that of one call in 10,000 is shown. (Where others use the
machine, too, that is how long a process of one thread waits for a processor.)

Others publish of theirs, on other machines: TinyID more than 10 million ids a second of its Java
client (100 ns), CosId 127 million of its SegmentChainId (7.8 ns) with a p99.99 of 0.208 µs, on an
Apple M1 (their READMEs).
"""
# Nanoseconds of CPU time that next() of one thread may cost.
MOST_NS = {"c": 20, "go": 40, "java": 40, "node": 1000, "python": 1000}
LANGUAGES = tuple(MOST_NS)
THREADED = {"c", "go", "java"}
THREADS = 32
# Far below what there is: a library that asked for each id would be at 1.
AT_LEAST = 20
# So much more may an id cost with many threads: 0.7 of one thread's ids for each core.
MOST_WITH_THREADS = 1 / 0.7
MOST_WAIT_US = 1000


def targets_for(languages):
    found = [Target("ids_rate", language, "http-1", at_least=AT_LEAST) for language in languages]
    found += [Target("next_ns", language, at_most=MOST_NS[language]) for language in languages]
    found += [Target("next_ns", f"{language}-{THREADS}", language,
                     at_most=round(MOST_WITH_THREADS, 2))
              for language in languages if language in THREADED]
    return found + [Target("p99.99", f"{language}-killed", at_most=MOST_WAIT_US)
                    for language in languages]


targets = targets_for(LANGUAGES)
charts = ("ids_rate",)
columns = told = ("ids_rate", "next_ns", "p99.99", "max")

CALIBRATION_IDS = 20000
WARM_UP_IDS = 500000  # until a source asks for as many at once as it may
ANSWER_S = 120


def build(bench):
    """Build what can be built here; the languages that have a driver then."""
    run = subprocess.run([os.path.join(ROOT, "scripts", "clients"), "build"], capture_output=True,
                         text=True, check=False)
    bench.say((run.stdout.strip().splitlines() or ["clients: nothing was built"])[-1])
    if run.returncode != 0:
        raise BenchError(f"scripts/clients build ended with {run.returncode}: {run.stderr}")
    return [language for language in LANGUAGES
            if language in chosen() and why_not(language) is None]


def with_driver(bench, leafd, language, work):
    """What work(driver) gives; the driver is of this language, and lives as long."""
    client = Driver(language, bench.data)
    try:
        endpoints = ",".join(f"http://{node.http_address}" for node in leafd.cluster.nodes)
        client.open(endpoints=endpoints, deadline_ms=60000)
        figures = work(client)
        client.end()
        return figures
    except (AssertionError, Failed) as error:
        raise BenchError(f"the driver of {language}: {error}") from None
    finally:
        client.kill()


def next_alone(bench, leafd, language, threads):
    """So many threads of a library, in a process of their own each time."""
    line = f"benchthreads {threads}" if threads > 1 else "bench"

    def once(client, count):
        """Nanoseconds an id by the clock, and of CPU time."""
        before = sum(cpu_of(client.process.pid))
        answer = client.ask(f"{line} {TAG} {count}", ANSWER_S)
        spent = sum(cpu_of(client.process.pid)) - before
        return max(float(answer.split(" ")[1]), 0.1), 1e9 * spent / (count * threads)

    def measured(seconds):
        def work(client):
            count = CALIBRATION_IDS
            while True:  # until it takes about so long
                ns, cpu_ns = once(client, count)
                if ns * count * threads >= 0.5e9 * seconds:
                    return {"ids_rate": 1e9 / ns, "next_ns": cpu_ns}
                count = min(10 * count, int(1e9 * seconds / ns / threads) + 1)

        figures = with_driver(bench, leafd, language, work)
        leafd.check()
        return figures

    label = f"{language}, {threads} thread" + ("s" if threads > 1 else "")
    return Procedure(language if threads == 1 else f"{language}-{threads}", label, [leafd],
                     f"clients/{language}/driver: {line} {TAG} N", measured)


def next_while_the_leader_dies(bench, leafd, language):
    """One thread that calls next() all the time, at three nodes."""

    def measured(seconds):
        leader = leafd.cluster.leader()
        leader.leaving()
        timer = threading.Timer(seconds / 2, leader.process.kill)

        def work(client):
            client.ids(f"segment {TAG} {WARM_UP_IDS}", ANSWER_S)
            timer.start()
            answer = client.ask(f"loop {TAG} {max(1, round(seconds))}", ANSWER_S)
            count, longest, p9999, _ = parse_loop(answer)
            return {"ids_rate": count / seconds, "p99.99": p9999 / 1e3, "max": longest / 1e3}

        try:
            return with_driver(bench, leafd, language, work)
        finally:
            timer.cancel()
            leader.process.kill()  # at the latest
            leader.wait_exit()
            leader.start().wait_ready()
            leafd.cluster.leader()

    return Procedure(f"{language}-killed", f"{language}, leader killed", [leafd],
                     f"clients/{language}/driver: loop {TAG} SECONDS", measured)


def prepare(bench):
    there = build(bench)
    one = bench.start(Leafd(bench.data, bench.leafd, 1))
    three = bench.start(Leafd(bench.data, bench.leafd, 3, name="leafd-three"))
    for leafd in (one, three):
        leafd.must_put_tag(TAG)
    contenders = [
        ids_contender(bench, one, name="http-1", label="HTTP, 1 connection", connections=1),
        ids_contender(bench, one, name="http-64", label="HTTP, 64 connections"),
    ]
    for language in there:
        contenders.append(next_alone(bench, one, language, 1))
        if language in THREADED:
            contenders.append(next_alone(bench, one, language, THREADS))
        contenders.append(next_while_the_leader_dies(bench, three, language))
    targets[:] = targets_for(there)
    return contenders
