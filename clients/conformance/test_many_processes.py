"""Processes of all languages take ids of all kinds at the same time, while leaders die.

LEAFD_CLIENTS_LONG=1: 100 processes for a minute, instead of 20 for four seconds.
"""

import os

import pytest

from driver import check_once, check_rising, chosen, parse_mix, urls, why_not

LONG = bool(os.environ.get("LEAFD_CLIENTS_LONG"))
PROCESSES = 100 if LONG else 20
SECONDS = 60 if LONG else 4
KILLS = 8 if LONG else 2


@pytest.mark.bound(300 if LONG else 90)
def test_processes_of_all_languages(start_any, faulty, tag, strict_tag):
    """No id twice, over all processes; strict and snowflake ids of a process rise; no call
    fails."""
    there = [name for name in chosen() if not why_not(name)]
    if not there:
        pytest.skip("there is no driver of any language")
    clients = []
    for number in range(PROCESSES):
        client = start_any(there[number % len(there)])
        clients.append(client.open(endpoints=urls(faulty), attempt_ms=2000, deadline_ms=15000,
                                   window_ms=2000))
    for client in clients:
        client.begin(f"mix {tag} {strict_tag} {SECONDS}")
    for _ in range(KILLS):
        leader = faulty.leader()
        leader.kill9()
        faulty.wait_leader()
        leader.start().wait_ready()
    kinds = ([], [], [])
    for client in clients:
        for kind, ids in zip(kinds, parse_mix(client.judge(client.finish(SECONDS + 30)))):
            assert ids.count() > 0, f"{client} got none"
            kind.append(ids)
    for kind in kinds:
        check_once(*kind)
    # (Those of segments fall when a client goes on at another node.)
    for ids in kinds[1] + kinds[2]:
        check_rising(ids)
    errors = {repr(client): client.stats()["errors"] for client in clients}
    assert not any(errors.values()), errors
    # A client whose answer was lost is given it again by its key: there are no gaps.
    strict = sorted(pair for ids in kinds[1] for pair in ids)
    assert strict[0][0] == 1
    assert sum(last - first + 1 for first, last in strict) == strict[-1][1]
    for client in clients:
        client.end()
