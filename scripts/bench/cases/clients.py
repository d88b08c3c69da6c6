"""Ids of the client libraries, one thread and several, against asking by HTTP for each."""

import os
import subprocess
import sys

from cases.common import TAG, ids_contender
from measure import Procedure, Target
from processes import BenchError
from servers import Leafd

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.append(os.path.join(ROOT, "clients", "conformance"))

from driver import Driver, Failed, chosen, why_not  # noqa: E402

name = "clients"
title = "segment ids of the client libraries, against a request for each"
text = """
The function next() of a segment source of each library (docs/clients.md) by its driver's bench,
after a warm-up: one thread, and two threads with a source each where the language has threads that
run at the same time. Beside them one id a request over HTTP with one connection and with 64. One
node, on the same cores as whoever asks; the libraries' settings are the default ones.
"""
LANGUAGES = ("c", "go", "java", "node", "python")
THREADED = {"c", "go", "java"}
THREADS = 2
# Far below what there is: a library that asked for each id would be at 1.
AT_LEAST = 20


def targets_for(languages):
    return [Target("ids_rate", language, "http-1", at_least=AT_LEAST) for language in languages]


targets = targets_for(LANGUAGES)
charts = ("ids_rate",)
columns = told = ("ids_rate",)

CALIBRATION_IDS = 20000
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


def procedure(bench, leafd, language, threads):
    """So many threads of a library, in a process of their own each time."""
    line = f"benchthreads {threads}" if threads > 1 else "bench"

    def ns_an_id(client, count):
        answer = client.ask(f"{line} {TAG} {count}", ANSWER_S)
        return max(float(answer.split(" ")[1]), 0.1)

    def measured(seconds):
        client = Driver(language, bench.data)
        try:
            client.open(endpoints=f"http://{leafd.addresses}", deadline_ms=60000)
            count = CALIBRATION_IDS
            while True:  # until it takes about so long
                ns = ns_an_id(client, count)
                if ns * count * threads >= 0.5e9 * seconds:
                    break
                count = min(10 * count, int(1e9 * seconds / ns / threads) + 1)
            client.end()
        except (AssertionError, Failed) as error:
            raise BenchError(f"the driver of {language}: {error}") from None
        finally:
            client.kill()
        leafd.check()
        return {"ids_rate": 1e9 / ns}

    label = f"{language}, {threads} thread" + ("s" if threads > 1 else "")
    return Procedure(language if threads == 1 else f"{language}-{threads}", label, [leafd],
                     f"clients/{language}/driver: {line} {TAG} N", measured)


def prepare(bench):
    there = build(bench)
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1))
    leafd.must_put_tag(TAG)
    contenders = [
        ids_contender(bench, leafd, name="http-1", label="HTTP, 1 connection", connections=1),
        ids_contender(bench, leafd, name="http-64", label="HTTP, 64 connections"),
    ]
    for language in there:
        contenders.append(procedure(bench, leafd, language, 1))
        if language in THREADED:
            contenders.append(procedure(bench, leafd, language, THREADS))
    targets[:] = targets_for(there)
    return contenders
