"""Who may ask: tokens and roles, two listeners, web pages, and the audit, on real processes."""

import json
import os
import signal
import socket
import subprocess

import pytest

from client import Connection, ConnectionLost, once
from cluster import FAST, Cluster
from node import leafd_path
from ports import take_port, take_row
from wait import wait_until


def new_token():
    """A token, and the hash that stands in its line."""
    token, line = subprocess.run(
        [leafd_path(), "--new-token"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return token, line.split()[1]


class Tokens:
    """A tokens file, and the tokens by name."""

    def __init__(self, path):
        self.path = str(path)
        self.tokens = {}
        self.lines = {}

    def add(self, name, rest):
        self.tokens[name], proof = new_token()
        self.lines[name] = f"{name} {proof} {rest}"

    def write(self):
        # As an editor does: another file takes its place.
        handle = os.open(self.path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write("# who may ask\n" + "".join(line + "\n" for line in self.lines.values()))
        os.rename(self.path + ".new", self.path)

    def bearer(self, name):
        return {"Authorization": f"Bearer {self.tokens[name]}"}


class Listeners:
    """A node with two listeners and tokens."""

    def __init__(self, cluster, tokens):
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.tokens = tokens
        self.admin_address = ("127.0.0.1", take_port())
        host, port = self.admin_address
        self.node.settings.update({
            "admin-listen": f"{host}:{port}",
            "auth-tokens-file": tokens.path,
            "http-hosts": None,
        })

    def ids(self, method, target, who=None, body=None, headers=None):
        return self.ask(self.node.address, method, target, who, body, headers)

    def admin(self, method, target, who=None, body=None, headers=None):
        return self.ask(self.admin_address, method, target, who, body, headers)

    def ask(self, address, method, target, who, body, headers):
        head = {"Host": "127.0.0.1", **(self.tokens.bearer(who) if who else {})}
        head.update(headers or {})
        return once(address, method, target, body, head)

    def audit(self):
        answer = self.admin("GET", "/api/audit?limit=1000", "root")
        assert answer.status == 200, answer
        return answer.json()["entries"]

    def reload(self):
        start = len(self.node.log())
        self.node.process.send_signal(signal.SIGHUP)
        return self.node.wait_log(r'msg="reloaded"', start=start)


@pytest.fixture(name="listeners")
def listeners_fixture(tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.add("shop", "roles=ids,read,tags prefix=shop/,caf%C3%A9/")
    tokens.add("one", "roles=ids,read,tags prefix=one/")
    tokens.add("reader", "roles=read,metrics")
    tokens.write()
    cluster = Cluster(tmp_path / "cluster", 1, FAST)
    listeners = Listeners(cluster, tokens)
    listeners.node.start().wait_ready()
    yield listeners
    faults = cluster.faults()
    cluster.end()
    assert not faults, "\n".join(faults)


def test_only_who_may_read_takes_texts_apart(listeners):
    """The ids behind the texts of a secret shape are for the role read, and its own tags."""
    made = {"shape": "{secret:6}"}
    put = "/api/tags/shop%2Fc"
    wait_until(lambda: listeners.admin("PUT", put, "shop", made).status in (200, 201),
               10, "it takes it")  # fmt: skip
    text = listeners.ids("GET", "/api/segment/get/shop%2Fc", "shop").text
    asked = f"/api/segment/decode/shop%2Fc?text={text}"
    assert listeners.admin("GET", asked).status == 401
    assert listeners.admin("GET", asked, "one").code == "forbidden_tag"
    assert listeners.ids("GET", asked, "shop").code == "other_door"
    for who in ("shop", "reader"):
        assert listeners.admin("GET", asked, who).json()["granted"] is True


def test_the_token_of_tinyids_client(listeners):
    """It shows one of ours as an option; what a form shows does not stay with the connection."""
    for name in ("shop%2Ft", "two"):
        put = f"/api/tags/{name}"
        wait_until(lambda put=put: listeners.admin("PUT", put, "root", {"mode": "strict"})
                   .status in (200, 201), 30, "it takes it")  # fmt: skip
    shop, reader = listeners.tokens.tokens["shop"], listeners.tokens.tokens["reader"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def get(call, biz="shop/t", token=None, who=None):
        options = f"bizType={biz}" + (f"&token={token}" if token is not None else "")
        return listeners.ids("GET", f"/tinyid/id/{call}?{options}", who)

    assert get("nextIdSimple", token=shop).text == "1"
    with listeners.node.connect() as connection:
        for body, wanted in ((f"bizType=shop/t&token={shop}", "2"), ("bizType=shop/t", ""),
                             (f"bizType=shop/t&token={reader}", "")):
            answer = connection.request("POST", "/tinyid/id/nextIdSimple", body.encode(), form)
            assert (answer.status, answer.text) == (200, wanted), answer
    assert get("nextIdSimple", who="shop").text == "3", "as for any route of ids"
    for biz, token in (("shop/t", "x"), ("shop/t", ""), ("shop/t", reader), ("two", shop),
                       ("shop/t", shop[:-1]), ("shop/t", None)):
        answer = get("nextId", biz, token)
        assert (answer.status, answer.json()["code"]) == (200, 5), (biz, answer)
        assert answer.json()["data"] is None
        assert get("nextSegmentIdSimple", biz, token).text == ""
    assert listeners.admin("GET", f"/tinyid/id/nextId?bizType=shop/t&token={shop}").status == 404
    for token in listeners.tokens.tokens.values():
        assert token not in listeners.node.log() and token not in str(listeners.audit())


def test_workers_ids_at_both_listeners(listeners):
    """A client that takes worker ids needs one address; owners are the same at both."""
    listeners.tokens.add("fleet", "roles=workers")
    listeners.tokens.add("other", "roles=workers")
    listeners.tokens.write()
    listeners.reload()
    json_type = {"Content-Type": "application/json"}
    for at, then in ((listeners.ids, listeners.admin), (listeners.admin, listeners.ids)):
        made = at("POST", "/api/workers", "fleet", {"name": "w"}, json_type)
        assert made.status in (200, 201), made
        held = made.json()
        path, body = f"/api/workers/{held['worker_id']}", {"epoch": held["epoch"]}
        refused = then("DELETE", path, "other", body, json_type)
        assert refused.status in (403, 409), refused
        gone = then("DELETE", path, "fleet", body, json_type)
        assert gone.status in (200, 204), gone
    assert listeners.ids("POST", "/api/workers", None, {"name": "w"}, json_type).status == 401
    assert listeners.ids("POST", "/api/workers", "shop", {"name": "w"}, json_type).status == 403
    assert listeners.ids("GET", "/api/workers", "root").code == "other_door"


def test_stranger(listeners):
    """Without a token there is health and nothing else, and the answer says what is missing."""
    for listener in (listeners.ids, listeners.admin):
        assert listener("GET", "/readyz").status == 200
        assert listener("GET", "/metrics").status == 401
    for method, target, body in [
        ("GET", "/api/tags", None), ("PUT", "/api/tags/x", {}), ("DELETE", "/api/tags/x", None),
        ("POST", "/api/tags", []), ("GET", "/api/backup", None), ("GET", "/api/audit", None),
        ("GET", "/api/cluster", None), ("POST", "/api/workers", {"name": "x"}),
        ("POST", "/api/cluster/members", {"id": 9, "peer_address": "127.0.0.1:9"}),
        ("POST", "/api/cluster/level", {"level": 2}), ("DELETE", "/api/workers/1", None),
    ]:
        answer = listeners.admin(method, target, body=body)
        assert (answer.status, answer.code) == (401, "unauthorized"), (target, answer)
        assert answer.headers["www-authenticate"] == 'Bearer realm="leafd"'
    for target in ("/api/segment/get/x", "/api/snowflake/get/x"):
        assert listeners.ids("GET", target).status == 401


@pytest.mark.parametrize("value", [
    "Bearer x", "Bearer " + "A" * 43, "Bearer", "Bearer ", "Basic eDp5", "x", "",
    "Bearer " + "x" * 6000,
    "Bearer \u00e9",
])
def test_wrong_token(listeners, value):
    answer = listeners.admin("GET", "/api/tags", headers={"Authorization": value})
    assert (answer.status, answer.code) == (401, "unauthorized"), answer


def test_wrong_token_is_no_way_to_health(listeners):
    """Who shows a token that is none is told so, whatever is asked."""
    assert listeners.ids("GET", "/livez", headers={"Authorization": "Bearer x"}).status == 401


def test_roles(listeners):
    assert listeners.admin("PUT", "/api/tags/a", "root", {}).status == 201
    assert listeners.admin("GET", "/api/tags/a", "reader").status == 200
    assert listeners.admin("GET", "/metrics", "reader").status == 200
    answer = listeners.admin("PUT", "/api/tags/a", "reader", {})
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "needs the role tags, and reader has read, metrics" in answer.json()["message"]
    answer = listeners.ids("GET", "/api/segment/get/a", "reader")
    assert (answer.status, answer.code) == (403, "forbidden")
    assert listeners.admin("GET", "/api/backup", "shop").status == 403
    assert listeners.admin("GET", "/api/audit", "shop").status == 403


def test_other_listener(listeners):
    """Each listener says which one has the route."""
    answer = listeners.ids("GET", "/api/tags", "root")
    assert (answer.status, answer.code) == (404, "other_door")
    assert "admin.listen, %s:%d" % listeners.admin_address in answer.json()["message"]
    answer = listeners.admin("GET", "/api/segment/get/a", "root")
    assert (answer.status, answer.code) == (404, "other_door")
    assert "http.listen, " + listeners.node.http_address in answer.json()["message"]


def test_prefixes(listeners):
    """A tenant sees and changes its own tags, whatever way it asks."""
    for tag in ("shop%2Fa", "caf%C3%A9%2Fb", "one%2Fc", "bank%2Fd"):
        assert listeners.admin("PUT", "/api/tags/" + tag, "root", {}).status == 201
    assert listeners.ids("GET", "/api/segment/get/shop%2Fa", "shop").status == 200
    assert listeners.ids("GET", "/api/segment/get/caf%c3%a9%2fb", "shop").status == 200
    assert listeners.ids("GET", "/api/segment/get/%73hop%2Fa/", "shop").status == 200
    for tag in ("bank%2Fd", "shop", "Shop%2Fa", "bank%2Fnone"):
        for answer in (listeners.ids("GET", "/api/segment/get/" + tag, "shop"),
                       listeners.admin("GET", "/api/tags/" + tag, "shop"),
                       listeners.admin("PUT", "/api/tags/" + tag, "shop", {}),
                       listeners.admin("DELETE", "/api/tags/" + tag, "shop")):
            assert (answer.status, answer.code) == (403, "forbidden_tag"), (tag, answer)
    answer = listeners.admin("POST", "/api/tags", "shop", [{"tag": "shop/x"}, {"tag": "bank/d"}])
    assert (answer.status, answer.code) == (403, "forbidden_tag")
    assert listeners.admin("GET", "/api/tags/shop%2Fx", "root").status == 404
    assert listeners.admin("POST", "/api/tags", "shop", [{"tag": "shop/x"}]).status == 200
    for listed in ("/api/tags", "/api/node/segments", "/api/cluster/segments"):
        assert listeners.admin("GET", listed, "shop").code == "forbidden_tag"
        assert listeners.admin("GET", listed + "?prefix=sho", "shop").code == "forbidden_tag"
        assert listeners.admin("GET", listed + "?prefix=shop/", "shop").status == 200
    names = [tag["tag"] for tag in listeners.admin("GET", "/api/tags", "one").json()["tags"]]
    assert names == ["one/c"]
    assert listeners.admin("GET", "/api/tags?prefix=", "one").code == "forbidden_tag"


def test_web_pages(listeners):
    """What a page in somebody's browser can send: to a name of its own that means this address,
    from a foreign origin, and of the types that need no leave."""
    put = ("PUT", "/api/tags/w", "root", {})
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                 "localhost.evil.example.", "localhost..", "", "[::2]", "[::ffff:128.0.0.1]",
                 "128.0.0.1"):
        answer = listeners.admin(*put, {"Host": host})
        assert (answer.status, answer.code) == (421, "misdirected"), (host, answer)
        assert listeners.admin("GET", "/api/backup", "root", headers={"Host": host}).status == 421
    for origin in ("http://evil.example", "null", "", "http://127.0.0.1:1",
                   "https://127.0.0.1.evil"):
        answer = listeners.admin(*put, {"Origin": origin})
        assert (answer.status, answer.code) == (403, "foreign_origin"), (origin, answer)
        reply = listeners.ids("GET", "/api/segment/get/w", "root", headers={"Origin": origin})
        assert reply.status == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
                 "application/jsonp", "text/plain;application/json"):
        answer = listeners.admin(*put, {"Content-Type": kind})
        assert (answer.status, answer.code) == (415, "bad_content_type"), (kind, answer)
    assert listeners.admin("GET", "/api/tags/w", "root").status == 404
    for host in ("127.0.0.1:8080", "LOCALHOST", "localhost.", "[::1]:1", "127.9.9.9",
                 "[0:0:0:0:0:0:0:1]:8080", "[::ffff:127.0.0.1]"):
        assert listeners.admin(*put, {"Host": host}).status in (200, 201), host
    same = {"Host": "localhost:99", "Origin": "http://localhost:99",
            "Content-Type": "application/json; charset=utf-8"}
    assert listeners.admin(*put, same).status == 200
    # Whoever asks for ids may know the node by any name.
    reply = listeners.ids("GET", "/api/segment/get/w", "root", headers={"Host": "ids.example"})
    assert reply.status == 200


def test_leaf_clients_go_on(tmp_path):
    """auth.anonymous = ids,health: a plain GET has its ids, and nobody changes a tag."""
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.write()
    cluster = Cluster(tmp_path / "cluster", 1, {**FAST, "auth-anonymous": "ids,health"})
    listeners = Listeners(cluster, tokens)
    listeners.node.start().wait_ready()
    assert listeners.admin("PUT", "/api/tags/t", "root", {}).status == 201
    assert listeners.ids("GET", "/api/segment/get/t").status == 200
    assert listeners.ids("GET", "/api/snowflake/get/t").status == 200
    assert listeners.admin("DELETE", "/api/tags/t").status == 401
    assert not cluster.faults()
    cluster.end()


def test_reload(listeners):
    """A token that is added works, one that is taken away does not, on open connections too; a file
    that is wrong changes nothing."""
    assert listeners.admin("PUT", "/api/tags/r", "root", {}).status == 201
    tokens = listeners.tokens
    with listeners.node.connect() as connection:
        request = ("GET", "/api/segment/get/r", None,
                   {"Host": "127.0.0.1", **tokens.bearer("root")})
        shop = ("GET", "/api/segment/get/shop%2Fr", None,
                {"Host": "127.0.0.1", **tokens.bearer("shop")})
        assert [connection.request(*request).status for _ in range(3)] == [200] * 3
        assert connection.request(*shop).status == 404
        tokens.add("new", "roles=ids")
        gone = tokens.lines.pop("shop")
        tokens.write()
        tokens.lines["root"] += " ids-per-s=5000"
        tokens.write()
        start = len(listeners.node.log())
        listeners.reload()
        listeners.node.wait_log(r'changed="tokens: \d+, there were \d+: root ids-per-s=5000 '
                                r'\(was 0\); new is new; shop is gone"', start=start)
        assert connection.request(*shop).status == 401
        assert connection.request(*request).status == 200
        assert listeners.ids("GET", "/api/segment/get/r", "new").status == 200
        # A line that breaks a rule: the whole file is refused, and the old tokens hold.
        tokens.lines["bad"] = "bad sha256:12 roles=ids"
        tokens.lines["shop"] = gone
        tokens.write()
        start = len(listeners.node.log())
        listeners.node.expect_log("the reload was refused")
        listeners.node.process.send_signal(signal.SIGHUP)
        listeners.node.wait_log(r"line \d+: the hash .*12.* must be 64 hex digits", start=start)
        assert connection.request(*shop).status == 401
        assert connection.request(*request).status == 200
        assert listeners.ids("GET", "/api/segment/get/r", "new").status == 200


def test_a_token_is_exchanged(listeners):
    """A client keeps what it holds under its name, by the old token and by the new one. A larger
    quota ends what it owed under the small one."""
    tokens = listeners.tokens
    assert listeners.admin("PUT", "/api/tags/a", "root", {}).status == 201
    tokens.add("till", "roles=ids,workers ids-per-s=1")
    tokens.write()
    listeners.reload()
    held = listeners.admin("POST", "/api/workers", "till", {"name": "w"}).json()

    def renew(token):
        tokens.tokens["either"] = token
        body = {"epoch": held["epoch"]}
        return listeners.admin("PUT", f"/api/workers/{held['worker_id']}", "either", body).status

    old_token, tokens.lines["the old one"] = tokens.tokens["till"], tokens.lines["till"]
    tokens.add("till", "roles=ids,workers ids-per-s=1")
    tokens.write()
    listeners.reload()
    assert [renew(old_token), renew(tokens.tokens["till"])] == [200, 200]
    del tokens.lines["the old one"]
    tokens.write()
    listeners.reload()
    assert [renew(old_token), renew(tokens.tokens["till"])] == [401, 200]

    def take():
        return listeners.ids("GET", "/api/segment/get/a?count=100000", "till").status

    assert [take(), take()] == [200, 429]
    tokens.lines["till"] = tokens.lines["till"].replace("per-s=1", "per-s=1000000")
    tokens.write()
    listeners.reload()
    assert take() == 200


def test_audit(listeners):
    """Each change, with who, from where, what was before and after; and the refusals."""
    assert listeners.admin("PUT", "/api/tags/shop%2Fa", "shop", {"step": 7}).status == 201
    assert listeners.admin("PUT", "/api/tags/shop%2Fa", "shop", {"max_id": 500}).status == 200
    assert listeners.admin("PUT", "/api/tags/shop%2Fa", "shop", {"max_id": 5}).status == 409
    forced = "/api/tags/shop%2Fa?f%6frce=1"
    assert listeners.admin("PUT", forced, "root", {"max_id": 5}).status == 200
    assert listeners.admin("DELETE", "/api/tags/shop%2Fa", "shop").status == 204
    assert listeners.admin("DELETE", "/api/tags/bank", "shop").status == 403
    assert listeners.admin("GET", "/api/backup", "root").status == 200
    entries = listeners.audit()
    assert [(e["who"], e["outcome"], e["status"], e["force"]) for e in entries] == [
        ("shop", "done", 201, False), ("shop", "done", 200, False), ("root", "done", 200, True),
        ("shop", "done", 204, False), ("shop", "refused", 403, False), ("root", "done", 200, False),
    ], entries
    assert entries[0]["before"] is None
    assert json.loads(entries[0]["asked"]) == {"step": 7}
    assert json.loads(entries[1]["before"])["max_id"] == "1"
    assert json.loads(entries[1]["answer"])["max_id"] == "500"
    assert json.loads(entries[2]["before"])["max_id"] == "500"
    assert json.loads(entries[3]["before"])["max_id"] == "5"
    assert all(e["address"].startswith("127.0.0.1:") for e in entries)
    assert [e["number"] for e in entries] == list(range(1, 7))
    page = listeners.admin("GET", "/api/audit?after=2&limit=2", "root").json()
    assert [e["number"] for e in page["entries"]] == [3, 4] and page["next"] == 4
    log = listeners.node.log()
    for entry in entries:
        line = f'at=audit msg="{"refused" if entry["outcome"] == "refused" else "change"}"'
        shown = f"number={entry['number']} outcome={entry['outcome']} who={entry['who']} "
        assert f"{line} {shown}" in log
    # A value that a client chose cannot forge a line.
    evil = 'x" number=1 who=root\nlevel=info at=audit'
    reply = listeners.admin("PUT", "/api/tags/e", "root", {"description": evil.replace("\n", " ")})
    assert reply.status == 201
    assert len(listeners.audit()) == 7


def test_audit_of_worker_ids(listeners):
    """Who acquired, and who released, and what was there before; renewals are none, but refused."""
    def acquire(name, **more):
        answer = listeners.admin("POST", "/api/workers", "root", {"name": name, **more})
        assert answer.status == 201, answer
        return answer.json()

    # A cluster that has just begun has no time yet: 503, which is no change.
    free = wait_until(lambda: acquire("any"), 10, "a time of the log")
    first = acquire("one", worker_id=9, window_ms=1000)
    path, epoch = "/api/workers/9", {"epoch": first["epoch"]}
    for _ in range(5):
        assert listeners.admin("PUT", path, "root", {**epoch, "window_ms": 1000}).status == 200
    assert listeners.admin("PUT", path, "shop", epoch).status == 403
    assert listeners.admin("PUT", path, "root", {"epoch": 99}).status == 409
    assert listeners.admin("DELETE", f"{path}?epoch={first['epoch']}", "root").status == 204
    second = wait_until(lambda: acquire("two", worker_id=9), 30, "its window is over")
    assert second["epoch"] > first["epoch"]
    entries = [entry for entry in listeners.audit() if entry["status"] not in (409, 503)]
    assert [(e["what"].split("?")[0], e["status"]) for e in entries] == [
        ("POST /api/workers", 201), ("POST /api/workers", 201), (f"PUT {path}", 403),
        (f"DELETE {path}", 204), ("POST /api/workers", 201)], entries
    assert [entry["before"] for entry in entries[:3]] == [None] * 3
    assert json.loads(entries[0]["answer"])["worker_id"] == free["worker_id"]
    held, released = json.loads(entries[3]["before"]), json.loads(entries[4]["before"])
    assert (held["state"], held["name"], held["epoch"]) == ("held", "one", first["epoch"])
    assert (released["state"], released["name"]) == ("released", "one")


def test_a_trace_is_in_what_its_request_causes(listeners):
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"00-{trace}-b7ad6b7169203331-01"
    sent = [{"traceparent": parent}, {"TraceParent": parent}, {}, {"traceparent": parent[:-1]},
            {"traceparent": f'00-{trace[:-2]}"}}-b7ad6b7169203331-01'},
            {"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}]
    for number, headers in enumerate(sent):
        answer = listeners.admin("PUT", f"/api/tags/t{number}", "root", {"step": 1}, headers)
        assert answer.status == 201
    assert listeners.admin("DELETE", "/api/tags/bank", "shop", headers=sent[0]).status == 403
    found = [entry.get("trace") for entry in listeners.audit()]
    assert found == [trace, trace, None, None, None, None, trace]
    log = listeners.node.log()
    assert log.count(f" trace={trace} ") == 3 and log.count(" trace=none ") == 4
    assert "trace=0af7651916cd43dd8448eb211c8031 " not in log and trace[:-2] + '"' not in log


def test_refusals_do_not_drown_changes(listeners):
    """A stranger who is refused again and again pushes nobody's change out."""
    assert listeners.admin("PUT", "/api/tags/kept", "root", {}).status == 201
    for _ in range(200):
        assert listeners.admin("DELETE", "/api/tags/kept").status == 401
    answer = listeners.admin("GET", "/api/audit?limit=1000", "root").json()
    assert answer["entries"][0]["who"] == "root"
    assert len(answer["entries"]) < 150
    assert len(answer["entries"]) + answer["refusals_not_kept"] <= 201


@pytest.mark.parametrize("setting", ["http-listen", "admin-listen"])
def test_refuses_to_listen_openly(tmp_path, setting):
    """An address that others reach needs tokens, or somebody who says that it does not."""
    cluster = Cluster(tmp_path / "cluster", 1, FAST)
    node = cluster.nodes[0]
    node.settings.update({setting: f"0.0.0.0:{take_port()}"})
    node.start()
    assert node.wait_exit() == 64
    assert "auth.tokens-file is not set: any client could" in node.log()
    assert "set auth.anonymous to all" in node.log()
    if setting == "admin-listen":
        node.settings["auth-anonymous"] = "all"
        node.start().wait_ready()
        assert "there are no tokens: other machines may do all that needs none" in node.log()
        node.stop()
    cluster.end()


def test_joined_listeners_say_so(tmp_path):
    cluster = Cluster(tmp_path / "cluster", 1, FAST)
    cluster.start()
    log = cluster.nodes[0].log()
    assert "one listener: tags, members and all else are served with the ids" in log
    cluster.end()


def test_admin_listener_is_on_loopback_by_default(tmp_path):
    cluster = Cluster(tmp_path / "cluster", 1, {**FAST, "admin-listen": None})
    node = cluster.nodes[0]
    node.http_port = take_row(2, step=1000)
    node.start().wait_ready()
    port = node.http_port + 1000
    assert f"admin.listen=127.0.0.1:{port}" in node.log()
    assert once(("127.0.0.1", port), "PUT", "/api/tags/a", {}).status == 201
    assert node.http("PUT", "/api/tags/a", {}).code == "other_door"
    node.stop()
    cluster.end()


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o660])
def test_tokens_file_of_others(tmp_path, mode):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.write()
    os.chmod(tokens.path, mode)
    cluster = Cluster(tmp_path / "cluster", 1, FAST)
    listeners = Listeners(cluster, tokens)
    listeners.node.start()
    assert listeners.node.wait_exit() == 64
    assert f"has mode {mode:04o}" in listeners.node.log()
    cluster.end()


def test_listeners_have_limits_of_their_own(listeners):
    """The admin listener full of connections, the ids are served."""
    assert listeners.admin("PUT", "/api/tags/l", "root", {}).status == 201
    held = []
    try:
        with pytest.raises((ConnectionLost, OSError, AssertionError)):
            for _ in range(400):
                held.append(listeners.node.connect().__class__(listeners.admin_address, 5))
                assert held[-1].request("GET", "/livez").status == 200
        assert 200 <= len(held) <= 260
        assert listeners.ids("GET", "/api/segment/get/l", "root").status == 200
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: listeners.admin("GET", "/livez").status == 200, 10, "the listener is free")


# --- behind a proxy ---

PROXY = "127.0.0.2"
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"  # of a health check


def line_of(client, port=4000):
    return f"PROXY TCP4 {client} 10.0.0.2 {port} 8080\r\n".encode()


def binary_of(client, port=4000):
    addresses = socket.inet_aton(client) + b"\x0a\0\0\x02" + port.to_bytes(2, "big") + b"\x1f\x90"
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13" + addresses + b"\x04\0\4noop"


def connect_as(address, source, first=b""):
    """A connection from an address of this machine, that begins so."""
    connection = Connection.__new__(Connection)
    connection.sock = socket.create_connection(address, timeout=30, source_address=(source, 0))
    connection.buffer = b""
    connection.send(first)
    return connection


def ask_by_proxy(node, first, method, target, body=None):
    with connect_as(node.address, PROXY, first) as connection:
        return connection.request(method, target, body and json.dumps(body).encode())


@pytest.fixture(name="proxied")
def proxied_fixture(make_cluster):
    """A node that takes the PROXY protocol from 127.0.0.2, at http.listen and resp.listen."""
    cluster = make_cluster(1, {**FAST, "proxy-from": f"10.9.9.0/24, {PROXY}",
                               "quota": "connections=3"}, start=False)
    node = cluster.nodes[0]
    node.resp_port = take_port()
    node.settings["resp-listen"] = f"127.0.0.1:{node.resp_port}"
    node.start().wait_ready()
    return node


@pytest.mark.parametrize("header", [line_of, binary_of])
def test_a_proxy_says_who_the_client_is(proxied, header, tag):
    """In the audit, and as the owner of a row."""
    path = f"/api/tags/{tag}"
    assert ask_by_proxy(proxied, header("203.0.113.9"), "PUT", path, {"step": 7}).status == 201
    assert ask_by_proxy(proxied, LOCAL, "PUT", path, {"step": 9}).status == 200
    assert proxied.http("PUT", path, {"step": 8}).status == 200
    entries = proxied.get_json("/api/audit")["entries"]
    assert entries[0]["address"] == "203.0.113.9:4000"
    assert entries[1]["address"].startswith(f"{PROXY}:")
    assert entries[2]["address"].startswith("127.0.0.1:")

    def acquire(client):
        return ask_by_proxy(proxied, header(client), "POST", "/api/workers", {"name": "one"})

    grant = wait_until(lambda: (answer := acquire("203.0.113.9")).status == 201 and answer.json(),
                       30, "a time of the log")
    release = f"/api/workers/{grant['worker_id']}?epoch={grant['epoch']}"
    for other in (header("203.0.113.8"), LOCAL):
        refused = ask_by_proxy(proxied, other, "DELETE", release)
        assert refused.status == 409, refused
        assert "alone renews or releases it" in refused.json()["message"]
    assert ask_by_proxy(proxied, header("203.0.113.9"), "DELETE", release).status == 204


def test_each_client_behind_a_proxy_has_its_quota(proxied):
    """Of connections: the proxy's own are none of theirs, and more is refused when it is known
    whose the connection is."""
    opened = [connect_as(proxied.address, PROXY, line_of(f"203.0.113.{client}", 4000 + number))
              for client in (7, 8) for number in range(3)]
    opened += [connect_as(proxied.address, PROXY, LOCAL) for _ in range(3)]
    opened.append(connect_as(proxied.address, PROXY))  # it has not said yet
    for connection in opened[:-1]:
        assert connection.request("GET", "/livez").status == 200
    for header in (line_of("203.0.113.7"), binary_of("203.0.113.8"), LOCAL):
        with connect_as(proxied.address, PROXY, header) as connection:
            answer = connection.read_response()
            assert (answer.status, answer.code) == (429, "quota"), answer
    opened[-1].send(line_of("203.0.113.9"))
    assert opened[-1].request("GET", "/livez").status == 200
    opened.pop(0).close()
    wait_until(lambda: ask_by_proxy(proxied, line_of("203.0.113.7"), "GET", "/livez").status == 200,
               30, "a place that is free again")
    for connection in opened:
        connection.close()


def test_who_must_and_who_may_not_say_it(proxied, tag):
    proxied.http("PUT", f"/api/tags/{tag}", {})
    incr = f"*2\r\n$4\r\nINCR\r\n${len(tag)}\r\n{tag}\r\n".encode()
    resp = ("127.0.0.1", proxied.resp_port)
    missing, unwanted = f"proxy.from names {PROXY}", "PROXY protocol from 127.0.0.1: let proxy.from"
    for source, first, message in (
            (PROXY, b"", missing), ("127.0.0.1", line_of("1.2.3.4"), unwanted),
            ("127.0.0.1", binary_of("1.2.3.4"), unwanted), ("127.0.0.1", LOCAL, unwanted)):
        with connect_as(proxied.address, source, first) as connection:
            connection.send(f"GET /api/segment/get/{tag} HTTP/1.1\r\nHost: leafd\r\n\r\n".encode())
            answer = connection.read_response()
            assert (answer.status, answer.code) == (400, "bad_request"), answer
            assert message in answer.json()["message"]
            assert connection.at_end()
        with connect_as(resp, source, first + incr) as connection:
            with pytest.raises(ConnectionLost):
                while True:
                    connection.fill()
            assert connection.buffer.startswith(b"-ERR bad_request: "), connection.buffer
            assert connection.buffer.count(b"\r\n") == 1 and message.encode() in connection.buffer
    for first in (line_of("1.2.3.4"), binary_of("1.2.3.4"), LOCAL, b"PROXY UNKNOWN\r\n"):
        with connect_as(resp, PROXY) as connection:
            for byte in first + incr:
                connection.send(bytes([byte]))
            connection.fill()
            assert connection.buffer.startswith(b":"), connection.buffer
    assert connection.buffer == b":4\r\n", "none was lost to those that were refused"


def test_another_list_of_proxies_takes_a_restart(proxied):
    config = os.path.join(os.path.dirname(proxied.data_dir), "leafd.conf")
    proxied.stop()
    for value, wanted in (("10.0.0.7/24", '"10.0.0.7/24" is neither an address nor a network'),
                          ("proxy.example", '"proxy.example" is neither an address')):
        proxied.settings["proxy-from"] = value
        run = subprocess.run([*proxied.command_line()[3:], "--check-config"], check=False,
                             capture_output=True, text=True)
        assert run.returncode == 64 and f"proxy.from: {wanted}" in run.stderr, run
    with open(config, "w", encoding="ascii") as file:
        file.write(f"proxy.from = {PROXY}\n")
    proxied.settings.update({"proxy-from": None, "config": config})
    proxied.start().wait_ready()
    with open(config, "w", encoding="ascii") as file:
        file.write("proxy.from = 10.0.0.7\n")
    proxied.process.send_signal(signal.SIGHUP)
    proxied.wait_log('take a restart" settings="proxy.from"')
    assert ask_by_proxy(proxied, LOCAL, "GET", "/livez").status == 200
    proxied.stop()
    proxied.start().wait_ready()
    assert ask_by_proxy(proxied, b"", "GET", "/livez").status == 200
