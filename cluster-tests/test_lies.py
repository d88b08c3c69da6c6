"""A member that lies about terms and indexes, and data directories that hold such a lie already.

Once one vote request of term 2^62 - 1 made every node end by an assertion at each of its starts.
"""

import contextlib
import itertools
import re
import struct

import pytest

from liar import (
    BARRIER,
    COMMAND,
    FRAME_RAFT,
    REJECT,
    REJECT_IMPLAUSIBLE,
    WELCOME,
    Liar,
    append_entries,
    put_term_on_disk,
    statement,
    store_id_of,
    vote_request,
)
from wait import WaitTimeout, wait_until, within

JUMP = 2**32
EXIT_DATA = 65
ENDS_S = 10
ALARM = "a peer says what cannot be"


def told(node):
    """What the node counts of it."""
    text = node.get("/metrics").text
    return int(re.search(r"^leafd_peer_implausible_total (\d+)$", text, re.MULTILINE).group(1))


@pytest.mark.alone
def test_injected_vote_requests(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    lost = cluster.followers()[0]
    store_id = store_id_of(cluster, lost, cluster.others(lost)[0].id)
    victims = cluster.others(lost)
    for node in victims:
        node.expect_log(ALARM)
    lost.kill9()
    term = cluster.leader().cluster_status()["term"]
    life = 1000
    for victim in victims:
        before = told(victim)
        for asked in (2**62 - 1, 2**61, term + JUMP + 1000):
            life += 1
            # In this term they know its vote.
            liar = Liar(cluster, victim, lost.id, store_id, statement(life, term + 1, 1000))
            assert liar.answer == WELCOME
            liar.send(FRAME_RAFT, vote_request(lost.id, asked, 10, term))
            assert liar.is_closed()
            liar.close()
        # The number is seen at the end of a turn, the closed link within it.
        wait_until(lambda: told(victim) == before + 3, 5, "three alarms are counted")
        assert f"peer={lost.id} field=term value={2**62 - 1}" in victim.log()
        life += 1
        liar = Liar(cluster, victim, lost.id, store_id, statement(life, 2**62 - 1, 1))
        assert (liar.answer, liar.reason) == (REJECT, REJECT_IMPLAUSIBLE)
        liar.close()
    assert cluster.leader().cluster_status()["term"] == term, "it disturbed the leader"
    cluster.create_tag(tag + ".then")
    # Nothing of it is on a disk: the nodes start again, elect and serve.
    for node in victims:
        node.kill9()
    for node in victims:
        node.start()
    cluster.wait_leader()
    cluster.create_tag(tag + ".again")


def lead_and_lie(cluster, victim, node_id, store_id, life, entry):
    """True: the victim followed it, and has closed the link because of the entry."""
    cluster.wait_leader()
    status = victim.cluster_status()
    term = status["term"] + 50
    start = statement(life, term, status["applied_index"])
    liar = Liar(cluster, victim, node_id, store_id, start)
    assert liar.answer == WELCOME
    liar.sock.settimeout(1)
    try:
        liar.send(FRAME_RAFT, append_entries(term, 1, 1, 1, []))
        # From now on nobody else moves what is committed there.
        wait_until(lambda: victim.cluster_status()["term"] >= term, 5, "it is followed")
        applied = victim.cluster_status()["applied_index"]
        liar.send(FRAME_RAFT, append_entries(term, applied, status["term"], applied, [entry]))
        return liar.is_closed()
    except TimeoutError:
        return False
    finally:
        liar.close()


def lie_until_told(victim, lie, field):
    """It may stand for election itself just now, or soon enough, and not look at what it gets. At
    most one line a second tells of it, whichever it is about."""
    before = told(victim)
    size = len(victim.log())

    def is_told():
        return told(victim) > before and f"field={field}" in victim.log()[size:]

    def is_told_after_a_lie():
        lie()
        with contextlib.suppress(WaitTimeout):
            within(is_told, 1.5, "it is told")
        return is_told()

    wait_until(is_told_after_a_lie, 40, f"an alarm of {field}, last of all:\n{victim.log()[-500:]}")


def still_serve(cluster, victims, tag):
    """The victims make changes, and do so from what they have on their disks, too."""
    cluster.wait_leader()
    cluster.create_tag(tag + ".then")
    for node in victims:
        node.kill9()
    for node in victims:
        node.start()
    cluster.wait_leader()
    cluster.create_tag(tag + ".again")


@pytest.mark.bound(180)
def test_entries_that_cannot_be(make_cluster, tag):
    """Somebody leads a later term, as a member may, and sends what would end every node at each of
    its starts. Nothing of it gets to a disk, and nobody ends."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    lost = cluster.followers()[0]
    victims = cluster.others(lost)
    store_id = store_id_of(cluster, lost, victims[0].id)
    for node in victims:
        node.expect_log(ALARM)
    lost.kill9()
    stamp = bytes(26)  # nobody's
    lies = [
        (COMMAND, b"", "entry_that_does_not_decode"),
        (COMMAND, b"\x03\x01", "entry_that_does_not_decode"),
        (COMMAND, b"\x03\x01" + stamp + b"more", "entry_that_does_not_decode"),
        (COMMAND, b"\x03\xfa" + stamp, "entry_of_a_later_level"),
        (COMMAND, b"\x63\x01" + stamp, "entry_of_a_later_level"),
        (BARRIER, bytes(4096), "barrier_bytes"),
    ]
    lives = itertools.count(1001)
    for victim in victims:
        for kind, data, field in lies:
            lie_until_told(victim, lambda: lead_and_lie(
                cluster, victim, lost.id, store_id, next(lives), (kind, data)), field)
    still_serve(cluster, victims, tag)


def digest_command(node_id, life, index, digest):
    """COMMAND_DIGEST, stamped as the first command of a start."""
    stamp = struct.pack("<HQQQ", node_id, life << 32, 1, 1)
    return b"\x03\x06" + stamp + struct.pack("<QQ", index, digest)


def lead_all(liars, victims, term):
    """All of them follow a leader of this term; returns where each of them stands."""
    for liar in liars:
        liar.send(FRAME_RAFT, append_entries(term, 1, 1, 1, []))

    def followed():
        return all(victim.cluster_status()["term"] == term for victim in victims)

    wait_until(followed, 5, "it is followed")
    return [victim.cluster_status()["applied_index"] for victim in victims]


def test_a_false_member_that_leads(make_cluster, tag):
    """It says a digest that nobody has, and another entry than the committed one: the others ask
    each other, none ends, and both go on."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    lost = cluster.followers()[0]
    victims = cluster.others(lost)
    store_id = store_id_of(cluster, lost, victims[0].id)
    for node in victims:
        node.expect_log(ALARM)
        node.expect_log("others confirm this node")
    cluster.wait_applied()
    lost.kill9()
    contradict(cluster, victims, lost, store_id)
    before = [told(victim) for victim in victims]
    for life in range(3000, 3020):  # they may stand for election themselves just now
        status = cluster.wait_leader().cluster_status()
        term = status["term"] + 50
        start = statement(life, term, status["applied_index"])
        liars = [Liar(cluster, victim, lost.id, store_id, start) for victim in victims]
        try:
            at = lead_all(liars, victims, term)
            if at[0] != at[1]:
                continue
            entry = (COMMAND, digest_command(lost.id, life, at[0], 4711))
            lie = append_entries(term, at[0], status["term"], at[0] + 1, [entry])
            for liar in liars:
                liar.send(FRAME_RAFT, lie)
            wait_until(lambda: [told(victim) for victim in victims] > before, 2, "both ask")
        except AssertionError:
            continue
        finally:
            for liar in liars:
                liar.close()
        if all(told(victim) > count for victim, count in zip(victims, before)):
            break
    for victim, count in zip(victims, before):
        wait_until(lambda v=victim, c=count: told(v) > c, 5, "an alarm is counted")
        victim.wait_log("others confirm this node.*code=diverged")
    still_serve(cluster, victims, tag)


def contradict(cluster, victims, lost, store_id):
    """Entry 2 is another one, to whoever hears it; the other victim confirms the committed one."""
    for victim in victims:
        status = cluster.wait_leader().cluster_status()
        cluster.wait_applied(victims)
        start = statement(2000 + victim.id, status["term"] + 50, status["applied_index"])
        liar = Liar(cluster, victim, lost.id, store_id, start)
        assert liar.answer == WELCOME, liar.reason
        size = len(victim.log())
        other = [(COMMAND, b"\x03\x01" + bytes(26))]
        liar.send(FRAME_RAFT, append_entries(status["term"] + 50, 1, 1, 2, other))
        assert liar.is_closed()
        liar.close()
        victim.wait_log("others confirm this node.*code=contradicted", start=size)


def refuse(node, words):
    node.expect_log("cannot use the data directory")
    size = len(node.log())
    node.start()
    assert node.wait_exit(ENDS_S) == EXIT_DATA, node.log()[size:]
    assert words in node.log()[size:], node.log()[size:]
    assert "raft.reset-term" in node.log()[size:], "it says what to do"


@pytest.mark.parametrize("term", [2**62 - 1, 2**61])
def test_a_term_that_cannot_be_is_refused(make_cluster, tag, term):
    """By the one node that has it; the others serve, also when it is replaced."""
    cluster = make_cluster()
    node = cluster.followers()[0]
    node.stop()
    assert put_term_on_disk(node, term) > 0
    for _ in range(2):
        refuse(node, f"the term is {term}")
    cluster.create_tag(tag)


def test_a_reset_term_brings_a_cluster_back(make_cluster, tag):
    """All nodes took the lie when there was no check: as docs/failure-model.md says."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    first = int(cluster.leader().get(f"/api/segment/get/{tag}").text)
    cluster.stop_all()
    for node in cluster.nodes:
        assert put_term_on_disk(node, 2**62 - 1) > 0
        refuse(node, f"the term is {2**62 - 1}")
    for node in cluster.nodes:
        node.settings["raft-reset-term"] = "true"
    cluster.start()
    assert int(cluster.leader().get(f"/api/segment/get/{tag}").text) > first
    term = cluster.leader().cluster_status()["term"]
    assert JUMP / 2 < term < JUMP
    cluster.stop_all()
    for node in cluster.nodes:
        del node.settings["raft-reset-term"]
    cluster.start()
    assert term < cluster.leader().cluster_status()["term"] < term + 100
    cluster.create_tag(tag + ".then")
