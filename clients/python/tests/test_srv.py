"""SRV records, from a name server of the test's own: over UDP and TCP, and answers that are wrong."""
import errno
import socket
import struct
import threading

import pytest

from leafd import _srv

NAME = "_leafd._tcp.leafd.test"


def record(host, port, owner=b"\xc0\x0c", kind=33):
    data = struct.pack(">HHH", 0, 0, port) + host
    return owner + struct.pack(">HHIH", kind, 1, 1, len(data)) + data


def label(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))


def answer(query, records, flags=0x8180, number=None):
    head = query[:2] if number is None else number
    return head + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + query[12:] + b"".join(records)


GOOD = [record(label("one.leafd.test") + b"\0", 8080), record(label("two") + b"\xc0\x18", 8081)]
BOTH = ["one.leafd.test:8080", "two.leafd.test:8081"]


def listen_on_both():
    """TCP and UDP at one port. One that is free for TCP may be somebody's for UDP."""
    while True:
        listener = socket.create_server(("127.0.0.1", 0))
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind(listener.getsockname())
            return listener, sock
        except OSError as error:
            listener.close()
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise


@pytest.fixture(name="serve")
def serve_fixture(monkeypatch):
    """serve(datagrams, stream): what is answered to each query over UDP, and over TCP."""
    closing = []

    def serve(datagrams, stream=None):
        listener, sock = listen_on_both()
        port = listener.getsockname()[1]
        closing.extend((listener, sock))

        def over_udp():
            while True:
                try:
                    query, client = sock.recvfrom(4096)
                except OSError:
                    return
                for text in datagrams(query):
                    sock.sendto(text, client)

        def over_tcp():
            connection, _ = listener.accept()
            with connection:
                size, = struct.unpack(">H", connection.recv(2))
                text = stream(connection.recv(size))
                for byte in struct.pack(">H", len(text)) + text:
                    connection.sendall(bytes([byte]))

        threading.Thread(target=over_udp, daemon=True).start()
        if stream is not None:
            threading.Thread(target=over_tcp, daemon=True).start()
        monkeypatch.setattr(_srv, "PORT", port)
        monkeypatch.setattr(_srv, "TIME_S", 5.0)
        monkeypatch.setattr(_srv, "ROUNDS", 1)
        monkeypatch.setattr(_srv, "_servers", lambda: ["127.0.0.1"])

    yield serve
    for one in closing:
        one.close()


def test_records(serve):
    """What is not of the question, in number or name, is left out."""
    serve(lambda query: [answer(query, GOOD, number=b"\0\0" if query[:2] != b"\0\0" else b"\1\1"),
                         answer(query[:12] + b"\1x" + query[14:], GOOD), b"", query,
                         answer(query, [record(b"", 1, kind=5), *GOOD,
                                        record(b"\0", 80), record(label("three") + b"\0", 0)])])
    assert _srv.services(NAME) == BOTH
    assert _srv.services(NAME + ".") == BOTH


def test_a_long_answer_comes_over_tcp(serve):
    many = [record(label(f"n{i}") + b"\0", 80) for i in range(100)]
    serve(lambda query: [answer(query, [], flags=0x8380)], lambda query: answer(query, many))
    assert _srv.services(NAME) == [f"n{i}:80" for i in range(64)]


def test_a_name_that_is_not_there(serve):
    serve(lambda query: [answer(query, [], flags=0x8183)])
    assert _srv.services(NAME) == []


@pytest.mark.parametrize("records,flags", [
    ([], 0x8182),  # a server that fails
    ([b"\xc0\x0c"], 0x8180),
    ([record(b"\xc0\xff", 1)], 0x8180),
    ([record(b"\xc0\x3a", 1)], 0x8180),  # a name that points at itself
    ([record(b"\x3fabc", 1)], 0x8180),
    ([b"\xc0" * 500], 0x8180),
])
def test_answers_that_are_wrong(serve, records, flags):
    serve(lambda query: [answer(query, records, flags)])
    with pytest.raises(OSError):
        _srv.services(NAME)


def test_servers(tmp_path, monkeypatch):
    path = tmp_path / "resolv.conf"
    monkeypatch.setattr(_srv, "RESOLV_CONF", str(path))
    path.write_text("# nameserver 1.1.1.1\nnameserver 10.0.0.1\nsearch x\nnameserver ::1\n")
    assert _srv._servers() == ["10.0.0.1", "::1"]
    path.write_text("nameserver\n")
    assert _srv._servers() == ["127.0.0.1"]
