"""The RESP listener on real processes, asked by real clients of Redis as they are out of the box:
redis-cli, redis-benchmark, redis-py and hiredis. Those of other languages: test_resp_clients.py.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

pytest.importorskip("redis", reason="python3-redis is not installed")

import redis  # noqa: E402

from certificates import Authority  # noqa: E402
from checker import History  # noqa: E402
from cluster import FAST, Cluster  # noqa: E402
from load import mixed_load, wait_all_serve, wait_taken  # noqa: E402
from node import ROOT, leafd_path, take  # noqa: E402
from ports import take_port  # noqa: E402
from resp import add_resp_clients, connect, open_resp  # noqa: E402
from test_listeners import Tokens  # noqa: E402
from wait import wait_until  # noqa: E402

needs_cli = pytest.mark.skipif(shutil.which("redis-cli") is None,
                               reason="redis-tools is not installed")


@pytest.fixture
def start(make_cluster):
    """A cluster of nodes with the RESP listener."""

    def make(size=1, **settings):
        cluster = make_cluster(size, {**FAST, **settings}, start=False)
        return open_resp(cluster).start()

    return make


def cli(node, *words, text=None, options=()):
    """What redis-cli prints; of commands on its standard input, if text is given."""
    run = subprocess.run(["redis-cli", "-p", str(node.resp_port), *options, *map(str, words)],
                         input=text, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 0, run
    return run.stdout.rstrip("\n")


def raw(node, data):
    """All that comes back until the node ends the connection."""
    with socket.create_connection(("127.0.0.1", node.resp_port), timeout=30) as connection:
        connection.sendall(data)
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
        return b"".join(chunks)


# --- clients ---


@needs_cli
def test_redis_cli(start, tag):
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=1000)
    assert cli(node, "PING") == "PONG"
    assert cli(node, "INCR", tag) == "1"
    assert cli(node, "INCRBY", tag, 10) == "11"
    assert take(node, tag) == 12
    assert cli(node, "LEAFD.NEXT", tag, "COUNT", 3) == "13\n14\n15"
    assert cli(node, "GET", tag) == "1001"
    assert cli(node, "GET", "no-such-tag") == ""
    assert cli(node, "INCR", "no-such-tag").startswith("ERR unknown_tag: there is no tag")
    assert cli(node, "SETNX", tag, 1) == "0" and cli(node, "SET", tag, 1, "NX") == ""
    assert cli(node, "SETNX", f"{tag}.made", 41) == "1" and cli(node, "INCR", f"{tag}.made") == "42"
    assert cli(node, "SET", f"{tag}.too", 0, "NX") == "OK"
    assert cli(node, "INCR", f"{tag}.too") == "1"
    for words in (("SET", tag, 1), ("SET", tag, 1, "XX")):
        assert cli(node, *words).startswith("ERR bad_request: wrong ")
    assert "by PUT /api/tags/{tag}" in cli(node, "SET", tag, 1)
    assert cli(node, "SETNX", tag, "x") == (
        f'ERR bad_request: the number "x" is not a whole number from 0 to {2**63 - 2}')
    assert cli(node, "SETNX", f"{tag}.end", 2**63 - 1).startswith("ERR bad_request: the number")
    assert cli(node, "SETNX", f"{tag}.end", 2**60).startswith("ERR needs_force: ")
    assert cli(node, "GET", f"{tag}.end") == ""
    first = int(cli(node, "LEAFD.SNOWFLAKE"))
    assert f"id {first}\n" in cli(node, "LEAFD.DECODE", first, options=["-3"])
    # Commands as a file, with what redis-cli asks by itself before them.
    assert cli(node, text=f"INCR {tag}\nSELECT 0\nINCRBY {tag} 4\n") == "16\nOK\n20"
    assert cli(node, text="HELLO 3\nINFO\n").count("role:master") == 1


@needs_cli
def test_redis_cli_with_a_person(start, tag):
    """It asks for COMMAND DOCS, and shows them."""
    pexpect = pytest.importorskip("pexpect", reason="python3-pexpect is not installed")
    cluster = start()
    cluster.create_tag(tag)
    person = pexpect.spawn(f"redis-cli -p {cluster.nodes[0].resp_port}", timeout=30,
                           use_poll=True)  # there may be many open files here
    person.expect("> ")
    person.send(f"INCR {tag}\r")
    person.expect(r"\(integer\) 1\r\n")
    person.send("HELP INCRBY\r")
    person.expect("Take so many ids of a tag that follow each other")
    person.send("QUIT\r")
    person.expect(pexpect.EOF)


@needs_cli
def test_the_examples(start):
    """Those of docs/redis.md print what stands there."""
    with open(os.path.join(ROOT, "docs", "redis.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```console\n(.*?)^```$", file.read(), re.M | re.S)
    examples = re.findall(r"^\$ redis-cli (.+)\n((?:[^$].*\n)*)", "".join(blocks), re.M)
    assert len(examples) > 5
    cluster = start()
    cluster.create_tag("order", step=1000)
    for words, printed in examples:
        assert cli(cluster.nodes[0], *words.split()) == printed.rstrip("\n"), words


@needs_cli
@pytest.mark.bound(120)
def test_redis_benchmark(start, tag):
    """Its requests get as many ids, and none is an error."""
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=100000)
    asked = 0
    for depth in (1, 16):
        run = subprocess.run(
            ["redis-benchmark", "-p", str(node.resp_port), "-n", "20000", "-c", "20", "-P",
             str(depth), "--precision", "3", "-q", "INCR", tag],
            capture_output=True, text=True, timeout=200, check=False)
        assert run.returncode == 0 and "requests per second" in run.stdout, run
        assert "error" not in (run.stdout + run.stderr).lower(), run
        asked += 20000
    # It may send some requests more than it counts.
    assert asked < int(cli(node, "INCR", tag)) <= asked + 20 * 16 + 1


def test_redis_py(start, tag):
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=1000)
    client = connect(node)
    assert client.ping()
    assert client.incr(tag) == 1
    assert client.incr(tag, 10) == 11
    assert client.incrby(tag, 5) == 16
    assert client.get(tag) == b"1001"
    assert client.get("no-such-tag") is None
    pipeline = client.pipeline(transaction=False)
    for _ in range(2000):
        pipeline.incr(tag)
    assert pipeline.execute() == list(range(17, 2017))
    assert client.execute_command("LEAFD.NEXT", tag, "COUNT", 2) == [2017, 2018]
    assert len(client.execute_command("LEAFD.NEXT", tag, "COUNT", 100000)) == 100000
    assert client.info()["role"] == "master"
    assert client.config_get("save") == {}
    assert client.client_setname("me") and client.client_getname() == "me"
    assert client.command_count() == len(client.command())
    with pytest.raises(redis.ResponseError, match="bad_count"):
        client.incr(tag, 0)
    assert client.set(tag, 1, nx=True) is None and client.setnx(tag, 1) is False
    with pytest.raises(redis.ResponseError, match="bad_request"):
        client.set(tag, 1)
    with pytest.raises(redis.ResponseError, match="there are no transactions"):
        client.pipeline(transaction=True).incr(tag).execute()
    mixed = client.pipeline(transaction=False).incr(tag).expire(tag, 60).incr(tag)
    first, refused, last = mixed.execute(raise_on_error=False)
    assert last == first + 1 and "no tag expires" in str(refused)
    with pytest.raises(redis.ResponseError, match="there are no scripts"):
        client.register_script("return redis.call('INCR', KEYS[1])")(keys=[tag])


@pytest.mark.skipif(not os.path.exists("/usr/include/hiredis/hiredis.h"),
                    reason="libhiredis-dev is not installed")
def test_hiredis(start, tag, tmp_path):
    cluster = start()
    cluster.create_tag(tag, step=1000)
    program = str(tmp_path / "resp_hiredis")
    source = os.path.join(ROOT, "cluster-tests", "clients", "resp_hiredis.c")
    subprocess.run(["gcc", "-Wall", "-o", program, source, "-lhiredis"], check=True)
    run = subprocess.run([program, str(cluster.nodes[0].resp_port), tag], capture_output=True,
                         text=True, timeout=30, check=False)
    lines = run.stdout.splitlines()
    assert run.returncode == 0, run
    assert lines[:3] == ["integer 1", "integer 11", "array 5, last 16"]
    assert lines[3:-1] == [f"integer {i}" for i in range(17, 117)]
    assert lines[-1].startswith("error ERR bad_request: ")


# --- ids ---


@pytest.mark.bound(120)
def test_ids_of_a_shape_are_texts(start, tag):
    """As over HTTP; but INCRBY reserves numbers."""
    node = start().nodes[0]
    made = {"shape": "S-{id:4}"}
    wait_until(lambda: node.http("PUT", f"/api/tags/{tag}", made).status in (200, 201), 20,
               "it takes it")  # fmt: skip
    client = redis.Redis(port=node.resp_port)
    assert client.execute_command("INCR", tag) == b"S-0001"
    assert client.execute_command("LEAFD.NEXT", tag) == b"S-0002"
    many = client.execute_command("LEAFD.NEXT", tag, "COUNT", 1000)
    assert many == [f"S-{n:04}".encode() for n in range(3, 1003)]
    last = client.execute_command("INCRBY", tag, 10)
    assert last >= 1012, last
    assert client.execute_command("INCR", tag) == f"S-{last + 1:04}".encode()


# Shows P1-kill.
def test_the_leader_is_killed(start, tag):
    """INCR continues at the living nodes without an error; no id comes twice over HTTP and RESP."""
    cluster = start(3, **{"raft-election-ms": 1000})
    cluster.create_tag(tag)
    history = History()
    load = mixed_load(cluster, history, tag, rate=4000.0)
    with add_resp_clients(load, cluster):
        for _ in range(2):
            wait_taken(load, 30_000)
            leader = cluster.leader()
            leader.kill9()
            cluster.wait_leader(among=cluster.running())
            wait_all_serve(load)
            leader.start().wait_ready()
            wait_all_serve(load)
        load.finish()
    felt = [client.reconnects for client in load.clients if client.name.startswith("resp")]
    assert sum(felt) >= 2, f"the kills were not felt: {felt}"


@pytest.mark.parametrize("mode", ["strict", "monotonic"])
def test_ids_rise_over_nodes_and_doors(start, tag, mode):
    """Dense, one after the other, whoever is asked; monotonic ones while one node leads."""
    cluster = start(3)
    cluster.create_tag(tag, mode=mode)
    clients = [connect(node) for node in cluster.nodes]
    for first in range(1, 61, 6):
        assert clients[0].incr(tag) == first
        assert clients[1].incr(tag) == first + 1
        assert take(cluster.nodes[2], tag) == first + 2
        assert clients[2].incrby(tag, 3) == first + 5
    key = ("LEAFD.NEXT", tag, "KEY", "order-1")
    assert clients[0].execute_command(*key) == clients[1].execute_command(*key) == 61
    answer = cluster.nodes[2].http("GET", f"/api/segment/get/{tag}", None,
                                   {"Idempotency-Key": "order-1"})
    assert (answer.text, answer.headers.get("idempotency-replayed")) == ("61", "true")


def test_a_tag_that_becomes_strict(start, tag):
    cluster = start(1)
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    client = connect(node)
    before = client.incr(tag)
    assert node.http("PUT", f"/api/tags/{tag}", {"mode": "strict"}).status == 200
    first = client.incr(tag)
    assert first > before
    assert [client.incr(tag) for _ in range(3)] == [first + 1, first + 2, first + 3]


# --- who may ask ---


@pytest.fixture(name="tokens")
def tokens_fixture(tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.add("shop", "roles=ids prefix=shop/")
    tokens.write()
    return tokens


def test_tokens(start, tokens):
    cluster = start(1, **{"auth-tokens-file": tokens.path})
    node = cluster.nodes[0]
    for tag in ("shop/order", "other"):
        assert node.http("PUT", f"/api/tags/{tag.replace('/', '%2F')}", {},
                         tokens.bearer("root")).status == 201
    with pytest.raises(redis.AuthenticationError, match="this needs a token: AUTH TOKEN"):
        connect(node).incr("other")
    with pytest.raises(redis.RedisError, match="this token is not known here"):
        connect(node, password="x").incr("other")
    root = connect(node, password=tokens.tokens["root"])
    assert root.incr("other") == 1
    shop = connect(node, username="shop", password=tokens.tokens["shop"])
    assert shop.incr("shop/order") == 1
    with pytest.raises(redis.exceptions.NoPermissionError, match="this tag is another's"):
        shop.incr("other")
    with pytest.raises(redis.exceptions.NoPermissionError, match="needs the role read"):
        shop.get("shop/order")
    # The numbers behind the texts of a secret shape are for the role read, however they are asked
    # for; what was refused took none.
    for mode in ("trend", "strict"):
        put = ("PUT", f"/api/tags/shop%2F{mode}", {"shape": "{secret:6}", "mode": mode},
               tokens.bearer("root"))
        wait_until(lambda put=put: node.http(*put).status == 201, 30, "it is made")
        with pytest.raises(redis.exceptions.NoPermissionError, match="need the role read"):
            shop.execute_command("INCRBY", f"shop/{mode}", 2)
        for form in ("as=number", "as=number&format=range", "as=number&format=json&count=3"):
            target = f"/api/segment/get/shop%2F{mode}?{form}"
            refused = node.http("GET", target, None, tokens.bearer("shop"))
            assert (refused.status, refused.code) == (403, "forbidden"), refused
        assert len(shop.execute_command("LEAFD.NEXT", f"shop/{mode}", "COUNT", 2)) == 2
        target = f"/api/segment/get/shop%2F{mode}?as=number"
        assert node.http("GET", target, None, tokens.bearer("root")).text.strip() == "3"
    entries = node.http("GET", "/api/audit", None, tokens.bearer("root")).json()["entries"]
    # redis-py's incr() is INCRBY.
    refused = [(entry["who"], entry["what"], entry["status"]) for entry in entries
               if entry["outcome"] == "refused"]
    for wanted in [("anonymous", "INCRBY other", 401), ("anonymous", "AUTH", 401),
                   ("shop", "INCRBY other", 403), ("shop", "GET shop/order", 403)]:
        assert wanted in refused, refused


def test_tokens_that_may_make_tags(start, tokens):
    """SETNX makes a tag for role tags, within the prefix, and is in the audit; others get the error
    of INCR."""
    tokens.add("maker", "roles=ids,tags prefix=shop/")
    tokens.write()
    node = start(1, **{"auth-tokens-file": tokens.path}).nodes[0]
    maker, shop = (connect(node, password=tokens.tokens[name]) for name in ("maker", "shop"))
    with pytest.raises(redis.ResponseError, match="unknown_tag"):
        shop.setnx("shop/new", 0)
    for client in (maker, shop):
        with pytest.raises(redis.ResponseError, match="forbidden_tag"):
            client.setnx("other/new", 0)
    assert maker.setnx("shop/new", 0) is True and maker.set("shop/new", 0, nx=True) is None
    assert shop.setnx("shop/new", 0) is False and shop.incr("shop/new") == 1
    entries = node.http("GET", "/api/audit", None, tokens.bearer("root")).json()["entries"]
    done = [(entry["who"], entry["what"]) for entry in entries if entry["outcome"] == "done"]
    assert done == [("maker", "SETNX shop/new")]


def test_cosids_redis_distributor(start, tag):
    """Its requests on an empty cluster: SETNX of the offset, then INCRBY of a step, whose answer is
    the last id. Many instances begin at once; one makes the tag."""
    cluster = start(3)
    key = f"cosid:{{{tag}}}.adder"
    clients = [connect(cluster.nodes[i % 3]) for i in range(12)]
    made, ids = [], []

    def distribute(client):
        made.append(client.setnx(key, 0))
        for _ in range(20):
            last = client.incrby(key, 100)
            ids.extend(range(last - 99, last + 1))

    threads = [threading.Thread(target=distribute, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(made) == [False] * 11 + [True]
    assert len(ids) == len(set(ids)) == 12 * 20 * 100 and min(ids) == 1
    assert clients[0].setnx(f"{key}.later", 500) is True  # with an offset
    assert clients[1].setnx(f"{key}.later", 500) is False
    assert clients[1].incrby(f"{key}.later", 100) == 600
    with pytest.raises(redis.ResponseError, match="bad_request"):
        clients[2].setnx(f"{key}\u200b", 0)  # as over HTTP
    # It refuses an answer that is not a step above its last: over several nodes a monotonic tag.
    cluster.create_tag(f"{tag}.rising", mode="monotonic")
    last = 0
    for client in clients:
        assert client.setnx(f"{tag}.rising", 0) is False
        before, last = last, client.incrby(f"{tag}.rising", 100)
        assert last >= before + 100


def test_springs_atomic_long(start, tag):
    """Its requests on an empty cluster: SETNX of 0, then INCRBY. A deleted tag that it makes again
    continues above its ids."""
    node = start().nodes[0]
    client = connect(node)
    assert client.setnx(tag, 0) is True
    assert [client.incrby(tag, 1), client.incrby(tag, 1), client.incrby(tag, 10)] == [1, 2, 12]
    assert connect(node).setnx(tag, 0) is False and client.incrby(tag, 1) == 13
    assert node.http("DELETE", f"/api/tags/{tag}").status == 204
    with pytest.raises(redis.ResponseError, match="would_repeat"):
        client.setnx(tag, 5)
    assert client.setnx(tag, 0) is True and client.incrby(tag, 1) > 13


def test_an_open_door_needs_tokens(tmp_path):
    """As at the other listeners: beyond loopback not without them, unless the operator says so."""
    cluster = Cluster(tmp_path / "cluster", 1, FAST)
    node = cluster.nodes[0]
    node.settings["resp-listen"] = f"0.0.0.0:{take_port()}"
    node.expect_log(r"resp\.listen")
    node.start()
    assert node.wait_exit() != 0
    assert re.search(r'resp\.listen = \S+ .*can be reached from other machines, and '
                     r'auth\.tokens-file is not set: any client could take ids', node.log())
    node.settings["auth-anonymous"] = "ids,health"
    node.start().wait_ready()
    assert "there are no tokens: other machines may do all that needs none" in node.log()
    node.stop()


def test_settings_that_do_not_fit(tmp_path):
    pair = {"resp-listen": "127.0.0.1:6379", "http-listen": "127.0.0.1:6379"}
    for settings, wanted in [
        ({"resp-listen": "6379"}, "must be host:port"),
        (pair, "(--resp-listen) is the same address as http.listen"),
    ]:
        flags = {"node-id": 1, "cluster-members": "1=127.0.0.1:7081", "data-dir": tmp_path,
                 "cluster-bootstrap": "single", "user": "root", **settings}
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        run = subprocess.run([leafd_path(), *arguments], capture_output=True, text=True,
                             timeout=30, check=False)
        assert run.returncode != 0
        assert wanted in run.stderr + run.stdout, run


# Shows attack-browser.
def test_what_a_browser_could_send(start, tag):
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    body = f"INCR {tag}\r\n"
    answer = raw(node, f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                 .encode())
    assert answer == (b"-ERR bad_request: this listener is for RESP; HTTP is served at http.listen"
                      b"\r\n")
    assert take(node, tag) == 1


# --- TLS ---


@needs_cli
def test_tls(start, tag, tmp_path):
    authority = Authority(tmp_path / "certificates")
    authority.issue("server")
    tls = {"http-tls-dir": authority.path("server")}
    cluster = None

    def begin(**more):
        nonlocal cluster
        cluster = Cluster(tmp_path / f"cluster{len(more)}", 1, {**FAST, **tls, **more})
        cluster.nodes[0].tls = authority.client()
        open_resp(cluster).start()
        cluster.create_tag(tag)
        return cluster.nodes[0]

    try:
        node = begin()
        ca = authority.path("ca.pem")
        assert cli(node, "INCR", tag, options=["--tls", "--cacert", ca]) == "1"
        client = connect(node, ssl=True, ssl_ca_certs=ca)
        assert client.incr(tag) == 2
        pipeline = client.pipeline(transaction=False)
        for _ in range(3000):
            pipeline.incr(tag)
        assert pipeline.execute() == list(range(3, 3003))
        assert raw(node, b"PING\r\n") == (b"-ERR tls_required: this address is for TLS: begin its "
                                          b"URL with rediss://\r\n")
        assert raw(node, b"*1\r\n$4\r\nPING\r\n").startswith(b"-ERR tls_required: ")
        assert not cluster.faults()
    finally:
        cluster.end()


def test_a_client_certificate(make_cluster, tmp_path):
    """It stands for its line of the tokens file, without AUTH."""
    authority = Authority(tmp_path / "certificates")
    authority.issue("server")
    pem, key = authority.issue("orders", "URI:spiffe://shop/orders", "clientAuth")
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.lines["orders"] = "orders cert:uri:spiffe://shop/orders roles=ids"
    tokens.write()
    cluster = make_cluster(1, {
        **FAST, "http-tls-dir": authority.path("server"), "http-tls-client": "optional",
        "auth-tokens-file": tokens.path}, start=False)
    node = open_resp(cluster).nodes[0]
    node.tls = authority.client()
    cluster.start()
    assert node.http("PUT", "/api/tags/order", {}, tokens.bearer("root")).status == 201
    tls = {"ssl": True, "ssl_ca_certs": authority.pem}
    with pytest.raises(redis.AuthenticationError):
        connect(node, **tls).incr("order")
    client = connect(node, ssl_certfile=pem, ssl_keyfile=key, **tls)
    assert client.incr("order") == 1
    with pytest.raises(redis.exceptions.NoPermissionError, match="orders has ids"):
        client.get("order")
    # A token that is shown beside goes before it, until that leaves the file.
    tokens.add("gone", "roles=read")
    tokens.write()
    node.process.send_signal(signal.SIGHUP)
    node.wait_log('msg="reloaded"')
    client = connect(node, ssl_certfile=pem, ssl_keyfile=key, password=tokens.tokens["gone"], **tls)
    with pytest.raises(redis.exceptions.NoPermissionError, match="gone has read"):
        client.incr("order")
    tokens.lines.pop("gone")
    tokens.write()
    before = len(node.log())
    node.process.send_signal(signal.SIGHUP)
    node.wait_log('msg="reloaded"', start=before)
    assert client.incr("order") == 2


# --- the end ---


class Asker(threading.Thread):
    """Asks one node after the other, by one redis-py client each; where nobody listens it asks the
    next one. What was asked and got no answer is in `cut`."""

    def __init__(self, nodes, tag, stopping):
        super().__init__(daemon=True)
        self.clients = [connect(node, socket_timeout=30) for node in nodes]
        self.tag = tag
        self.stopping = stopping
        self.asked = 0
        self.cut = []

    def run(self):
        at = 0
        while not self.stopping.wait(0.002):
            at += 1
            try:
                self.clients[at % len(self.clients)].incr(self.tag)
                self.asked += 1
            except redis.RedisError as error:
                if "Connection refused" not in str(error):
                    self.cut.append(repr(error))


@pytest.mark.bound(120)
def test_no_request_is_cut(start, tag):
    """Nodes are restarted one after the other: each reply is then its connection's last."""
    cluster = start(3)
    cluster.create_tag(tag)
    stopping = threading.Event()
    askers = [Asker(cluster.nodes, tag, stopping) for _ in range(8)]
    for asker in askers:
        asker.start()
    wait_until(lambda: all(asker.asked > 50 for asker in askers), 20, "load")
    for node in cluster.nodes:
        node.stop()
        node.start().wait_ready()
        cluster.leader()
    before = [asker.asked for asker in askers]
    wait_until(lambda: all(asker.asked > count + 50 for asker, count in zip(askers, before)), 20,
               "load on the new ones")
    stopping.set()
    for asker in askers:
        asker.join(30)
    assert [asker.cut for asker in askers] == [[]] * len(askers)


def test_a_node_that_stops(start, tag):
    """What was asked is answered, and the connection ends in order."""
    cluster = start(1)
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    client = connect(node)
    assert client.incr(tag) == 1
    node.stop()
    with pytest.raises(redis.ConnectionError):
        client.incr(tag)
    node.start().wait_ready()
    assert client.incr(tag) > 1  # the same client, on a new connection


@needs_cli
def test_stat(start, tag):
    """redis-cli --stat: clients, memory and requests of this node."""
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    before = dict(re.findall(r"^(\w+):(\d+)\r?$", cli(node, "INFO"), re.M))
    for _ in range(7):
        cli(node, "INCR", tag)
    after = dict(re.findall(r"^(\w+):(\d+)\r?$", cli(node, "INFO"), re.M))
    assert int(after["total_commands_processed"]) >= int(before["total_commands_processed"]) + 7
    assert int(after["total_connections_received"]) > int(before["total_connections_received"])
    assert int(after["connected_clients"]) >= 1 and int(after["used_memory"]) > 1 << 20
    with subprocess.Popen(
            ["redis-cli", "-p", str(node.resp_port), "--stat"], stdout=subprocess.PIPE, text=True
    ) as run:
        lines = [run.stdout.readline() for _ in range(4)]
        run.terminate()
    assert re.match(r"\d+ +\d+(\.\d+)?[BKMG] +\d+ +\d+ +\d+", lines[-1]), lines


@needs_cli
def test_the_proxy_protocol_ends_the_connection(start, tag):
    """haproxy's send-proxy: no answer is taken for that to another request, and no id is taken."""
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    for line in (b"PROXY TCP4 10.0.0.1 10.0.0.2 4000 6379\r\n",
                 b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"x" * 12):
        answer = raw(node, line + f"*2\r\n$4\r\nINCR\r\n${len(tag)}\r\n{tag}\r\n".encode())
        assert answer.startswith(b"-ERR ") and answer.count(b"\r\n") == 1, answer
    assert cli(node, "INCR", tag) == "1"
