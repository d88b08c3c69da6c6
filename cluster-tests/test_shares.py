"""What one client may hold of keys and worker ids: one share over all nodes, whoever leads, behind
a restart; for addresses, tokens, and what the settings say. (test_attacks.py has the attack.)"""

import json
import os
import subprocess

import pytest

from attacker import ask_from
from client import once
from cluster import FAST
from test_attacks import JSON, wait_newest_level
from test_doors import Tokens
from test_examples import PROGRAM
from wait import wait_until
from workers import acquire, acquired, release

FEW = {**FAST, "snowflake-layout": "41+6+12", "strict-keys": 20}  # 16 worker ids and 5 keys each
SHARE, KEYS = 16, 5
HOUR_MS = 3_600_000


@pytest.fixture(name="trio")
def trio_fixture(make_cluster):
    cluster = make_cluster(3, FEW)
    wait_newest_level(cluster)
    cluster.create_tag("s", mode="strict")
    wait_until(lambda: acquire(cluster.nodes[0], "worker-0").status == 201, 10, "a time")
    return cluster


def take(node, key, source="127.0.0.1"):
    return ask_from(source, node, "GET", "/api/segment/get/s", None, {"Idempotency-Key": key})


def fill(cluster):
    """The share of this address, asked of all nodes in turn."""
    for number in range(SHARE):
        acquired(cluster.nodes[number % 3], f"worker-{number}", HOUR_MS)
    for number in range(KEYS):
        assert take(cluster.nodes[number % 3], f"key-{number}").status == 200


def check_full(node, more):
    refused = acquire(node, more, HOUR_MS)
    assert (refused.status, refused.code) == (429, "share"), refused
    assert refused.json()["held"] == refused.json()["share"] == SHARE
    refused = take(node, more)
    assert (refused.status, refused.code) == (429, "share"), refused
    assert refused.json()["held"] == refused.json()["share"] == KEYS
    assert acquire(node, "worker-3", HOUR_MS).status == 201, "what it has"
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
    fill(trio)
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
    assert release(trio.nodes[0], acquired(trio.nodes[1], "worker-5")).status == 204
    acquired(trio.nodes[2], "in its place", HOUR_MS)
    check_full(trio.nodes[0], "more")


def test_tokens_and_settings_allow_more(make_cluster, tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all workers=3")
    tokens.add("all", "roles=ids,workers")
    tokens.write()
    cluster = make_cluster(1, {**FEW, "auth-tokens-file": tokens.path, "admin-listen": "same",
                               "http-hosts": None, "quota-workers-percent": 50,
                               "quota-keys-percent": 100}, start=False)
    node = cluster.nodes[0]
    node.start().wait_ready()

    def ask(who, name):
        body = {"name": name, "window_ms": 60000}
        return once(node.address, "POST", "/api/workers", body,
                    {"Host": "127.0.0.1", **tokens.bearer(who)})

    wait_until(lambda: ask("root", "r-0").status == 201, 10, "a time")
    wait_until(lambda: b'"number":3' in once(node.address, "GET", "/api/cluster", None, {
        "Host": "127.0.0.1", **tokens.bearer("root")}).body, 10, "level 3")
    run_example(node, tokens, tmp_path)
    assert [ask("root", f"r-{number}").status for number in range(5)] == [201] * 3 + [429] * 2
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
    file.write_text(tokens.tokens["root"] + "\n")
    command = [*PROGRAM, "--count", "3", "--url", f"http://{node.http_address}"]
    env = {key: value for key, value in os.environ.items() if key != "LEAFD_TOKEN"}
    for more, code, words in [
        (["--name", "r-1", "--token-file", str(file)], 0, "worker id"),
        (["--name", "r-1"], 1, "401 unauthorized"),
    ]:
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=30,
                              check=False, env=env)
        assert done.returncode == code and words in done.stderr, done
