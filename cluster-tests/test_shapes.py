"""Tags with a shape: their ids are texts, the same by every node, through a change of leader, a
restart and a backup; a secret one tells nothing, and its key is nowhere to be seen; those with a
date begin anew."""

import contextlib
import datetime
import itertools
import re
import threading
import time

from clockfile import noon_s, own_clocks
from cluster import FAST
from wait import wait_until

NEW_YEAR_2031_IN_TOKYO = 1924959600


def make(node, tag, **fields):
    answer = node.http("PUT", f"/api/tags/{tag}", fields)
    assert answer.status == 201, answer
    return answer.json()


def texts(node, tag, count):
    answer = node.get(f"/api/segment/get/{tag}?count={count}&timeout_ms=10000")
    assert answer.status == 200, answer
    return answer.text.split("\n")[:-1]


def decoded(node, tag, text):
    answer = node.get(f"/api/segment/decode/{tag}?text={text}")
    assert answer.status == 200, answer
    return int(answer.json()["id"])


def test_every_node_writes_the_same_texts(make_cluster):
    cluster = make_cluster()
    make(cluster.nodes[0], "inv", mode="strict", shape="INV-{id:6}{luhn}")
    make(cluster.nodes[1], "c", shape="{secret36:8}")
    strict, secret, numbers = [], [], []
    for k in range(30):
        if k == 10:
            cluster.leader().kill9()
        node = cluster.running()[k % len(cluster.running())]
        strict += texts(node, "inv", 7)
        secret += texts(node, "c", 50)
        numbers += [int(n) for n in node.get("/api/segment/get/c?count=3&as=number").text.split()]
    assert [int(t[4:10]) for t in strict] == list(range(1, 211)), "strict: dense, and in order"
    assert all(re.fullmatch(r"INV-\d{7}", t) for t in strict)
    assert all(re.fullmatch(r"[0-9A-Z]{8}", t) for t in secret) and len(set(secret)) == 1500
    # Whoever takes a text apart gets the id; no id went out as a number and as a text.
    node = cluster.running()[0]
    ids = [decoded(node, "c", t) for t in secret[::50]]
    assert not set(ids) & set(numbers)
    assert [decoded(n, "c", secret[0]) for n in cluster.running()] == [ids[0]] * 2


def test_a_shape_lives_through_a_restart_and_a_deletion(make_cluster):
    cluster = make_cluster()
    node = cluster.nodes[0]
    make(node, "c", shape="{secret36:8}{mod97}")
    before = texts(node, "c", 5)
    id_of = {t: decoded(node, "c", t) for t in before}
    assert b"{secret36:8}{mod97}" in node.get("/api/backup").body
    cluster.kill_all()
    cluster.start()
    assert {t: decoded(cluster.nodes[1], "c", t) for t in before} == id_of
    assert not set(texts(cluster.nodes[2], "c", 500)) & set(before)
    # Deleted and made again: the same key, and other ids.
    assert cluster.nodes[0].http("DELETE", "/api/tags/c").status == 204
    refused = cluster.nodes[0].http("PUT", "/api/tags/c", {"shape": "{secret36:9}"})
    assert (refused.status, refused.code) == (400, "bad_request"), refused
    assert make(cluster.nodes[0], "c")["shape"] == "{secret36:8}{mod97}"
    assert decoded(cluster.nodes[1], "c", before[0]) == id_of[before[0]]
    assert not set(texts(cluster.nodes[1], "c", 500)) & set(before)


def test_a_node_that_comes_by_a_snapshot_writes_the_same(make_cluster):
    cluster = make_cluster(
        settings={**FAST, "raft-snapshot-entries": 3}  # of which no entry stays
    )
    leader = cluster.leader()
    away = cluster.followers()[0]
    away.stop()
    make(leader, "c", shape="{secret:9}")
    one = texts(leader, "c", 1)[0]
    for number in range(60):
        make(leader, f"filler.{number}")
    away.start().wait_ready()
    wait_until(lambda: away.get("/api/tags/c?consistency=local").status == 200, 10, "the snapshot")
    assert decoded(away, "c", one) == decoded(leader, "c", one)
    assert len(set(texts(away, "c", 300)) | {one}) == 301


def log_time_is_known(node):
    """Keys need it as dates do, and tell at once that it is missing."""
    node.http("PUT", "/api/tags/probe", {"mode": "strict"})
    return node.http("GET", "/api/segment/get/probe?timeout_ms=1000", None,
                     {"Idempotency-Key": "k"}).status == 200


# Shows lesson-dates.
def test_the_year_begins_anew(make_cluster):
    """At the log's time, in the zone, over all nodes: no number of the old year after the new one's
    first. The clock of one node, which is in the new year already, decides nothing."""
    cluster = make_cluster(start=False)
    clocks = own_clocks(cluster)

    def set_clocks(before_s):
        ahead = int(NEW_YEAR_2031_IN_TOKYO - time.time()) - before_s
        for node in cluster.nodes:
            clocks[node.id].set(ahead if node.id != 3 else ahead + 7200)

    set_clocks(3600)
    cluster.start()
    wait_until(lambda: log_time_is_known(cluster.nodes[0]), 20, "the log has a time")
    make(cluster.nodes[0], "inv", mode="strict", shape="INV-{year@Asia/Tokyo}-{id:5}")
    taken = [text for node in cluster.nodes for text in texts(node, "inv", 2)]
    make(cluster.nodes[0], "few", mode="strict", shape="{year@Asia/Tokyo}-{id:2}")
    texts(cluster.nodes[2], "few", 99)
    for node in cluster.nodes:  # which all name the same year
        wait_until(lambda n=node: "0 numbers of 2030 left" in
                   n.get("/api/segment/get/few").json()["message"], 30, "the year, by the log")
        assert "numbers of 2030 are left" in node.get_json("/api/tags/few")["warning"]
    set_clocks(2)
    nodes = itertools.cycle(cluster.nodes)

    def begun():
        taken.extend(texts(next(nodes), "inv", 2))
        return taken[-1].startswith("INV-2031")

    wait_until(begun, 30, "the new year")
    cluster.leader().kill9()
    for node in cluster.running():
        taken += texts(node, "inv", 3)
    old = [text for text in taken if text.startswith("INV-2030-")]
    new = taken[len(old):]
    assert old == [f"INV-2030-{k:05}" for k in range(1, len(old) + 1)], taken[-20:]
    assert new == [f"INV-2031-{k:05}" for k in range(1, len(new) + 1)], taken[-20:]
    assert len(old) >= 6 and len(new) >= 8
    for node in cluster.running():  # the jump to the new year is nobody's rate
        rates = re.findall(r'^leafd_busiest_tag_ids_per_second{tag="inv"} (\S+)',
                           node.get("/metrics").text, re.MULTILINE)
        assert all(0 < float(rate) < 500 for rate in rates), rates
    node = cluster.running()[0]
    assert decoded(node, "inv", new[0]) == 203100001
    assert node.get("/api/segment/get/inv?as=number").text.strip() == f"2031{len(new) + 1:05}"


# Shows lesson-dates.
def test_days_that_pass_while_all_nodes_are_down(make_cluster):
    """The log's time is of before the stop, and follows by a day at a time: no number of a day that
    is over is handed out meanwhile."""
    cluster = make_cluster(start=False)
    clocks, noon = own_clocks(cluster), noon_s()
    for clock in clocks.values():
        clock.set(noon)
    cluster.start()
    wait_until(lambda: log_time_is_known(cluster.nodes[0]), 20, "the log has a time")
    make(cluster.nodes[0], "inv", mode="strict", shape="{year}{month}{day}-{id:5}")
    first = texts(cluster.nodes[0], "inv", 2)
    cluster.stop_all()
    for clock in clocks.values():
        clock.set(noon + 3 * 86400)
    for node in cluster.nodes:
        node.start()
    least = time.strftime("%Y%m%d-00001", time.gmtime(time.time() + noon + 3 * 86400))
    taken = []

    def served():
        for node in cluster.nodes:
            with contextlib.suppress(OSError):
                answer = node.get("/api/segment/get/inv?timeout_ms=100")
                if answer.status == 200:
                    taken.append(answer.text.strip())
        return len(taken) > 9

    wait_until(served, 60, "numbers")
    assert all(text >= least for text in taken), (first, taken)


def test_a_date_that_may_not_be(make_cluster):
    cluster = make_cluster(1, start=False)
    noon = noon_s()
    own_clocks(cluster)[1].set(noon)
    cluster.start()
    node = cluster.nodes[0]
    for shape, why in [("{year@Europe/Nowhere}{id:6}", "database (tzdata) has no Europe/Nowhere"),
                       ("{year@posix/UTC}{id:6}", "not a zone that is the same on all machines"),
                       *((f"{{year@{name}}}{{id:6}}", f"(tzdata) has no {name}")
                         for name in ("GMT+8", "UTC+8", "UTC-8", "CST8", "XYZ-3", "+8", "08", "Z",
                                      "Europe", "EST5EDT4", "zone", "leapseconds")),
                       ("{year@../../etc/passwd}{id:6}", "a zone is a name"),
                       ("{year@right/UTC}{id:6}", "not a zone that is the same on all machines"),
                       ("{year@localtime}{id:6}", "not a zone that is the same on all machines"),
                       ("{year}{id}", "needs a width"),
                       ("{day}{id:6}", "a date has {year}")]:
        answer = node.http("PUT", "/api/tags/inv", {"mode": "strict", "shape": shape})
        assert answer.status == 400 and why in answer.json()["message"], answer
    answer = node.http("PUT", "/api/tags/inv", {"shape": "{year}{id:6}"})
    assert answer.status == 400 and "needs the mode strict" in answer.json()["message"], answer
    make(node, "inv", mode="strict", shape="{year}-{month}-{day}/{id:2}")
    wait_until(lambda: log_time_is_known(node), 20, "the log has a time")
    day = datetime.datetime.fromtimestamp(time.time() + noon, datetime.timezone.utc)
    tomorrow = (day + datetime.timedelta(days=1)).strftime("%Y-%m-%d")
    taken = texts(node, "inv", 89)
    assert "warning" not in node.get_json("/api/tags/inv")
    taken += texts(node, "inv", 10)
    assert {text.split("/")[0] for text in taken} == {day.strftime("%Y-%m-%d")}
    answer = node.get("/api/segment/get/inv")
    assert answer.status == 409 and answer.json()["code"] == "exhausted", answer
    today = day.strftime("%Y%m%d")
    assert f"0 numbers of {today} left" in answer.json()["message"], answer
    assert f"from 1 again on {tomorrow} (UTC)" in answer.json()["message"], answer
    warning = node.get_json("/api/tags/inv")["warning"]
    assert f"numbers of {today} are left" in warning and tomorrow in warning, warning
    make(node, "ends", mode="strict", shape="{year}-{id:4}")
    texts(node, "ends", 2)
    row = node.get_json("/api/tags/ends")
    assert node.http("PUT", "/api/tags/ends", {"max": row["max_id"]}).status == 200
    answer = node.get("/api/segment/get/ends")
    assert answer.status == 409 and answer.json()["code"] == "exhausted", answer
    assert "0 ids left below its max" in answer.json()["message"], answer  # no year begins anew
    # Nor where the max is the first number of the next year.
    year = day.year
    make(node, "edge", mode="strict", shape="{year}-{id:2}", max=(year + 1) * 100 + 1)
    texts(node, "edge", 99)
    answer = node.get("/api/segment/get/edge")
    assert (answer.status, answer.code) == (409, "exhausted"), answer
    assert "0 ids left below its max" in answer.json()["message"], answer
    # By force in a later year: it is that one's numbers that are used up.
    later = {"mode": "strict", "shape": "{year}-{id:2}", "max_id": (year + 2) * 100 + 99}
    assert node.http("PUT", "/api/tags/later?force=1", later).status == 201
    assert texts(node, "later", 1) == [f"{year + 2}-99"]
    answer = node.get("/api/segment/get/later")
    assert f"0 numbers of {year + 2} left" in answer.json()["message"], answer
    assert f"from 1 again after {year + 2} (UTC)" in answer.json()["message"], answer
    warning = node.get_json("/api/tags/later")["warning"]
    assert f"numbers of {year + 2} are left" in warning and "again after" in warning, warning
    answer = node.http("PUT", "/api/tags/inv", {"max_id": 9999123100})
    assert answer.status == 409 and answer.json()["code"] == "needs_force", answer


# Shows lesson-dates.
def test_a_zone_that_one_node_does_not_have(make_cluster):
    """The leader judges, whatever node is asked; a list that has such a tag is refused as a
    whole."""
    cluster = make_cluster(start=False)
    cluster.nodes[2].prefix = ["env", "TZDIR=/nonexistent"]
    cluster.start()
    for number in range(2):
        leader = cluster.leader()
        bare = leader is cluster.nodes[2]
        for node in cluster.nodes:
            name = f"z{number}{node.id}"
            fields = {"mode": "strict", "shape": "{year@Asia/Tokyo}{id:6}"}
            answer = node.http("PUT", f"/api/tags/{name}", fields)
            assert answer.status == (400 if bare else 201), (leader.id, node.id, answer)
            answer = node.http("POST", "/api/tags",
                               [{"tag": f"p{name}"}, {"tag": f"q{name}", **fields}])
            assert answer.status == (400 if bare else 200), (leader.id, node.id, answer)
            assert not bare or f'item 1, tag "q{name}": ' in answer.json()["message"], answer
            assert node.get(f"/api/tags/p{name}").status == (404 if bare else 200)
        target = cluster.nodes[1 if bare else 2]
        answer = leader.http("POST", "/api/cluster/leader", {"id": target.id})
        assert answer.status == 200, answer
        wait_until(lambda: cluster.leader() is not leader, 20, "another leader")
    cluster.wait_ready()
    cluster.nodes[2].expect_log("a time zone that this system does not know")

    def says_why():
        answer = cluster.nodes[2].get(f"/api/segment/get/z{int(not bare)}1?timeout_ms=500")
        return answer.status == 503 and "install tzdata" in answer.json()["message"]

    wait_until(says_why, 30, "the reason is in the answer")


def keep_taking(node, tag, taken, failed, stop):
    while not stop.is_set():
        answer = node.get(f"/api/segment/get/{tag}?count=20&timeout_ms=5000")
        if answer.status != 200:
            failed.append(answer)
        else:
            taken.append(answer.text.split("\n")[:-1])


# Shows lesson-secret.
def test_a_key_is_changed_while_ids_are_taken(make_cluster):
    """By every node, in every mode: no request fails, no text comes twice, each is by the key that
    it names, and ids that rise in their mode go on from key to key."""
    cluster = make_cluster()
    modes = ("trend", "strict", "monotonic")
    for mode in modes:
        made = make(cluster.nodes[0], mode, mode=mode, step=100, shape="A{key}-{secret36:8}")
        assert made["key"] == 0
        cluster.nodes[0].get(f"/api/segment/get/{mode}")
    stop, failed = threading.Event(), []
    taken = {(mode, node.id): [] for mode in modes for node in cluster.nodes}
    threads = [threading.Thread(target=keep_taking, args=(node, mode, taken[mode, node.id], failed,
                                                          stop))
               for mode in modes for node in cluster.nodes]
    for thread in threads:
        thread.start()
    try:
        for key in (1, 2, 3):
            for mode in modes:
                node = cluster.nodes[key % 3]
                answer = node.http("PUT", f"/api/tags/{mode}?wait=all", {"key": key})
                assert (answer.status, answer.json()["key"]) == (200, key), answer
                assert answer.json()["max_id"] == str(key * 36**8), answer
                for other in cluster.nodes:  # known to all: none is by an older key
                    assert texts(other, mode, 1)[0].startswith(f"A{key}-")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed, failed[:3]
    for mode in modes:
        batches = [batch for node in cluster.nodes for batch in taken[mode, node.id]]
        every = [text for batch in batches for text in batch]
        assert len(every) == len(set(every)) and len(every) > 1000, mode
        assert {text[1] for text in every} == set("0123"), mode
        for node, text in zip(itertools.cycle(cluster.nodes), every[::97]):
            assert decoded(node, mode, text) // 36**8 == int(text[1]), text
        for node in cluster.nodes if mode != "trend" else ():
            keys = [text[1] for batch in taken[mode, node.id] for text in batch]
            assert keys == sorted(keys), mode


def test_a_tag_that_begins_with_a_later_key(shared, tag):
    """As a dump of another cluster does, whose texts by the keys before are not known here."""
    node = shared.nodes[0]
    make(node, tag, shape="A{key}-{secret:6}", key=2)
    text = texts(node, tag, 1)[0]
    assert text[:3] == "A2-" and decoded(node, tag, text) == 2000000
    for key in (0, 1, 3):
        answer = node.get(f"/api/segment/decode/{tag}?text=A{key}-{text[3:]}")
        assert (answer.status, answer.code) == (400, "bad_id"), answer


def test_a_late_repeat_changes_no_key(make_cluster):
    cluster = make_cluster()
    node = cluster.nodes[0]
    make(node, "c", mode="strict", shape="{key}{secret:9}")
    first = texts(node, "c", 3)
    for _ in range(2):
        assert node.http("PUT", "/api/tags/c", {"key": 1}).json()["key"] == 1
    second = texts(node, "c", 3)
    assert [text[0] for text in first + second] == list("000111")
    assert node.get("/api/segment/get/c?as=number").text.strip() == str(10**9 + 3)
    for late in (0, 3):
        refused = node.http("PUT", "/api/tags/c", {"key": late})
        assert (refused.status, refused.code) == (409, "conflict"), refused
        assert "has key 1" in refused.json()["message"], refused
    make(node, "plain", shape="{secret:9}")
    for tag, fields in (("plain", {"key": 1}), ("c", {"key": 2, "max": 5}), ("c", {"key": 10})):
        refused = node.http("PUT", f"/api/tags/{tag}", fields)
        assert (refused.status, refused.code) == (400, "bad_request"), refused
    cluster.kill_all()
    cluster.start()
    node = cluster.nodes[2]
    assert [decoded(node, "c", text) for text in first + second] == [
        1, 2, 3, 10**9, 10**9 + 1, 10**9 + 2]
    assert texts(node, "c", 1)[0][0] == "1"
    # The text of one key under the number of another is no text, or one that nobody was given.
    forged = node.get(f"/api/segment/decode/c?text=1{first[0][1:]}")
    assert forged.json().get("id") != "1", forged
    assert node.get(f"/api/segment/decode/c?text=2{first[0][1:]}").status == 400


def test_a_list_that_no_entry_of_the_log_holds(make_cluster):
    """10,000 tags with the longest names, descriptions and shapes: a body that is allowed, and a
    command that is not. It is refused, and the node lives."""
    cluster = make_cluster()
    shape = "s" * 32 + "{secret36:11}" + "t" * 32 + "{mod97}" + "u" * 32
    longest = [{"tag": f"{number:0128}", "description": "d" * 256, "shape": shape}
               for number in range(10_000)]
    for node in cluster.nodes:
        refused = node.http("POST", "/api/tags", longest)
        assert (refused.status, refused.code) == (413, "body_too_large"), refused
        assert node.get(f"/api/tags/{0:0128}").status == 404
    assert cluster.nodes[0].http("POST", "/api/tags?timeout_ms=10000", longest[:5000]).json() == {
        "made": 5000, "changed": 0}
    # The same with keys, of which each takes room, too.
    for tag in longest:
        tag["shape"] = "{key}{secret36:11}"
    refused = cluster.nodes[0].http(
        "POST", "/api/tags", [{**tag, "tag": "k" + tag["tag"][1:], "key": 0} for tag in longest])
    assert (refused.status, refused.code) == (413, "body_too_large"), refused
