"""Endpoints that are the name of an SRV record (docs/clients.md, Settings). The driver sees a name
server of the test's own, by mounts that nobody else sees."""

import os
import socket
import struct
import subprocess
import threading

import pytest

from driver import check_once
from fake import Granter

pytestmark = pytest.mark.inside

NAME = "_leafd._tcp.leafd.test"
HOST = "node.leafd.test"
SERVER = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"  # one of this process's own
MOUNT = ["unshare", "-m", "--propagation", "private", "sh", "-c",
         'mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/hosts && shift &&'
         ' exec "$@"']
SRV, IN, NO_SUCH_NAME = 33, 1, 3


def labels(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


class Names:
    """A name server that knows the SRV record of NAME: ports is what is in it."""

    def __init__(self):
        self.ports = []
        self.asked = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((SERVER, 53))
        self.socket.settimeout(0.1)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while not self.ended.is_set():
            try:
                query, client = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            self.socket.sendto(self.answer(query), client)

    def close(self):
        self.ended.set()
        self.thread.join()
        self.socket.close()

    def answer(self, query):
        end = query.index(b"\0", 12) + 5
        kind = struct.unpack(">H", query[end - 4:end - 2])[0]
        known = query[12:end - 4].lower() == labels(NAME) and kind == SRV and self.ports
        self.asked += kind == SRV
        records = self.ports if known else []
        text = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else NO_SUCH_NAME), 1,
                                       len(records), 0, 0) + query[12:end]
        for port in records:
            data = struct.pack(">HHH", 0, 0, port) + labels(HOST)
            text += b"\xc0\x0c" + struct.pack(">HHIH", SRV, IN, 1, len(data)) + data
        return text


@pytest.fixture(name="names")
def names_fixture():
    try:
        server = Names()
    except OSError as error:
        pytest.skip(f"a name server of its own: {error}")
    yield server
    server.close()


@pytest.fixture(name="prefix")
def prefix_fixture(tmp_path):
    resolv, hosts = tmp_path / "resolv.conf", tmp_path / "hosts"
    resolv.write_text(f"nameserver {SERVER}\noptions timeout:1 attempts:1\n", encoding="ascii")
    hosts.write_text(f"127.0.0.1 {HOST}\n", encoding="ascii")
    made = [*MOUNT, str(resolv), str(hosts)]
    if subprocess.run([*made, "true"], check=False).returncode != 0:
        pytest.skip("a mount of its own needs root")
    return made


def test_each_record_is_a_node(start, fake, names, prefix):
    granter = Granter()
    servers = [fake(granter.node()) for _ in range(3)]
    names.ports = [server.port for server in servers]
    client = start(prefix=prefix)
    client.open(endpoints=f"http+srv://{NAME}")
    found = [client.ids("strict1 orders 5")]
    used = next(server for server in servers if server.requests)
    assert used.requests[0].headers["host"] == f"{HOST}:{used.port}"
    used.handler = lambda request: None
    found.append(client.ids("strict1 orders 5"))
    check_once(*found)
    assert sum(bool(server.requests) for server in servers) > 1


def test_a_record_that_comes_later(start, fake, names, prefix):
    """Until then the call waits; without one it says what is missing."""
    client = start(prefix=prefix)
    client.open(endpoints=f"http+srv://{NAME}")
    refused = client.refused("strict orders 1 deadline_ms=1500", "unreachable")
    assert "SRV" in refused.message and NAME in refused.message
    assert names.asked
    names.ports = [fake(Granter().node()).port]
    client.ids("strict orders 1")


@pytest.mark.parametrize("endpoint", [f"http+srv://{NAME}:80", "http+srv://", "ftp+srv://a",
                                      "srv://a", "http+srv://a/b"])
def test_endpoints_that_are_none(start, endpoint):
    start().refused(f"open endpoints={endpoint}", "bad_setting")
