"""What listeners that speak TLS and their clients show to each other.

A client of the name alice has a certificate, dns:alice.shop, whose line in the tokens file has the
name and the rights of her token: so she is one client, whichever she shows.
"""

import os
import shutil
import ssl

import redis

from certificates import Authority
from client import Connection

HOLDERS = ("alice", "bob", "eve")
CERTIFIED = (*HOLDERS, "till")
NOBODY = "nobody"  # its certificate has no line
LONG_AGO_S = -3 * 86400  # they begin then, since clocks may be set back
WAIT_S = 60


class Certificates:
    """Two CAs, of which the listeners trust one; and what clients show. rule: http.tls-client;
    alone: there are no tokens, and all these clients are known by their certificates."""

    def __init__(self, directory, rule, alone=()):
        self.rule, self.alone = rule, alone
        self.authorities = [Authority(os.path.join(directory, name), name, LONG_AGO_S)
                            for name in ("ca-a", "ca-b")]
        self.served = Authority(os.path.join(directory, "servers"), "servers")
        self.directory = self.served.path("server")
        self.lines = set(CERTIFIED)  # those that have one in the tokens file
        self.contexts = {}
        self.sessions = {}  # of a node and a client's context, to go on with
        self.issue_server()
        self.issue_all()

    @property
    def authority(self):
        return self.authorities[0]

    def settings(self):
        return {"http-tls-dir": self.directory, "http-tls-client": self.rule}

    def issue_server(self):
        self.served.issue("server")
        shutil.copy(self.authority.pem, os.path.join(self.directory, "ca.crt"))

    def issue(self, name, since_s=LONG_AGO_S, days=90):
        """A certificate of a client, which shows it from now on."""
        self.contexts.pop(name, None)
        self.authority.issue(name, f"DNS:{name}.shop", "clientAuth", days, since_s)

    def bad(self, who, ended):
        """The context of a client whose certificate has ended, or that another CA made."""
        authority = self.authorities[0 if ended else 1]
        pair = authority.issue("bad", f"DNS:{who}.shop", "clientAuth", 1 if ended else 90,
                               LONG_AGO_S)
        return self.served.client(pair)

    def issue_all(self):
        for name in {*CERTIFIED, *self.alone, NOBODY}:
            self.issue(name)

    def exchange_authority(self):
        """The listeners trust the other CA from their next reload on."""
        self.authorities.reverse()
        self.issue_all()
        shutil.copy(self.authority.pem, os.path.join(self.directory, "ca.crt"))

    def shown(self, client, turn):
        """(what a client shows in the handshake, whether it says its token)."""
        if self.alone:
            return client or NOBODY, False
        plain = NOBODY if self.rule == "required" else None
        if client not in self.lines:
            own = plain
        else:
            own = client
            if turn % 4 == 1:
                return own, False
        other = "bob" if client != "bob" else "alice"
        return ((plain, plain, other, own)[turn % 4]), True

    def context(self, name):
        """Of a client that shows this; None: no certificate."""
        if name not in self.contexts:
            self.contexts[name] = self.served.client(
                None if name is None else self.authority.pair(name))
        return self.contexts[name]

    def is_served(self, node):
        """Does the node show the newest certificate?"""
        with open(os.path.join(self.directory, "tls.crt"), encoding="ascii") as file:
            newest = ssl.PEM_cert_to_DER_cert(file.read())
        with Connection(node.address, WAIT_S, self.plain_context()) as connection:
            return connection.sock.getpeercert(True) == newest

    def plain_context(self):
        """Of a client that is nobody."""
        return self.context(NOBODY if self.rule == "required" else None)

    def of_redis(self, name):
        pair = (None, None) if name is None else self.authority.pair(name)
        return {"ssl": True, "ssl_ca_certs": self.served.pem, "ssl_certfile": pair[0],
                "ssl_keyfile": pair[1]}

    def of_leafctl(self, name):
        pair = {} if name is None else dict(zip(("CERT", "KEY"), self.authority.pair(name)))
        return {"CA": self.served.pem, **pair}


PROBE = "/api/snowflake/decode/1256557484213448722"  # needs the role ids, which all of them have


class Held:
    """What a client of a certificate keeps open: a connection, a stream, and one over RESP, which
    may have shown the token of another client since (beside)."""

    def __init__(self, node, world, who, beside=None):
        self.context = world.tls.context(who)
        self.http, self.stream = (Connection(address, WAIT_S, self.context)
                                  for address in (node.ids_address, node.address))
        self.resp = redis.Redis(host="127.0.0.1", port=node.resp_port, socket_timeout=WAIT_S,
                                password=beside and world.secrets[beside],
                                single_connection_client=True, **world.tls.of_redis(who))
        self.stream.send(b"GET /api/live HTTP/1.1\r\nHost: leafd\r\n\r\n")
        self.stream.fill()
        self.told_end = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in (self.http, self.stream, self.resp):
            connection.close()

    def asks(self):
        """The codes of a request on each; "ended": the connection was."""
        codes = []
        try:
            answer = self.http.request("GET", PROBE)
            self.told_end = answer.headers.get("connection") == "close"
            codes.append("ok" if answer.status == 200 else answer.code)
        except OSError:
            codes.append("ended")
        try:
            self.resp.execute_command("LEAFD.DECODE", 1256557484213448722)
            codes.append("ok")
        except (redis.ResponseError, redis.AuthenticationError) as error:
            codes.append(str(error).split(":", 1)[0].split(" ")[-1])
        except redis.RedisError:
            codes.append("ended")
        return codes


def ends(stream, after=1 << 30):
    """Does its last chunk come, before so many pictures?"""
    came, pictures = b"", 0
    try:
        while not came.endswith(b"0\r\n\r\n") and pictures < after and (
                data := stream.sock.recv(65536)):
            pictures += data.count(b"event: status")
            came = came[-8:] + data
    except OSError:
        return False
    return came.endswith(b"0\r\n\r\n")


def probe(node, context, session=None):
    """The code of a client's request on a connection of its own; "refused": it is not let in."""
    try:
        with Connection(node.ids_address, WAIT_S, context, session) as connection:
            answer = connection.request("GET", PROBE)
            return "ok" if answer.status == 200 else answer.code
    except OSError:
        return "refused"
