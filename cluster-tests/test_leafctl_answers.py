"""leafctl check and top: what they make of answers that a real cluster seldom gives."""

import pytest

from leafctl import Leafctl
from test_leafctl import Liar

READY = {"status": "ready", "checks": []}
NEWEST = {"level": 3, "can_rise": False, "newest": True, "message": "m"}


class Node(Liar):
    """Answers each path by what it was given: an object, or a status and one."""

    def __init__(self, by_path):
        super().__init__()
        self.by_path = by_path

    def answer(self, path):
        answer = self.by_path.get(path.partition("?")[0], (404, {"code": "no_route"}))
        return answer if isinstance(answer, tuple) else (200, answer)


@pytest.fixture
def asked(tmp_path):
    """asked(words, *answers): leafctl's run over a node for each of the answers."""
    made = []

    def run(words, *answers, code=None):
        nodes = [Node(each) for each in answers]
        made.extend(nodes)
        return Leafctl(tmp_path, *[node.address for node in nodes])(*words, code=code)

    yield run
    for node in made:
        node.shutdown()
        node.server_close()


def of_status(status, ready=None, level=None):
    return {"/api/status": status, "/readyz": ready or READY,
            "/api/cluster/level": level or NEWEST}


def member(number, host, **more):
    return {"id": number, "role": "voter", "reachable": True, "peer_address": f"{host}:7", **more}


def quorum(needed, reachable, survives, text):
    return {"needed": needed, "reachable": reachable, "survives_next_failure": survives,
            "text": text}


def status(members, of_quorum=None, **more):
    return {"node_id": 1, "leader_id": 2, "members": members,
            **({"quorum": of_quorum} if of_quorum else {}), **more}


def alarm(name, severity="critical", text="text", **more):
    return {"name": name, "severity": severity, "text": text, **more}


THREE = [member(1, "a"), member(2, "b"), member(3, "c")]
GOOD = quorum(2, 3, True, "1 more may fail")
WORST = quorum(2, 2, False, "just enough")
LOST = {"id": 4, "role": "voter"}
WORSE = {0: "healthy\n", 1: "up, with warnings\n", 2: "critical\n"}


@pytest.mark.parametrize("answer, worst, words", [
    (status(THREE, GOOD), 0, "good      quorum: 1 more may fail"),
    ({}, 2, "critical  quorum: ?"),
    ({"node_id": 1, "members": THREE, "quorum": GOOD,
      "alarms": [alarm("LeafdNoLeader", do="what")]},
     2, "alarm: LeafdNoLeader: text\n          do: what"),
    (status(THREE + [LOST], GOOD, alarms=[alarm("LeafdNodeDown", do="what")]),
     2, "alarm: LeafdNodeDown: text\n          do: what"),
    (status(THREE, GOOD, alarms=[alarm("LeafdDiskLow", do="what")]),
     2, "alarm: LeafdDiskLow: text\n          do: what"),
    (status([member(1, "a")], quorum(1, 1, False, "")), 1, "one voter"),
    (status([member(1, "a"), member(2, "b")], WORST), 2, "let a third node join"),
    (status(THREE + [member(4, "d")], quorum(3, 4, True, "")), 1, "no more failures than 3"),
    (status([{"id": 2, "role": "voter", "reachable": False}, member(1, "a"), member(3, "c")],
            WORST), 2, "quorum: just enough\n          do: bring the missing node back"),
    (status(THREE, quorum(2, 1, False, "too few")),
     2, "too few\n          do: start the nodes that are down"),
    (status(THREE + [{"id": 4, "role": "standby", "reachable": True}], GOOD),
     1, "node 4 is a standby"),
    (status([member(1, "a", state="drained"), *THREE[1:]], GOOD), 1, "node 1 is drained"),
    (status([member(1, "a"), member(2, "a"), member(3, "c")], GOOD),
     1, "2 of 3 members are at one address (a)"),
    (status([member(number, "127.0.0.1") for number in (1, 2, 3)], GOOD), 0, "on this machine"),
    (status(THREE, GOOD, change={"kind": "add", "id": 4, "state": "given_up"}),
     1, "(add node 4) is given_up"),
    # A node judges its disk, memory, database, certificates and clock.
    (status(THREE, GOOD, alarms=[alarm("X", text="t", do="d")]), 2, "X: t\n          do: d"),
    (status(THREE, GOOD, alarms=[{"name": "X", "severity": "warning"}]), 1, "X: ?"),
    (status(THREE, GOOD, alarms=[{"name": "", "text": "", "do": ""}, {"name": "", "text": "t"}]),
     1, "alarm: : \n          also: t\n          do: \n"),
    # Names of zones.
    (status(THREE, GOOD, prefer_zone="q"), 1, "no node is in zone q, which is to lead"),
    (status([member(1, "a", zone="x"), member(2, "b", zone="x"), member(3, "c", zone="y")], GOOD),
     1, "node 3 alone is in zone y, while others share x"),
])
def test_what_a_status_shows(asked, answer, worst, words):
    done = asked(["check", "--all"], of_status(answer), code=worst)
    assert words in done.out and done.out.endswith("the cluster is " + WORSE[worst]), done


def test_readiness(asked):
    ready = (503, {"status": "not ready", "checks": [
        {"name": "ids", "ok": False, "needed": True, "reason": "none"},
        {"name": "settings", "ok": False, "differ": ["x"]}, {"name": "applied", "ok": True}]})
    done = asked(["check", "--json"], of_status(status(THREE, GOOD), ready), code=2)
    found = [finding for finding in done.json["findings"] if finding["severity"] != "good"]
    assert [finding["about"] for finding in found] == ["ready", "settings"]
    assert found[0]["text"].endswith(": ids: none") and '["x"]' in found[1]["text"]


@pytest.mark.parametrize("level, text", [
    (NEWEST, "good      level: level 3, the newest that the nodes speak\n"),
    ({"level": 2, "can_rise": False, "newest": False, "message": "node 3 is old"},
     "good      level: level 2 stays for now: node 3 is old\n"),
    ({"level": 2, "can_rise": False}, "good      level: level 2 stays for now: ?\n"),
    ({"level": 2, "can_rise": True}, "warning   level: all nodes speak a newer level than 2\n"),
])
def test_levels(asked, level, text):
    done = asked(["check", "--all"], of_status(status(THREE, GOOD), level=level))
    assert text in done.out and done.out.count("  level: ") == 1, done


def test_an_alarm_is_printed_once(asked):
    """Node 3 is reached by no other, and one of them says so a moment earlier; one is asked
    again."""
    members = [*THREE[:2], {"id": 3, "role": "voter", "reachable": False}]
    answers = []
    for turn, node in enumerate((1, 2, 3, 2)):
        alarms = [alarm("LeafdNodeDown", text=f"node 3 is cut off from node {node}", do="d")]
        answers.append(of_status({**status(members, WORST, alarms=alarms if turn else []),
                                  "node_id": node}))
    assert asked(["check"], *answers, code=2).out == (
        "critical  quorum: just enough\n"
        "          do: bring the missing node back, or replace it: members replace\n"
        "critical  alarm: LeafdNodeDown: node 3 is cut off from node 2\n"
        "          also: node 3 is cut off from node 3\n"
        "          do: d\n"
        "the cluster is critical\n")


def test_nothing_is_printed_that_an_alarm_says(asked):
    """Of a node's disk, memory and snowflake ids, its links, and the leader, only the node's alarms
    are printed; and the level is not printed beside its alarm."""
    answer = status(THREE + [LOST], GOOD, disk={"data_bytes": 1000, "free_bytes": 9}, alarms=[
        alarm("LeafdNoLeader", text="none"), alarm("LeafdNodeDown", text="4"),
        alarm("LeafdStateNearlyFull", text="96 %"), alarm("LeafdDiskLow", text="low"),
        alarm("LeafdSnowflakeRefused", "warning", "no"),
        alarm("LeafdLevelNotRaised", "warning", "old"),
        alarm("LeafdErrors", "warning", "many", do="d")])
    del answer["leader_id"]
    ready = {"checks": [{"name": name, "ok": False} for name in ("disk", "memory", "snowflake")]
             + [{"name": "ids", "ok": False, "needed": True}]}
    done = asked(["check"], of_status(answer, ready, {"level": 2, "can_rise": True}), code=2)
    lines = done.out.splitlines(keepends=True)
    assert lines[4].endswith(": ids: not ok\n") and lines[4].startswith("critical  ready: 127")
    assert "".join(lines[:4] + lines[5:]) == (
        "critical  alarm: LeafdNoLeader: none\n"
        "critical  alarm: LeafdNodeDown: 4\n"
        "critical  alarm: LeafdStateNearlyFull: 96 %\n"
        "critical  alarm: LeafdDiskLow: low\n"
        "          do: its log, and failure-model.md, \"what you see, what you do\"\n"
        "warning   alarm: LeafdSnowflakeRefused: no\n"
        "warning   alarm: LeafdLevelNotRaised: old\n"
        "warning   alarm: LeafdErrors: many\n          do: d\n"
        "warning   quorum: 4 voters survive no more failures than 3\n"
        "          do: let one more node join, or remove one\n"
        "the cluster is critical\n")


def test_rates_of_several_nodes(asked):
    page = {"/api/node/segments": {"segments": [
        {"tag": "a", "rate_per_s": 10, "step": 5,
         "slots": [{"next_id": "1", "end": "51"}, {"next_id": None, "end": None}]},
        {"tag": "b", "rate_per_s": 30, "slots": []},
        {"tag": "idle", "slots": [{"next_id": "1", "end": "9"}]}, {}, 7,
        {"tag": "strict", "state": "strict", "rate_per_s": 1, "slots": []}]}}
    rates = [
        {"tag": "b", "rate_per_s": 60, "left": 0, "step": 0, "lasts_s": 0.0, "nodes": 2},
        {"tag": "a", "rate_per_s": 20, "left": 100, "step": 5, "lasts_s": 5.0, "nodes": 2},
        {"tag": "strict", "rate_per_s": 2, "left": 0, "step": 0, "lasts_s": None, "nodes": 2},
        {"tag": "idle", "rate_per_s": 0, "left": 16, "step": 0, "lasts_s": None, "nodes": 2}]
    done = asked(["top", "--json", "-n", 9], page, page, code=0)
    assert done.json["tags"] == rates  # a lasts 5 s on each node
    assert asked(["top", "--json", "-n", 1], page, page).json["tags"] == rates[:1]
    most = (1 << 63) - 1
    page = {"/api/node/segments": {"segments": [
        {"tag": "x", "rate_per_s": most, "slots": [{"next_id": "0", "end": str(most)}]}]}}
    [row] = asked(["top", "--json"], page, page, code=0).json["tags"]
    assert row["rate_per_s"] == row["left"] == most  # what no node says does not overflow
