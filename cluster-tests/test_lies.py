"""Terms that cannot be: from a member, and in a data directory.

Once one vote request of term 2^62 - 1 made every node end by an assertion at each of its starts.
"""

# Shows attack-member.

import re

import pytest

from cluster import STEADY
from liar import (
    FRAME_RAFT,
    REJECT,
    REJECT_IMPLAUSIBLE,
    WELCOME,
    Liar,
    put_term_on_disk,
    statement,
    store_id_of,
    vote_request,
)
from wait import wait_until

JUMP = 2**32
EXIT_DATA = 65
ENDS_S = 10
ALARM = "a peer sent an impossible value"


def told(node):
    """What the node counts of it."""
    text = node.get("/metrics").text
    return int(re.search(r"^leafd_peer_implausible_total (\d+)$", text, re.MULTILINE).group(1))


@pytest.mark.quiet
def test_injected_vote_requests(make_cluster, tag):
    cluster = make_cluster(settings=STEADY)
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


def refuse(node, words):
    node.expect_log("cannot use the data directory")
    size = len(node.log())
    node.start()
    assert node.wait_exit(ENDS_S) == EXIT_DATA, node.log()[size:]
    assert words in node.log()[size:], node.log()[size:]
    assert "leafd recover" in node.log()[size:], "it says what to do"


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
