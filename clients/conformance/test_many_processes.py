"""Processes of all languages take ids of all kinds at the same time, while leaders die.

LEAFD_CLIENTS_LONG=1: 100 processes for a minute, instead of 20 for four seconds; of these are some
stopped meanwhile for longer than their windows of snowflake ids last, the clocks of others step,
and those that can fork do so at the end.
"""

import os
import random
import time

import pytest

from clockfile import ClockFile, find_libraries, remove_leftovers
from driver import (CLOCK_CAN_BE_FAKED, FORKING, OVER_LIBLEAFD, Failed, check_once, check_rising,
                    chosen, parse_mix, urls, why_not)

LONG = bool(os.environ.get("LEAFD_CLIENTS_LONG"))
PROCESSES = 100 if LONG else 20
SECONDS = 60 if LONG else 4
KILLS = 8 if LONG else 2
STOPPED = 10 if LONG else 0  # clients, at each kill
STOP_S = 3
WINDOW_MS = 2000
STEP_S = 0.8  # of a clock, there or back: a call waits for so long
# In C a wait for a condition ends early when libfaketime's clock steps, whatever clock it is by.
STEPPED = CLOCK_CAN_BE_FAKED - OVER_LIBLEAFD


def stop_some(clients):
    """For longer than a window lasts, so that what they go on with may be somebody else's."""
    chosen_ones = random.sample(clients, STOPPED)
    for client in chosen_ones:
        client.pause()
    if chosen_ones:
        time.sleep(STOP_S)  # no condition says so: it is how long they are stopped
    for client in chosen_ones:
        client.resume()


def fork_snowflake(client):
    """Of a parent and its child. A client that renews its worker id in calls alone may have lost it
    while others were judged; its next call acquires again."""
    try:
        return client.ids("forksnow 50")
    except Failed as failed:
        assert failed.code == "fenced", failed
        return client.ids("forksnow 50")


@pytest.mark.bound(300 if LONG else 90)
def test_processes_of_all_languages(start_any, faulty, tag, strict_tag, tmp_path):
    """No id twice, over all processes; strict and snowflake ids of a process rise; no call
    fails."""
    there = [name for name in chosen() if not why_not(name)]
    if not there:
        pytest.skip("there is no driver of any language")
    clients = []
    clocks = []
    remove_leftovers()
    for number in range(PROCESSES):
        language = there[number % len(there)]
        prefix = ()
        if LONG and language in STEPPED and number // len(there) % 3 == 0:
            clocks.append(ClockFile(str(tmp_path / f"clock-{number}"),
                                    find_libraries("/bin/true")))
            prefix = clocks[-1].prefix()
        client = start_any(language, prefix=prefix)
        clients.append(client.open(endpoints=urls(faulty), attempt_ms=2000,
                                   window_ms=WINDOW_MS))
    for client in clients:
        client.begin(f"mix {tag} {strict_tag} {SECONDS}")
    for _ in range(KILLS):
        leader = faulty.leader()
        leader.kill9()
        for clock in clocks:
            clock.set(random.uniform(-STEP_S, STEP_S))
        stop_some(clients)
        faulty.wait_leader()
        leader.start().wait_ready()
    kinds = ([], [], [])
    for client in clients:
        for kind, ids in zip(kinds, parse_mix(client.judge(client.finish(SECONDS + 30)))):
            assert ids.count() > 0, f"{client} got none"
            kind.append(ids)
    errors = {repr(client): client.stats()["errors"] for client in clients}
    assert not any(errors.values()), errors
    if LONG:
        for client in clients:
            if client.language in FORKING:
                kinds[0].append(client.ids(f"fork {tag} 50"))
                kinds[2].append(fork_snowflake(client))
    for kind in kinds:
        check_once(*kind)
    # (Those of segments fall when a client goes on at another node.)
    for ids in kinds[1] + kinds[2][:len(clients)]:  # not of a parent and its child in turn
        check_rising(ids)
    # A client whose answer was lost is given it again by its key: there are no gaps.
    strict = sorted(pair for ids in kinds[1] for pair in ids)
    assert strict[0][0] == 1
    assert sum(last - first + 1 for first, last in strict) == strict[-1][1]
    for client in clients:
        client.end()
