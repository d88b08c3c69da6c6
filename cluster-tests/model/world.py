"""The real side of a sequence: a cluster with tokens, two listeners, leafctl, clocks of its own.

Every protocol gives an answer in the same form: an Answer, whose code is "ok" or the word of the
error. A request that met a dying process, or got no answer in time, has the code "unknown".
"""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import redis

from client import Connection
from clockfile import add_clock, own_clocks
from cluster import FAST, Cluster
from leafctl import Leafctl
from model.certified import Certificates
from model.reference import must
from ports import take_port
from recovery import place
from upgrade import leafd_of
from wait import wait_until

WAIT_S = 60  # for what must come true; a loaded machine is no fault
# Nobody can tell what became of the request; or it was refused for a reason that passes by itself.
UNKNOWN = {"timeout", "no_leader", "overloaded", "shutting_down", "mode_changing", "disk_full"}
# name: what limits it. The operator has every role.
TOKENS = {
    "operator": "roles=all",
    "alice": "roles=ids,read,tags,workers prefix=a/",
    "bob": "roles=ids,read,tags,workers prefix=b/",
    "shop": "roles=ids prefix=a/",
    "eve": "roles=ids,read,tags,workers prefix=e/ tags=1 workers=2",
    "quick": "roles=ids prefix=q/",
    "till": "roles=ids,read prefix=t/",
}
REMOVED_EXIT = 77
# Routes of the role ids, which an admin listener does not have.
OF_IDS = ("/api/segment/get", "/api/snowflake/", "/decodeSnowflakeId", "/tinyid/")
PROXY = "127.0.0.9"  # from there connections begin with a header of the PROXY protocol


def wait_up(node):
    """Until the node is ready; a drained one is ready for all but that reason."""
    def up():
        node.check_running()
        checks = node.http("GET", "/readyz?verbose", timeout=2).json()["checks"]
        return all(check["ok"] or not check["needed"] or check["name"] == "drained"
                   for check in checks)

    wait_until(up, WAIT_S, f"{node} ready")
    node.serving = True


class From(redis.Connection):
    """A connection over RESP from a source address of one's own."""

    def __init__(self, source, **settings):
        self.source = source
        super().__init__(**settings)

    def _connect(self):
        stream = socket.create_connection((self.host, self.port), WAIT_S, self.source)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream


class Answer:
    """What came back. numbers or texts: of ids; text: of everything else."""

    def __init__(self, code, text="", numbers=None, texts=None, replayed=None, status=None):
        self.code, self.text, self.status = code, text, status
        self.numbers, self.texts, self.replayed = numbers, texts, replayed

    @property
    def ok(self):
        return self.code == "ok"

    @property
    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        shown = self.numbers if self.numbers is not None else self.texts
        if shown is not None:
            return f"{self.code} {shown[:3]}{'...' if len(shown) > 3 else ''} ({len(shown)})"
        return f"{self.code} {self.text[:300]}"


class World:
    """size nodes; settings: further ones of leafd; tls: http.tls-client, where they speak TLS;
    split: they have an admin listener; open: there is no tokens file, and clients are known by
    their certificates where they have one, else by their addresses."""

    def __init__(self, directory, size, settings=None, tls=None, split=False, open_=False):
        self.directory = str(directory)
        self.size = size
        self.turn = 0  # of a step: it says what clients show in it
        self.open = open_
        self.tls = Certificates(self.directory, tls, TOKENS if open_ else ()) if tls else None
        self.split = split
        self.generation = 0  # of the tokens: how often each was exchanged
        self.limits = dict(TOKENS)
        self.secrets = {name: f"{name}-0" for name in TOKENS}
        self.older = {}  # of a client that has two: nodes of odd numbers are asked with this one
        os.makedirs(self.directory, exist_ok=True)
        self.tokens_file = os.path.join(self.directory, "tokens")
        self.write_tokens()
        self.cluster = Cluster(
            os.path.join(self.directory, "cluster"),
            size,
            {**FAST, **({} if open_ else {"auth-tokens-file": self.tokens_file,
                                          "auth-anonymous": "health,read"}),
             "proxy-from": PROXY, **(self.tls.settings() if tls else {}), **(settings or {})},
        )
        for node in self.cluster.nodes:
            self.listen(node)
        self.dress()
        self.clocks = own_clocks(self.cluster)
        self.shift_s = 0
        self.newest_id = size
        self.next_level = False
        self.connections = {}
        self.backups = 0
        self.streams = []
        self.slow_backups = []

    # auth-anonymous has read, since the helpers of the tests ask for the cluster's state without a
    # token; requests of a sequence always show one.

    def listen(self, node):
        """Its addresses: node.address is where the cluster is asked for, which may be an admin
        listener."""
        node.resp_port = take_port()
        node.settings["resp-listen"] = f"127.0.0.1:{node.resp_port}"
        node.ids_address = node.address
        if self.split:
            node.ids_address = ("127.0.0.1", take_port())
            node.settings["http-listen"] = f"127.0.0.1:{node.ids_address[1]}"
            node.settings["admin-listen"] = node.http_address

    def start(self):
        for node in self.cluster.nodes:
            node.start()

    def wait(self):
        self.wait_up()
        wait_until(self.has_time, WAIT_S, "the log has a time")
        self.wait_level()

    def wait_level(self):
        speaks = self.nodes[0].get_json("/version")["levels"]["max"]
        wait_until(lambda: all(node.cluster_status()["level"]["number"] == speaks
                               for node in self.nodes), WAIT_S, f"level {speaks} on all nodes")

    def has_time(self):
        return self.nodes[0].get_json("/api/workers")["log_time_ms"] > 0

    def end(self):
        self.drop_connections()
        self.end_backups()
        for stream in self.streams:
            stream.close()
        self.cluster.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def nodes(self):
        return self.cluster.nodes

    def node(self, number):
        return self.nodes[number % len(self.nodes)]

    def drop_connections(self):
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def write_tokens(self):
        lines = [f"{name} sha256:{hashlib.sha256(secret.encode()).hexdigest()} {self.limits[name]}"
                 for name, secret in [*self.secrets.items(), *self.older.items()]]
        lines += [f"{name} cert:dns:{name}.shop {self.limits[name]}"
                  for name in (sorted(self.tls.lines) if self.tls else [])]
        with open(os.open(self.tokens_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w",
                  encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    # --- listeners ---

    def secret(self, token, number):
        secrets = self.older if number % 2 and token in self.older else self.secrets
        return secrets.get(token, token)

    def shows(self, token):
        """(whose certificate a client shows in this step, whether it says its token)."""
        return self.tls.shown(token, self.turn) if self.tls else (None, not self.open)

    def source(self, token):
        """Where a client comes from."""
        if not self.open or self.tls or token not in TOKENS:
            return None
        return (f"127.0.1.{1 + list(TOKENS).index(token)}", 0)

    def dress(self):
        """Nodes are asked by clients of the tests with what is good now."""
        for node in self.nodes:
            node.tls = self.tls and self.tls.plain_context()

    def bearer(self, number, token):
        """The header line of a client's token; none, where it is known by its certificate."""
        if token is None or not self.shows(token)[1]:
            return ""
        return f"Authorization: Bearer {self.secret(token, number)}\r\n"

    def connect(self, address, shown, node=None, source=None):
        """A connection by a client that shows this certificate; with its ticket, if a node gave
        one."""
        context = self.tls and self.tls.context(shown)
        session = self.tls and self.tls.sessions.pop((node, context), None)
        return Connection(address, WAIT_S, context, session, source)

    def http(self, number, token, method, target, body=None, headers=None):
        """One request over HTTP, on a connection of this node that is kept open."""
        node = self.node(number)
        shown, says_token = self.shows(token)
        address = node.ids_address if target.startswith(OF_IDS) else node.address
        place_of = (address, self.source(token), shown)
        head = dict(headers or {})
        if token is not None and says_token:
            head["Authorization"] = f"Bearer {self.secret(token, number)}"
        data = None if body is None else json.dumps(body).encode()
        try:
            if place_of not in self.connections:
                self.connections[place_of] = self.connect(address, shown, node.id, place_of[1])
            response = self.connections[place_of].request(method, target, data, head)
            if response.headers.get("connection", "").lower() == "close":
                self.connections.pop(place_of).close()
            elif self.tls:
                sock = self.connections[place_of].sock
                self.tls.sessions[node.id, sock.context] = sock.session
        except OSError as error:
            if place_of in self.connections:
                self.connections.pop(place_of).close()
            node.check_running()
            return Answer("unknown", repr(error))
        replayed = response.headers.get("idempotency-replayed") == "true"
        if response.status >= 400:
            code = response.json().get("code", f"status-{response.status}")
            return Answer("unknown" if code in UNKNOWN else code, response.text,
                          replayed=replayed, status=response.status)
        return Answer("ok", response.text, replayed=replayed, status=response.status)

    def proxied(self, number, token, target, header):
        """A GET on a connection of its own, through a proxy that says who the client is."""
        node = self.node(number)
        lines = (f"GET {target} HTTP/1.1\r\nHost: leafd\r\nConnection: close\r\n"
                 f"{self.bearer(number, token)}\r\n").encode()
        came = b""
        try:
            address = node.ids_address if target.startswith(OF_IDS) else node.address
            with socket.create_connection(address, WAIT_S, (PROXY, 0)) as stream:
                stream.sendall(header)
                with self.sealed(stream, self.shows(token)[0]) as stream:
                    stream.sendall(lines)
                    while data := stream.recv(65536):
                        came += data
        except OSError as error:
            node.check_running()
            return Answer("unknown", repr(error))
        head, _, body = came.partition(b"\r\n\r\n")
        if not head:
            return Answer("closed")
        status, text = int(head.split()[1]), body.decode()
        if status < 400:
            return Answer("ok", text, status=status)
        code = json.loads(text)["code"]
        return Answer("unknown" if code in UNKNOWN else code, text, status=status)

    def sealed(self, stream, shown):
        """A socket, with TLS where listeners speak it."""
        if self.tls is None:
            return stream
        return self.tls.context(shown).wrap_socket(stream, server_hostname="localhost")

    def resp(self, number, token, *words):
        """One request over RESP. An answer's value is in numbers (integers) or texts (strings)."""
        node = self.node(number)
        shown, says_token = self.shows(token)
        place_of = (node.id, token, shown, says_token)
        try:
            if place_of not in self.connections:
                self.connections[place_of] = redis.Redis(
                    host="127.0.0.1", port=node.resp_port,
                    password=self.secret(token, number) if says_token else None,
                    socket_timeout=WAIT_S, single_connection_client=not self.source(token),
                    **(self.tls.of_redis(shown) if self.tls else {}))
                if self.source(token):
                    self.connections[place_of].connection_pool = redis.ConnectionPool(
                        From, source=self.source(token), host="127.0.0.1", port=node.resp_port,
                        socket_timeout=WAIT_S, max_connections=1)
                self.connections[place_of].response_callbacks.clear()
            value = self.connections[place_of].execute_command(*words)
        except redis.ResponseError as error:
            code = str(error).split(":", 1)[0].split(" ")[-1]
            return Answer("unknown" if code in UNKNOWN else code, str(error))
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            if place_of in self.connections:
                self.connections.pop(place_of).close()
            node.check_running()
            return Answer("unknown", repr(error))
        values = value if isinstance(value, list) else [value]
        if all(isinstance(one, int) for one in values):
            return Answer("ok", numbers=values)
        return Answer("ok", repr(value), texts=[
            one.decode() if isinstance(one, bytes) else str(one) for one in values])

    def leafctl(self, number, token, *words, stdin=None):
        node = self.node(number)
        shown, says_token = self.shows(token)
        settings = {"TOKEN": self.secret(token, number)} if says_token else {}
        settings |= self.tls.of_leafctl(shown) if self.tls else {}
        run = Leafctl(self.directory, node.http_address, TIMEOUT=WAIT_S, **settings)(
            *words, code=None, timeout=2 * WAIT_S, stdin=stdin)
        if run.code == 0:
            return Answer("ok", run.out)
        node.check_running()
        found = re.search(r"\b(" + "|".join(CODES) + r")\b", run.err)
        code = found[1] if found else f"exit {run.code}"
        return Answer("unknown" if code in UNKNOWN else code, run.err)

    def watch(self, number, token):
        """Begin a stream of which nobody reads more than the head; it, or None."""
        node = self.node(number)
        try:
            stream = self.connect(node.address, self.shows(token)[0])
            stream.send(f"GET /api/live HTTP/1.1\r\nHost: leafd\r\n"
                        f"{self.bearer(number, token)}\r\n".encode())
            self.streams.append(stream)
            stream.fill()  # it is judged
            return stream
        except OSError:
            node.check_running()
            return None

    def begin_backup(self, number):
        """A backup of which only the head is read, by a client with a small buffer."""
        node = self.node(number)
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.settimeout(WAIT_S)
        try:
            stream.connect(node.address)
            stream = self.sealed(stream, self.shows("operator")[0])
            stream.sendall(f"GET /api/backup HTTP/1.1\r\nHost: leafd\r\nAuthorization: Bearer "
                           f"{self.secrets['operator']}\r\n\r\n".encode())
            stream.recv(16)
        except OSError:
            node.check_running()
        self.slow_backups.append(stream)

    def end_backups(self):
        for stream in self.slow_backups:
            stream.close()
        self.slow_backups.clear()

    # --- what happens to nodes ---

    def restart(self, number, clean):
        node = self.node(number)
        self.drop_connections()
        if clean:
            node.stop(WAIT_S)
        else:
            node.kill9()
        wait_up(node.start())
        self.settle()

    def wait_up(self):
        for node in self.cluster.running():
            wait_up(node)

    def settle(self):
        """A leader that all follow, and every node has applied all."""
        self.cluster.wait_leader(WAIT_S)
        self.cluster.wait_applied(timeout=WAIT_S)

    def restart_all(self, later_s=0):
        self.drop_connections()
        self.cluster.kill_all()
        self.shift_s += later_s
        for clock in self.clocks.values():
            clock.set(self.shift_s)
        self.start()
        self.wait_up()
        self.settle()

    def replace(self, number, dead, how):
        """A node with a new id takes this one's place in the list. how: it asks by itself, or
        somebody does over HTTP or by leafctl."""
        self.drop_connections()
        old = self.node(number)
        at = self.nodes.index(old)
        if dead:
            old.kill9()
        fresh = self.newcomer([node for node in self.nodes if node is not old] or [old])
        via = (at + 1) % self.size if self.size > 1 else 0
        if dead and how == "ctl":
            fresh.start()
            self.asked(via, "members", "replace", old.id, fresh.id, fresh.peer_address)
        else:
            if dead:
                self.remove(via, old, how)
            if how == "http":
                body = {"id": fresh.id, "peer_address": fresh.peer_address}
                self.changed(via, "POST", "/api/cluster/members", body, {200, 202})
            fresh.start()
            if how == "ctl":
                wait_until(fresh.serves, WAIT_S, f"{fresh} answers")
                fresh.process.send_signal(signal.SIGHUP)  # it may still wait to be let in
                self.asked(via, "members", "add", fresh.id, fresh.peer_address)
        wait_up(fresh)
        self.nodes.remove(fresh)
        if not dead:
            self.wait_voters([*self.nodes, fresh])
            old.expect_log("this node was removed|a peer refuses this node")
            old.leaving()
            self.remove(via, old, how, fresh)
            code = old.wait_exit(WAIT_S)
            must(code == REMOVED_EXIT, "removed-node-ends-wrongly", f"{old} ended with {code}")
        self.cluster.dismiss(old)
        self.nodes.insert(at, fresh)
        self.wait_voters(self.nodes)
        self.settle()

    def newcomer(self, targets):
        self.newest_id += 1
        fresh = self.cluster.newcomer(self.newest_id, *targets)
        fresh.binary = targets[0].binary
        self.listen(fresh)
        self.dress()
        self.clocks[fresh.id] = add_clock(fresh)
        self.clocks[fresh.id].set(self.shift_s)
        return fresh

    def remove(self, via, old, how, fresh=None):
        """Asked of a member that stays."""
        if fresh is not None and self.size == 1:
            self.nodes.insert(0, fresh)
        try:
            if how == "ctl":
                self.asked(via, "members", "remove", old.id, "--yes")
            else:
                self.changed(via, "DELETE", f"/api/cluster/members/{old.id}", None, {200})
        finally:
            if fresh is not None and self.size == 1:
                self.nodes.remove(fresh)

    def changed(self, via, method, path, body, right):
        """A change of the members; it is asked for until the answer has one of these statuses."""
        wait_until(lambda: self.http(via, "operator", method, f"{path}?timeout_ms=1000",
                                     body).status in right, WAIT_S, f"{method} {path}")

    def asked(self, via, *words):
        answer = self.leafctl(via, "operator", *words)
        must(answer.ok, "leafctl-fails", f"{words}: {answer}")

    def wait_voters(self, nodes):
        right = {node.id: "voter" for node in nodes}

        def so():
            leader = self.cluster.find_leader()
            status = leader and leader.cluster_status()
            return status and status["change"] is None and right == {
                member["id"]: member["role"] for member in status["members"]}

        wait_until(so, WAIT_S, f"voters {sorted(right)}")

    def move(self, number, how):
        """The node stops, and starts with another address for its peers."""
        self.drop_connections()
        node = self.node(number)
        at = self.nodes.index(node)
        node.stop(WAIT_S)
        before = node.peer_address
        node.peer_port = take_port()
        if node.members:
            node.members = node.members.replace(before, node.peer_address)
        if "peer-listen" in node.settings:
            node.settings["peer-listen"] = node.peer_address
        if how == "http":
            self.changed(at + 1, "PUT", f"/api/cluster/members/{node.id}",
                         {"peer_address": node.peer_address}, {200})
        elif how == "ctl":
            self.asked(at + 1, "members", "address", node.id, node.peer_address)
        wait_up(node.start())
        self.settle()
        wait_until(lambda: all(member["peer_address"] == node.peer_address
                               for other in self.nodes
                               for member in other.cluster_status()["members"]
                               if member["id"] == node.id), WAIT_S, f"{node} at its new address")

    def upgrade(self):
        """Every node to the leafd of the next level, one after the other."""
        self.drop_connections()
        for node in self.nodes:
            node.stop(WAIT_S)
            node.binary = leafd_of("next")
            wait_up(node.start())
        self.next_level = True
        self.settle()
        level = self.nodes[0].cluster_status()["level"]["number"] + 1
        wait_until(lambda: self.http(0, "operator", "POST", "/api/cluster/level?timeout_ms=10000",
                                     {"level": level}).status == 200, WAIT_S, "the level is raised")
        self.wait_level()

    def tool(self, *arguments):
        """leafd restore or recover, of the leafd that the nodes run, on the first node's clock."""
        node = self.nodes[0]
        run = subprocess.run([*node.prefix, node.binary, *map(str, arguments)], text=True,
                             capture_output=True, timeout=2 * WAIT_S, check=False)
        if run.returncode != 0:
            return Answer(f"exit {run.returncode}", run.stderr)
        return Answer("ok", run.stdout)

    def backup(self, number, by_leafctl):
        path = os.path.join(self.directory, f"backup{self.backups}")
        self.backups += 1
        if by_leafctl:
            return path, self.leafctl(number, "operator", "backup", path)
        answer = self.node(number).http(
            "GET", "/api/backup", headers={"Authorization": f"Bearer {self.secrets['operator']}"},
            timeout=WAIT_S)
        if answer.status != 200:
            code = answer.code
            return path, Answer("unknown" if code in UNKNOWN else code, answer.text)
        with open(path, "wb") as file:
            file.write(answer.body)
        return path, Answer("ok")

    def restore(self, path, raise_ids, *options):
        """All nodes are lost; the first begins a new cluster with the backup."""
        self.drop_connections()
        self.cluster.kill_all()
        first = self.nodes[0]
        os.rename(first.data_dir, first.data_dir + ".old")
        answer = self.tool("restore", path, *place(first), "--raise-ids", raise_ids, *options)
        if answer.ok:
            for node in self.nodes:
                shutil.rmtree(node.data_dir + ".old" if node is first else node.data_dir)
            self.begin_anew(first)
        else:  # then they are not lost
            shutil.rmtree(first.data_dir, ignore_errors=True)
            os.rename(first.data_dir + ".old", first.data_dir)
            self.start()
            self.wait_up()
            self.settle()
        return answer

    def recover(self, survivor, raise_ids):
        """One node has its data, the others are lost for good."""
        self.drop_connections()
        node = self.node(survivor)
        self.cluster.kill_all()
        out = node.data_dir + ".new"
        lost = [word for other in self.nodes if other is not node for word in ("--lost", other.id)]
        answer = self.tool("recover", "--data-dir", node.data_dir, "--out", out, "--raise-ids",
                           raise_ids, "--yes", *lost)
        if answer.ok:
            for other in self.nodes:
                shutil.rmtree(other.data_dir)
            os.rename(out, node.data_dir)
            self.begin_anew(node)
        else:  # then they are not lost
            self.start()
            self.wait_up()
            self.settle()
        return answer

    def begin_anew(self, first):
        first.members = f"{first.id}={first.peer_address}"
        first.settings.pop("join", None)
        wait_up(first.start())
        for node in self.nodes:
            if node is not first:
                node.members = None
                node.settings.update({"join": first.peer_address, "peer-listen": node.peer_address})
                wait_up(node.start())
        wait_until(lambda: set(self.cluster.members().values()) == {"voter"} and
                   len(self.cluster.members()) == self.size, WAIT_S, "all nodes are voters")
        self.settle()
        wait_until(self.has_time, WAIT_S, "the log has a time")

    def exchange_token(self, name, both):
        """Another secret for a client of the same name; both: that of before stays, too. Those
        that are worth nothing any more."""
        self.generation += 1
        gone = [self.older.pop(name)] if name in self.older else []
        if both and not (self.tls and name in self.tls.lines):  # else it would have three lines
            self.older[name] = self.secrets[name]
        else:
            gone.append(self.secrets[name])
        self.secrets[name] = f"{name}-{self.generation}"
        self.reload_tokens(name)
        return gone

    def limit(self, name, limits):
        """Set the limits of a client; its secret is another, too, by which nodes show that they
        know them. False: they were so."""
        before, self.limits[name] = self.limits[name], f"{TOKENS[name]} {limits}".rstrip()
        self.exchange_token(name, False)
        return self.limits[name] != before

    def reload_tokens(self, name):
        self.write_tokens()
        self.hang_up()
        for key in [key for key in self.connections if key[1] == name and key[3]]:
            self.connections.pop(key).close()
        for number in range(len(self.nodes)):
            wait_until(lambda at=number: self.http(at, self.secrets[name], "GET",
                                                   "/livez").status in (200, 403),
                       WAIT_S, f"node {number + 1} knows the new token of {name}")

    def hang_up(self):
        """All nodes read their files again."""
        for node in self.nodes:
            node.process.send_signal(signal.SIGHUP)

    def hang_up_in_vain(self):
        """All nodes refuse what they read, for a line of the tokens file."""
        before = [len(node.log()) for node in self.nodes]
        with open(self.tokens_file, "a", encoding="ascii") as file:
            file.write("one that breaks the rules\n")
        for node in self.nodes:
            node.expect_log("the reload was refused")
        self.hang_up()
        for node, start in zip(self.nodes, before):
            node.wait_log("the reload was refused", WAIT_S, start)
        self.write_tokens()

    def now_ms(self):
        """By the nodes' clocks, long enough ago for a restore that just ended to have begun."""
        return int((time.time() + self.shift_s) * 1000) - 300_000

    def set_clocks(self, shift_s):
        self.shift_s = shift_s
        for clock in self.clocks.values():
            clock.set(shift_s)

        def followed():
            log_s = self.nodes[0].get_json("/api/workers")["log_time_ms"] / 1000
            off_ms = [abs(member["clock_offset_ms"] or 0) for node in self.cluster.running()
                      for member in node.get_json("/api/status")["members"]]
            return log_s > time.time() + shift_s - 60 and max(off_ms) < 60_000

        wait_until(followed, WAIT_S, f"all know that the time is {shift_s} s ahead")


CODES = ["unknown_tag", "exhausted", "not_contiguous", "would_repeat", "needs_force", "conflict",
         "bad_key", "bad_request", "bad_count", "idempotency_conflict", "forbidden_tag",
         "forbidden", "unauthorized", "unknown_worker", "fenced", "no_worker_id", "share",
         "state_full", "clock_backwards", "clock_skew", "window_expired",
         "unknown_layout", "bad_id", "no_shape", *sorted(UNKNOWN)]
