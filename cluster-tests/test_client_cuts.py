"""A client that is cut: 403 client_cut and -CUT at every node within a second, on connections that
are open too, until it is restored or its time is over."""

import itertools
import re
import shutil
import socket
import threading
import time
from datetime import datetime

import pytest
import redis

import leafctl
from certificates import Authority
from client import Connection, ConnectionLost, once
from clockfile import own_clocks
from cluster import FAST
from recovery import done, place
from resp import connect, open_resp
from test_listeners import Tokens, connect_as, line_of
from upgrade import wait_level
from wait import ran_s, wait_until

SEGMENT = "/api/segment/get/"
CUTS = "/api/clients/cuts"
OTHER = "127.0.0.9"  # an address of this machine beside the one that the tests use


@pytest.fixture
def tokens(tmp_path):
    made = Tokens(tmp_path / "tokens")
    made.add("root", "roles=all")
    made.add("ops", "roles=admin")
    made.add("shop", "roles=ids,read,workers")
    made.add("till", "roles=ids")
    made.write()
    return made


@pytest.fixture
def start(make_cluster, tokens):
    def make(size=3, **settings):
        cluster = open_resp(make_cluster(size, {
            **FAST, "auth-tokens-file": tokens.path, "auth-anonymous": "health,ids,read",
            **settings}, start=False))
        cluster.clocks = own_clocks(cluster)
        cluster.start()
        wait_level(cluster, 3)
        return know_the_time(cluster)

    return make


def cut(node, tokens, who, by="root", options="", **fields):
    return node.http("PUT", f"{CUTS}/{who.replace('/', '%2F')}{options}",
                     {"for_s": 600, **fields}, tokens.bearer(by))


def know_the_time(cluster):
    def does(node):
        members = node.get_json("/api/status")["members"]
        return sum(m["clock_offset_ms"] is not None for m in members) >= len(members) // 2

    for node in cluster.nodes:
        wait_until(lambda n=node: does(n), 30, f"{node} knows the others' clocks")
    return cluster


def end(node, tokens, who):
    return node.http("DELETE", f"{CUTS}/{who.replace('/', '%2F')}", None, tokens.bearer("root"))


def cuts(node, tokens):
    answer = node.http("GET", CUTS, None, tokens.bearer("ops"))
    assert answer.status == 200, answer
    return {item["who"]: item for item in answer.json()["cuts"]}


def is_cut(answer, reason):
    assert 1 <= int(answer.headers["retry-after"]) <= 604800, answer
    return (answer.status, answer.code) == (403, "client_cut") and reason in \
        answer.json()["message"]


class Takers:
    """Threads that take ids from all nodes all the time, over HTTP and RESP, each over one
    connection: as a token and from an address that are to be cut, and as one that is not."""

    def __init__(self, cluster, tokens, tag):
        self.tokens, self.tag = tokens, tag
        self.got, self.failed, self.stop = [], [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(kind, take, node))
                        for node in cluster.nodes
                        for kind in ("token", "address", "free")
                        for take in (self.http, self.resp)]
        for thread in self.threads:
            thread.start()

    def http(self, kind, node):
        headers = {} if kind == "address" else self.tokens.bearer(
            "shop" if kind == "token" else "till")
        with connect_as(node.address, OTHER if kind == "address" else "127.0.0.1") as connection:
            for count in itertools.cycle((1, 50)):
                sent = ran_s()
                answer = connection.request(
                    "GET", f"{SEGMENT}{self.tag}?count={count}&timeout_ms=10000", headers=headers)
                assert answer.status == 200 or is_cut(answer, "loop"), answer
                yield sent, answer.body.split() if answer.status == 200 else None

    def resp(self, kind, node):
        with socket.create_connection(("127.0.0.1", node.resp_port), 30, (
                OTHER if kind == "address" else "127.0.0.1", 0)) as plain:
            file = plain.makefile("rb")
            if kind != "address":
                plain.sendall(b"AUTH %s\r\n" % self.tokens.tokens[
                    "shop" if kind == "token" else "till"].encode())
                assert file.readline() == b"+OK\r\n"
            while True:
                sent = ran_s()
                plain.sendall(b"INCR %s\r\n" % self.tag.encode())
                line = file.readline()
                assert line[:1] == b":" or re.match(rb"-CUT client_cut: .*loop", line), line
                yield sent, [line[1:-2]] if line[:1] == b":" else None

    def run(self, kind, take, node):
        try:
            while not self.stop.is_set():
                try:
                    for sent, ids in take(kind, node):
                        self.got.append((kind, sent, ids))
                        if self.stop.is_set():
                            return
                except ConnectionLost:
                    pass  # its reply was being sent when the client was cut
        except Exception as error:  # noqa: BLE001
            self.failed.append(error)

    def since(self, kind, when):
        return [ids for of, sent, ids in list(self.got) if of == kind and sent > when]

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=60)
        assert not self.failed, self.failed


def test_nothing_after_the_second(start, tokens, tag):
    """Under load at all nodes, over HTTP and RESP, a token and an address, cut at each node once.
    The client beside them loses nothing."""
    cluster = start()
    assert cluster.nodes[0].http("PUT", f"/api/tags/{tag}", {"step": 50},
                                 tokens.bearer("root")).status == 201
    takers = Takers(cluster, tokens, tag)
    hit = {"token": "shop", "address": f"{OTHER}/32"}
    try:
        for node, kind in zip(cluster.nodes * 2, ["token", "address"] * 3):
            wait_until(lambda k=kind, t=ran_s(): any(takers.since(k, t)), 30, "ids")
            answer = cut(node, tokens, hit[kind], reason="a loop")
            assert answer.status == 200, answer
            assert answer.json()["by"] == "root" and "warning" not in answer.json()
            after = ran_s() + 1
            wait_until(lambda k=kind, a=after: len(takers.since(k, a)) > 30, 60, "refusals")
            assert not any(takers.since(kind, after)), "ids after the second"
            assert all(takers.since("free", after))
            for other in cluster.nodes:
                assert list(cuts(other, tokens)) == [hit[kind].removesuffix("/32")]
            assert end(node, tokens, hit[kind]).status == 204
            wait_until(lambda k=kind, t=ran_s() + 1: len(takers.since(k, t)) > 30 and
                       all(takers.since(k, t)), 60, "ids again")
    finally:
        takers.end()
    ids = list(itertools.chain(*(ids for _, _, ids in takers.got if ids)))
    assert len(ids) == len(set(ids))
    entries = [entry for node in cluster.nodes for entry in node.http(
        "GET", "/api/audit?limit=1000", None, tokens.bearer("ops")).json()["entries"]]
    assert len([entry for entry in entries if CUTS in entry["what"] and entry["who"] == "root" and
                entry["outcome"] == "done"]) == 12


def test_every_route(start, tokens, tag):
    """Only what is of health is answered; what waits, and a stream, ends at once."""
    cluster = start(1)
    node = cluster.nodes[0]
    root = tokens.bearer("root")
    assert node.http("PUT", f"/api/tags/{tag}", {"mode": "strict"}, root).status == 201
    with node.connect() as stream, connect_as(node.address, "127.0.0.1") as idle:
        stream.send(f"GET /api/live HTTP/1.1\r\nHost: {node.http_address}\r\nAuthorization: Bearer "
                    f"{tokens.tokens['shop']}\r\n\r\n".encode())
        assert idle.request("GET", SEGMENT + tag, headers=tokens.bearer("shop")).status == 200
        pool = connect(node, password=tokens.tokens["shop"])
        assert pool.incr(tag) == 2
        assert cut(node, tokens, "shop").status == 200
        wait_until(lambda: stream_ended(stream), 30, "the end of the stream")
        assert is_cut(idle.request("GET", SEGMENT + tag, headers=tokens.bearer("shop")), "shop")
    for path in ("/api/tags", "/api/cluster", "/api/nodes", "/metrics", "/", SEGMENT + tag,
                 "/api/snowflake/get/a", f"/tinyid/id/nextId?bizType={tag}"):
        assert is_cut(node.http("GET", path, None, tokens.bearer("shop")), "shop is cut"), path
    for path in ("/livez", "/readyz", "/version", "/openapi.json"):
        assert node.http("GET", path, None, tokens.bearer("shop")).status == 200, path
    for words in (["INCR", tag], ["PING"], ["NO.SUCH"], ["AUTH", tokens.tokens["till"]], ["INFO"]):
        with pytest.raises(redis.ResponseError, match="CUT client_cut"):
            pool.execute_command(*words)
    with pytest.raises((redis.ResponseError, redis.AuthenticationError), match="client_cut"):
        connect(node, password=tokens.tokens["shop"]).ping()
    simple = node.http("GET", f"/tinyid/id/nextId?bizType={tag}&token={tokens.tokens['shop']}")
    assert simple.json()["code"] == 5, simple
    assert node.get(SEGMENT + tag).status == 200  # who shows nothing is another client


def stream_ended(stream):
    try:
        return stream.sock.recv(65536) == b""
    except ConnectionResetError:
        return True


def test_it_ends_by_itself_and_outlives_a_restart(start, tokens, tag):
    cluster = start()
    node = cluster.nodes[1]
    root = tokens.bearer("root")
    assert node.http("PUT", f"/api/tags/{tag}", {}, root).status == 201
    assert cut(node, tokens, "shop", for_s=600, reason="first").status == 200
    assert cut(node, tokens, "till", for_s=8).status == 200
    began = time.monotonic()
    node.restart()
    cluster.wait_ready()
    ask = [lambda who=who, on=on: on.http("GET", SEGMENT + tag, None, tokens.bearer(who))
           for who in ("shop", "till") for on in cluster.nodes]
    if time.monotonic() - began < 6:
        assert all(is_cut(one(), "cut") for one in ask)
    wait_until(lambda: all(one().status == 200 for one in ask[3:]), 60, "till's end")
    assert time.monotonic() - began > 5
    assert all(is_cut(one(), "first") for one in ask[:3])
    assert list(cuts(node, tokens)) == ["shop"]
    assert cut(node, tokens, "shop", for_s=1, reason="shorter").status == 200
    wait_until(lambda: all(one().status == 200 for one in ask), 60, "shop's end")
    assert not cuts(node, tokens)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_node_whose_clock_is_wrong(start, tokens, workers):
    """Each cut that it takes from its start on ends by the cluster's time, also right after a step
    of its clock; a node without worker ids knows that, too. Until it does, it refuses."""
    cluster = start(**{"snowflake-workers": workers})
    node = cluster.followers()[0]
    for days in (-30, 30):
        node.stop()
        cluster.clocks[node.id].set(days * 86400)
        node.start()
        wait_until(node.serves, 30, f"{node} answers")
        asked, answers = time.time(), []
        while len(answers) < 20:
            answer = cut(node, tokens, "shop")
            if answer.status == 200:
                ends = datetime.fromisoformat(answer.json()["until"]).timestamp()
                answers.append(ends - 600)
            else:
                assert answer.code == "no_leader", answer
                answers.clear()  # it may know the leader later than the time
        for days_now in (days - 1, days + 1, 0) * 3:
            cluster.clocks[node.id].set(days_now * 86400)
            answers.append(datetime.fromisoformat(cut(node, tokens, "shop").json()["until"])
                           .timestamp() - 600)
        assert all(asked - 5 < made < time.time() + 5 for made in answers), (asked, answers)
    assert list(cuts(cluster.nodes[0], tokens)) == ["shop"]


def test_what_is_refused(start, tokens):
    node = start(1).nodes[0]
    me = "127.0.0.1"
    for who, by, says in (
            (me, "ops", f"{me} hits {me}, where this very request comes from"),
            ("127.0.0.0/8", "ops", f"127.0.0.0/8 hits {me}"),
            ("0.0.0.0/0", "ops", "0.0.0.0/0 hits"),
            ("::ffff:127.0.0.1", "ops", f"{me} hits {me}"),
            ("ops", "ops", "ops is the token of this very request")):
        answer = cut(node, tokens, who, by=by)
        assert (answer.status, answer.code) == (409, "cuts_asker"), answer
        assert says in answer.json()["message"], answer
    assert cut(node, tokens, "10.0.0").status == 200  # a name that a token may have
    for who in ("10.0.0.7/8", "a%20b", "x" * 65, "::1/129", "%2F", "a%C3%A9"):
        answer = cut(node, tokens, who)
        assert (answer.status, answer.code) == (400, "bad_request"), answer
    for fields in ({"for_s": 0}, {"for_s": 604801}, {"for_s": None}, {"reason": "r" * 201},
                   {"reason": "a\nb"}, {"until": 5}):
        assert cut(node, tokens, "shop", **fields).status == 400, fields
    answer = end(node, tokens, "shop")
    assert (answer.status, answer.code) == (404, "unknown_cut"), answer
    for role in ("shop", "till"):
        assert cut(node, tokens, "10.0.0.7", by=role).status == 403
    assert "no token of this node is named nobody" in cut(node, tokens, "nobody").json()["warning"]
    names = {"nobody", "10.0.0"} | {f"2001:db8::{number:x}" for number in range(1, 63)}
    for who in sorted(names):
        answer = cut(node, tokens, who.upper() if ":" in who else who, for_s=604800,
                     reason="r" * 200)
        assert answer.status == 200 and answer.json()["who"] == who, answer
    answer = cut(node, tokens, "till")
    assert (answer.status, answer.code) == (409, "too_many_cuts"), answer
    wait_until(lambda: set(cuts(node, tokens)) == names, 30, "all of them")
    assert cut(node, tokens, "nobody", for_s=1).status == 200  # which takes its own place
    assert end(node, tokens, "10.0.0").status == 204
    wait_until(lambda: cut(node, tokens, "till").status == 200, 30, "room")


def test_the_last_admin(start, tokens):
    del tokens.lines["ops"]
    tokens.lines["root"] = tokens.lines["root"].replace("roles=all", "roles=ids,admin")
    tokens.write()
    node = start(1, **{"auth-anonymous": "health,read"}).nodes[0]
    tokens.add("boss", "roles=admin")
    answer = cut(node, tokens, "root", options="?force=1", for_s=5)
    assert answer.status == 200, answer
    wait_until(lambda: node.http("GET", CUTS, None, tokens.bearer("root")).status == 403, 30, "it")
    wait_until(lambda: cuts_of_root(node, tokens) == 200, 60, "its end")


def cuts_of_root(node, tokens):
    return node.http("GET", CUTS, None, tokens.bearer("root")).status


def test_whom_a_proxy_names(start, tokens, tag):
    """The address that the proxy says, and not its own."""
    node = start(1, **{"proxy-from": "127.0.0.2"}).nodes[0]
    assert node.http("PUT", f"/api/tags/{tag}", {}, tokens.bearer("root")).status == 201
    assert cut(node, tokens, "203.0.113.0/24", reason="abuse").status == 200

    def status(client):
        with connect_as(node.address, "127.0.0.2", line_of(client, 4000)) as connection:
            return connection.request("GET", SEGMENT + tag).status

    wait_until(lambda: status("203.0.113.7") == 403, 30, "the cut")
    assert status("203.0.114.7") == 200
    assert once(node.address, "GET", SEGMENT + tag).status == 200


def test_the_client_of_a_certificate(make_cluster, tokens, tag, tmp_path):
    """By the name of its line at all nodes, over HTTP and RESP, on connections that are open; by
    its address with a line or without. What the certificate proves is no name for a cut."""
    authority = Authority(tmp_path / "certificates")
    authority.issue("server")
    pairs = {name: authority.issue(name, f"DNS:{name}.shop", "clientAuth")
             for name in ("orders", "boss", "stranger")}
    tokens.lines["orders"] = "orders cert:dns:orders.shop roles=ids,read"
    tokens.lines["boss"] = "boss cert:dns:boss.shop roles=admin"
    tokens.write()
    cluster = make_cluster(3, {
        **FAST, "http-tls-dir": authority.path("server"), "http-tls-client": "optional",
        "auth-tokens-file": tokens.path, "auth-anonymous": "health,ids,read"}, start=False)
    open_resp(cluster)
    for node in cluster.nodes:
        node.tls = authority.client()
    cluster.start()
    wait_level(cluster, 3)
    first, *others = know_the_time(cluster).nodes
    assert first.http("PUT", f"/api/tags/{tag}", {}, tokens.bearer("root")).status == 201

    def take(node, name, source="127.0.0.1"):
        with connect_as(node.address, source) as plain:
            plain.sock = authority.client(pairs[name]).wrap_socket(
                plain.sock, server_hostname="localhost")
            return plain.request("GET", SEGMENT + tag)

    for node in cluster.nodes:
        wait_until(lambda n=node: take(n, "orders").status == 200, 30, "ids")
    pem, key = pairs["orders"]
    pool = connect(others[0], ssl=True, ssl_ca_certs=authority.pem, ssl_certfile=pem,
                   ssl_keyfile=key)
    assert int(pool.incr(tag)) > 0
    with Connection(first.address, tls=authority.client(pairs["boss"])) as boss:
        for who, status, code in (("dns:orders.shop", 400, "bad_request"),
                                  ("boss", 409, "cuts_asker")):
            answer = boss.request("PUT", f"{CUTS}/{who}", b'{"for_s":600}',
                                  {"Content-Type": "application/json"})
            assert (answer.status, answer.code) == (status, code), answer
        assert "boss is the certificate of this very request" in answer.json()["message"]
    answer = cut(first, tokens, "dns:orders.shop")
    assert answer.json()["message"].endswith("a cut names its line in the tokens file, orders")
    assert cut(first, tokens, "orders", reason="a loop").status == 200
    for node in cluster.nodes:
        wait_until(lambda n=node: is_cut_now(take(n, "orders")), 30, "the cut")
        assert take(node, "stranger").status == 200
        assert once(node.address, "GET", "/livez", tls=authority.client(pairs["orders"])).status \
            == 200
    with pytest.raises(redis.ResponseError, match="CUT client_cut"):
        pool.incr(tag)
    assert end(first, tokens, "orders").status == 204
    assert cut(first, tokens, f"{OTHER}/32").status == 200
    for node in cluster.nodes:
        for name in ("orders", "stranger"):
            wait_until(lambda n=node, c=name: is_cut_now(take(n, c, OTHER)), 30, "the cut")
            wait_until(lambda n=node, c=name: take(n, c).status == 200, 30, "ids again")


def is_cut_now(answer):
    return answer.status == 403 and is_cut(answer, "is cut until")


def test_a_backup_has_none(start, tokens, tmp_path):
    cluster = start(1)
    node = cluster.nodes[0]
    assert cut(node, tokens, "shop").status == 200
    (tmp_path / "backup").write_bytes(
        node.http("GET", "/api/backup", None, tokens.bearer("root")).body)
    node.stop()
    shutil.rmtree(node.data_dir)
    done("restore", tmp_path / "backup", *place(node), "--raise-ids", 100)
    node.start().wait_ready()
    assert not cuts(node, tokens)
    assert node.http("GET", "/api/tags", None, tokens.bearer("shop")).status == 200


def test_leafctl(start, tokens, tmp_path):
    ctl = leafctl.of(start(1), tmp_path, TOKEN=tokens.tokens["ops"])
    said = ctl("clients", "cut", "10.0.0.0/8", "--for", "10m", "--reason", "a b").out
    assert said.startswith("10.0.0.0/8 is cut until 2")
    wait_until(lambda: "10.0.0.0/8" in ctl("clients").out, 30, "the list")
    assert re.search(r"10\.0\.0\.0/8 +2\S+Z +ops +a b", ctl("clients", "list").out)
    assert "no token of this node is named x" in ctl("clients", "cut", "x", "--for", "7d").err
    for time_ in ("8d", "0s", "10", "m", "1w", "9999999s", "-1s", "1ms"):
        assert f"as 90s, 10m or 2h, and is {time_}" in ctl(
            "clients", "cut", "x", f"--for={time_}", code=64).err
    assert "--for must be a time from 1s to 7d, such as 90s, 10m or 2h, and is missing" in ctl(
        "clients", "cut", "x", code=64).err
    assert "ops is the token of this very request" in ctl(
        "clients", "cut", "ops", "--for", "1s", code=76).err
    ctl("clients", "cut", "ops", "--for", "1s", "--force")
    wait_until(lambda: ctl("clients", code=None).code == 0, 30, "the end of a second")
    assert ctl("clients", "restore", "10.0.0.0/8").out == "restored\n"
    assert "10.0.0.0/8 is not cut" in ctl("clients", "restore", "10.0.0.0/8", code=4).err
