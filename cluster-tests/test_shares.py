"""What one client may hold of keys, worker ids and tags: one share over all nodes, whoever leads,
behind a restart; for addresses, tokens, and what the settings say. (test_attacks.py has the
attack.)"""

import json
import os
import signal
import subprocess

import pytest

from attacker import ask_from
from client import once
from cluster import FAST
from test_attacks import JSON
from test_backup import lose_everything
from test_listeners import Tokens
from leafctl import Leafctl
from node import leafd_path
from recovery import done, place
from snowflakes import wait_served
from test_examples import PROGRAM
from upgrade import leafd_of
from wait import wait_until
from workers import acquire, acquired, release

# 16 worker ids each, and a hundredth of the keys.
FEW = {**FAST, "snowflake-layout": "41+6+12", "data-memory-bytes": "1MiB", "quota": "keys=1%"}
SHARE, KEYS = 16, (1 << 20) // 200 // 100
HOUR_MS = 3_600_000


@pytest.fixture(name="trio")
def trio_fixture(make_cluster):
    cluster = make_cluster(3, FEW)
    cluster.create_tag("s", mode="strict")
    wait_served(cluster.nodes)
    return cluster


def take(node, key, source="127.0.0.1"):
    return ask_from(source, node, "GET", "/api/segment/get/s", None, {"Idempotency-Key": key})


def fill(cluster):
    """The share of this address, asked of all nodes in turn."""
    grants = [acquired(cluster.nodes[number % 3], f"worker-{number}", HOUR_MS)
              for number in range(SHARE)]
    for number in range(KEYS):
        assert take(cluster.nodes[number % 3], f"key-{number}").status == 200
    return grants


def check_full(node, more):
    refused = acquire(node, more, HOUR_MS)
    assert (refused.status, refused.code) == (429, "share"), refused
    assert refused.json()["held"] == refused.json()["share"] == SHARE
    refused = take(node, more)
    assert (refused.status, refused.code) == (429, "share"), refused
    assert refused.json()["held"] == refused.json()["share"] == KEYS
    assert take(node, "key-3").status == 200, "what is known"


def test_one_share_over_all_nodes(trio):
    fill(trio)
    for node in trio.nodes:
        check_full(node, f"more-{node.id}")
        body = json.dumps({"name": f"modest-{node.id}", "address": ""}).encode()
        other = f"127.0.0.{node.id + 1}"
        assert ask_from(other, node, "POST", "/api/workers", body, JSON).status == 201
        assert take(node, f"modest-{node.id}", other).status == 200


def test_it_is_the_same_behind_another_leader_and_a_restart(trio):
    grants = fill(trio)
    leader = trio.leader()
    leader.kill9()
    for node in trio.others(leader):
        wait_until(lambda node=node: take(node, "key-0").status == 200, 10, "another leader")
        check_full(node, "more")
    leader.start().wait_ready()
    check_full(leader, "more")
    for node in trio.nodes:
        node.stop()
    for node in trio.nodes:
        node.start()
    for node in trio.nodes:
        node.wait_ready()
        wait_until(lambda node=node: take(node, "key-0").status == 200, 10, "a leader again")
        check_full(node, "more")
    # What is released counts until its window is over.
    assert release(trio.nodes[0], grants[5], last_timestamp_ms=1).status == 204
    check_full(trio.nodes[0], "more")


def test_tokens_and_settings_allow_more(make_cluster, tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all workers=3")
    tokens.add("all", "roles=ids,workers")
    tokens.add("tool", "roles=ids,workers")
    tokens.write()
    cluster = make_cluster(1, {**FEW, "auth-tokens-file": tokens.path, "admin-listen": "same",
                               "http-hosts": None, "quota": "workers=50%,keys=100%"}, start=False)
    node = cluster.nodes[0]
    node.start().wait_ready()

    def ask(who, name):
        body = {"name": name, "window_ms": 60000}
        return once(node.address, "POST", "/api/workers", body,
                    {"Host": "127.0.0.1", **tokens.bearer(who)})

    wait_until(lambda: ask("root", "r-0").status == 201, 10, "a time")
    run_example(node, tokens, tmp_path)
    # It has the r-0 of before.
    assert [ask("root", f"r-{number}").status for number in range(5)] == [201] * 2 + [429] * 3
    assert [ask("all", f"a-{number}").status for number in range(33)] == [201] * 32 + [429]
    refused = ask("all", "a-33")
    assert "client all holds 32" in refused.json()["message"]
    entries = once(node.address, "GET", "/api/audit", None,
                   {"Host": "127.0.0.1", **tokens.bearer("root")}).json()["entries"]
    assert any(entry["outcome"] == "refused" and entry["who"] == "all" and
               "its share is 32" in entry["answer"] for entry in entries), entries[-3:]


def run_example(node, tokens, tmp_path):
    """scripts/examples has the same share, and a token."""
    file = tmp_path / "token"
    file.write_text(tokens.tokens["tool"] + "\n")
    command = [*PROGRAM, "--count", "3", "--url", f"http://{node.http_address}"]
    env = {key: value for key, value in os.environ.items() if key != "LEAFD_TOKEN"}
    for more, code, words in [
        (["--name", "r-1", "--token-file", str(file)], 0, "worker id"),
        (["--name", "r-1"], 1, "401 unauthorized"),
    ]:
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=30,
                              check=False, env=env)
        assert done.returncode == code and words in done.stderr, done


# --- to whom they belong ---


def test_two_tenants(make_cluster, tmp_path):
    """A worker id and a key are their owner's: over HTTP and RESP, by every node, behind another
    leader and a restart."""
    redis = pytest.importorskip("redis", reason="python3-redis is not installed")
    from resp import connect, open_resp  # pylint: disable=import-outside-toplevel
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    for tenant in ("blue", "green"):
        tokens.add(tenant, "roles=ids,workers")
    tokens.write()
    cluster = make_cluster(3, {**FEW, "auth-tokens-file": tokens.path, "admin-listen": "same",
                               "http-hosts": None}, start=False)
    open_resp(cluster).start()

    def ask(who, node, method, path, body=None, **headers):
        return once(node.address, method, path, body,
                    {"Host": "127.0.0.1", **tokens.bearer(who), **headers})

    first, second, third = cluster.nodes
    for tag, mode in ("strict", "strict"), ("mono", "monotonic"):
        assert ask("root", first, "PUT", f"/api/tags/{tag}", {"mode": mode}).status == 201
    grant = wait_until(lambda: (a := ask("blue", first, "POST", "/api/workers", {
        "name": "billing", "window_ms": 60000})).status == 201 and a.json(), 10, "a time")
    row = f"/api/workers/{grant['worker_id']}"
    given = {}

    def take_as(who, node, tag, count=2):
        return ask(who, node, "GET", f"/api/segment/get/{tag}?count={count}",
                   **{"Idempotency-Key": "k"})

    def check(node):
        """What the other one cannot do, and the owner can."""
        answers = [ask("green", node, "PUT", row, {"epoch": 1}),
                   ask("green", node, "DELETE", f"{row}?epoch=1&last_timestamp_ms=1"),
                   ask("green", node, "POST", "/api/workers",
                       {"name": "billing", "worker_id": grant["worker_id"]})]
        assert [answer.status for answer in answers] == [409] * 3, answers
        own = ask("green", node, "POST", "/api/workers", {"name": "billing", "window_ms": 1000})
        assert own.status == 201 and own.json()["worker_id"] != grant["worker_id"], own
        assert ask("blue", node, "PUT", row, {"epoch": 1}).status == 200
        for tag in ("strict", "mono"):
            for count in (1, 2, 3):
                refused = take_as("green", node, tag, count)
                assert (refused.status, refused.code) == (409, "idempotency_conflict"), refused
                assert "belongs to another client" in refused.json()["message"]
            with connect(node, username="green", password=tokens.tokens["green"]) as other:
                for words in (["COUNT", 2], []):
                    with pytest.raises(redis.ResponseError, match="belongs to another client"):
                        other.execute_command("LEAFD.NEXT", tag, *words, "KEY", "k")
            with connect(node, username="blue", password=tokens.tokens["blue"]) as own:
                ids = own.execute_command("LEAFD.NEXT", tag, "COUNT", 2, "KEY", "k")
                assert [int(number) for number in ids] == list(map(int, given[tag].split()))
            again = take_as("blue", node, tag)
            assert (again.status, again.body) == (200, given[tag]), again

    for tag in ("strict", "mono"):
        given[tag] = take_as("blue", second, tag).body
    for node in cluster.nodes:
        check(node)
    leader = cluster.node(int(ask("root", first, "GET", "/api/cluster").json()["leader_id"]))
    leader.kill9()
    for node in cluster.others(leader):
        wait_until(lambda node=node: take_as("blue", node, "strict").status == 200, 10, "a leader")
        check(node)
    leader.start().wait_ready()
    check(leader)
    for node in cluster.nodes:
        node.stop()
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait_ready()
        wait_until(lambda node=node: take_as("blue", node, "mono").status == 200, 10, "a leader")
        check(node)
    taken = ask("root", third, "POST", "/api/workers?force=1",
                {"name": "mine", "worker_id": grant["worker_id"]})
    assert taken.status == 201 and taken.json()["epoch"] == 2, taken
    assert taken.json()["from_ms"] >= grant["until_ms"]
    assert ask("blue", first, "PUT", row, {"epoch": 1}).code == "fenced"
    entries = ask("root", third, "GET", "/api/audit").json()["entries"]
    assert any(entry["force"] and entry["who"] == "root" for entry in entries), entries[:3]


# --- tags ---

MIB = 1 << 20
TAGS_SHARE = MIB // 100 * 25
LIVE, DEAD = 464, 144  # src/id/codec/tag.h


class Tenants:
    """Tokens that may use one prefix, beside one that may all."""

    def __init__(self, make_cluster, tmp_path, binary=None, **settings):
        self.tokens = Tokens(tmp_path / "tokens")
        self.tokens.add("root", "roles=all")
        for who in ("blue", "green"):
            self.tokens.add(who, "roles=ids,tags,read prefix=t/")
        self.tokens.write()
        self.cluster = make_cluster(3, {
            **FAST, "auth-tokens-file": self.tokens.path, "admin-listen": "same",
            "http-hosts": None, "data-memory-bytes": "1MiB", **settings}, start=False)
        for node in self.cluster.nodes:
            node.binary = binary or node.binary
        self.cluster.start()

    def ask(self, who, node, method, path, body=None):
        return once(node.address, method, path, body,
                    {"Host": "127.0.0.1", **self.tokens.bearer(who)})

    def put(self, who, node, name, **fields):
        return self.ask(who, node, "PUT", f"/api/tags/t%2F{name}", fields)

    def bulk(self, who, node, names):
        return self.ask(who, node, "POST", "/api/tags", [{"tag": f"t/{name}"} for name in names])

    def fill(self, who, name):
        """Tags by all nodes in turn, as many as it may have; how many, and the refusal."""
        count = 0
        for size in (50, 1):
            while True:
                node = self.cluster.nodes[count % 3]
                answer = self.bulk(who, node, [f"{name}{count + n:04}" for n in range(size)])
                if answer.status != 200:
                    break
                count += size
                assert count < 2000, "no end"
        return count, answer

    def wait_level(self):
        for node in self.cluster.nodes:
            wait_until(lambda n=node: int(self.ask("root", n, "GET", "/version").json()["level"])
                       >= 2, 20, "level 2")

    def wait_leader(self):
        for node in self.cluster.running():
            wait_until(lambda n=node: self.ask("root", n, "GET", "/api/tags/t%2Fblue0000"
                                               ).status == 200, 15, "a leader")


def test_tags_of_two_tenants(make_cluster, tmp_path):
    """One makes tags until it is refused, by every door and node; the other makes tags and gets
    ids. So it is behind another leader and a restart."""
    tenants = Tenants(make_cluster, tmp_path)
    cluster = tenants.cluster
    tenants.wait_level()
    count, refused = tenants.fill("blue", "blue")
    size = LIVE + 2 * len("t/blue0000")
    assert count == TAGS_SHARE // size
    assert (refused.status, refused.code) == (429, "share"), refused
    assert refused.json()["held"] == count * size and refused.json()["share"] == TAGS_SHARE
    assert f"client blue holds {count * size} bytes of tags" in refused.json()["message"]
    # A tag that is made larger takes what is left.
    more = min(256, TAGS_SHARE - count * size)
    assert tenants.put("blue", cluster.nodes[0], "blue0000", description="d" * more).status == 200
    held = count * size + more
    token = tmp_path / "token"
    token.write_text(tenants.tokens.tokens["blue"] + "\n")
    token.chmod(0o600)
    file = tmp_path / "tags.csv"
    file.write_text("biz_tag,max_id,step\nt/imported,1,1000\n")

    def check(node, number):
        for answer in (tenants.put("blue", node, "more"), tenants.bulk("blue", node, ["more"]),
                       tenants.put("blue", node, "blue0001", description="d" * 250)):
            assert (answer.status, answer.code) == (429, "share"), answer
        ctl = Leafctl(tmp_path, node.http_address)
        run = ctl("--token-file", token, "import", "leaf", file, code=None)
        assert run.code == 76 and "bytes of tags, and may hold" in run.err + run.out, run
        assert tenants.put("blue", node, "blue0001", step=7 + number).status == 200
        name = f"green{number}"
        assert tenants.put("green", node, name, description="g" * 200).status == 201
        got = tenants.ask("green", node, "GET", f"/api/segment/get/t%2F{name}")
        assert got.status == 200, got
        assert tenants.ask("blue", node, "GET", "/api/segment/get/t%2Fblue0002").status == 200

    for node in cluster.nodes:
        check(node, node.id)
    leader = cluster.node(int(tenants.ask("root", cluster.nodes[0], "GET", "/api/cluster"
                                          ).json()["leader_id"]))
    leader.kill9()
    tenants.wait_leader()
    for node in cluster.others(leader):
        check(node, 10 + node.id)
    leader.start().wait_ready()
    for node in cluster.nodes:
        node.stop()
    for node in cluster.nodes:
        node.start()
    tenants.wait_leader()
    for node in cluster.nodes:
        check(node, 20 + node.id)
    check_deleting(tenants, held - 2 * size)


def check_deleting(tenants, held):
    """What is deleted gives room, and no id comes again."""
    node = tenants.cluster.nodes[0]
    path = "/api/segment/get/t%2Fblue0002"
    last = int(tenants.ask("blue", node, "GET", path).body)
    for number in (2, 3):
        assert tenants.ask("blue", node, "DELETE", f"/api/tags/t%2Fblue{number:04}").status == 204
    refused = tenants.bulk("blue", node, [f"new{n}" for n in range(4)])
    assert refused.json()["held"] == held + 2 * (DEAD + len("t/blue0000")), refused
    assert tenants.put("blue", node, "new0").status == 201
    refused = tenants.put("blue", node, "blue0002")
    assert refused.status == 429, refused
    assert tenants.put("green", node, "blue0002").status == 201, "another makes it again"
    assert int(tenants.ask("green", node, "GET", path).body) > last
    assert tenants.put("blue", node, "blue0003").status == 201, "its own, in the room of both"


def test_a_tenant_that_makes_and_deletes_for_ever(make_cluster, tmp_path):
    """It comes to its own end, and not to that of the memory."""
    tenants = Tenants(make_cluster, tmp_path)
    tenants.wait_level()
    node = tenants.cluster.nodes[0]
    made, answer = 0, None
    while made < 4000:
        names = [f"x{made + n:05}" for n in range(50)]
        answer = tenants.bulk("blue", node, names)
        if answer.status != 200:
            break
        for name in names:
            assert tenants.ask("blue", node, "DELETE", f"/api/tags/t%2F{name}").status == 204
        made += 50
    assert answer.status == 429 and made > 1000, (made, answer)
    assert answer.json()["held"] <= TAGS_SHARE
    assert tenants.put("green", node, "mine").status == 201


def test_tags_behind_a_restore_and_by_another_name(make_cluster, tmp_path):
    """A backup knows whose tags are; a token with another name is another client."""
    tenants = Tenants(make_cluster, tmp_path)
    cluster = tenants.cluster
    tenants.wait_level()
    count, _ = tenants.fill("blue", "blue")
    backup = tmp_path / "backup"
    with open(backup, "wb") as file:
        answer = tenants.ask("root", cluster.nodes[0], "GET", "/api/backup")
        assert answer.status == 200
        file.write(answer.body)
    lose_everything(cluster)
    done("restore", backup, "--raise-ids", 1000, *place(cluster.nodes[0]))
    cluster.nodes[0].start().wait_ready()
    for node in cluster.nodes[1:]:
        node.members = None
        node.settings["join"] = cluster.nodes[0].peer_address
        node.settings["peer-listen"] = node.peer_address
        node.start().wait_ready()
    tenants.wait_leader()
    for node in cluster.nodes:
        assert tenants.put("blue", node, "more").status == 429
    tenants.tokens.lines["blue"] = tenants.tokens.lines["blue"].replace("blue", "azure", 1)
    tenants.tokens.lines["green"] += " tags=1"
    tenants.tokens.write()
    for node in cluster.nodes:
        node.process.send_signal(signal.SIGHUP)
        node.wait_log(r'msg="reloaded"')
    assert tenants.put("blue", cluster.nodes[0], "more").status == 201
    got, refused = tenants.fill("green", "green")
    assert refused.status == 507 and got > count, (got, refused)


def test_tags_of_level_1(make_cluster, tmp_path):
    """In a cluster that is upgraded, what was there counts for nobody, until it is made larger."""
    tenants = Tenants(make_cluster, tmp_path, leafd_of("first"))
    node = tenants.cluster.nodes[0]
    names = [f"old{n:04}" for n in range(700)]
    assert tenants.bulk("blue", node, names).status == 200, "more than a share"
    for member in tenants.cluster.nodes:
        member.stop()
        member.binary = leafd_path()
        member.start().wait_ready()
    wait_until(lambda: tenants.ask("root", node, "POST", "/api/cluster/level?timeout_ms=10000",
                                   {"level": 2}).status == 200, 30, "level 2")
    tenants.wait_level()
    assert tenants.put("blue", node, "old0001", step=5).status == 200
    count, refused = tenants.fill("blue", "blue")
    assert refused.status == 429 and refused.json()["held"] == count * (LIVE + 20), refused
    assert tenants.put("blue", node, "old0001", description="x").status == 429
    assert tenants.put("green", node, "old0001", description="x").status == 200
