"""HTTP over TLS on real processes: Python's ssl, curl and two scanners as clients."""

# Shows attack-wire.

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from certificates import Authority
from client import Connection, ConnectionLost
from cluster import FAST
from wait import wait_until


# Of each 15.4 are pieces in use: 1.6 ours, the rest OpenSSL's; and the heap has its gaps.
IDLE_KIB = 17


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


def settings(authority, name="server", **more):
    return {**FAST, "admin-listen": "same", "http-hosts": "leafd",
            "http-tls-dir": authority.path(name), **more}


@pytest.fixture
def start(make_cluster, authority):
    """A cluster that serves over TLS."""

    def make(size=1, **more):
        authority.issue("server")
        cluster = make_cluster(size, settings(authority, **more), start=False)
        for node in cluster.nodes:
            node.tls = authority.client()
        return cluster.start().wait_ready()

    return make


def run(*command, timeout=120):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, check=False)


def reload(node, wanted):
    before = len(node.log())
    node.process.send_signal(signal.SIGHUP)
    node.wait_log(wanted, start=before)


def serial(connection):
    return connection.sock.getpeercert()["serialNumber"]


def test_ids_of_three_nodes(start, tag):
    """The whole API is as over plain HTTP."""
    cluster = start(3)
    cluster.create_tag(tag)
    seen = set()
    for node in cluster.nodes:
        with node.connect() as connection:
            assert connection.sock.version() == "TLSv1.3"
            for _ in range(50):
                answer = connection.request("GET", f"/api/segment/get/{tag}")
                assert answer.status == 200
                assert answer.body not in seen
                seen.add(answer.body)
            answer = connection.request("GET", f"/api/segment/get/{tag}?count=100000")
            assert len(answer.body.split()) == 100000
            items = ",".join(f'{{"tag":"{tag}-{i}"}}' for i in range(3000))
            body = f"[{items}]".encode()
            answer = connection.request("POST", "/api/tags", body,
                                        {"Content-Type": "application/json"})
            assert answer.status in (200, 201), answer


def test_metrics(start):
    """Handshakes are counted: full ones, resumed ones, and those that failed."""
    node = start().nodes[0]

    def counts():
        text = node.get("/metrics").body.decode()
        return [int(re.search(rf'leafd_tls_handshakes_total{{result="{kind}"}} (\d+)', text)[1])
                for kind in ("full", "resumed", "failed")]

    before = counts()
    with node.connect() as connection:
        connection.request("GET", "/livez")
        session = connection.sock.session
    with Connection(node.address, tls=node.tls, session=session) as connection:
        connection.request("GET", "/livez")
    with pytest.raises(OSError):
        Connection(node.address, tls=ssl.create_default_context())
    after = wait_until(lambda: (now := counts())[2] > before[2] and now, 10, "a failure counted")
    assert after[1] - before[1] == 1
    assert after[0] - before[0] >= 2  # with those that asked for the metrics


def test_status_and_the_page(start):
    """An operator sees when the certificate ends; the page comes by HTTPS as it does without."""
    node = start().nodes[0]
    [certificate] = node.get_json("/api/status")["certificates"]
    assert certificate["what"] == "http.tls-dir" and certificate["expires"].endswith("Z")
    assert certificate["expires"] > "2026"
    answer = node.http("GET", "/", headers={"Host": "127.0.0.1"})
    assert answer.status == 200 and "content-security-policy" in answer.headers


def test_curl(start, authority):
    cluster = start()
    url = f"https://localhost:{cluster.nodes[0].http_port}/livez"
    for options in ([], ["--tls-max", "1.2"], ["--http1.1"], ["--http2"]):
        told = run("curl", "-sS", "--cacert", authority.pem, *options, url)
        assert told.stdout == '{"status":"alive"}', told
    told = run("curl", "-sS", url)
    assert told.returncode == 60, told  # who does not know the CA does not talk to it


def test_plain_http_is_told(start):
    """One who forgot the s gets an answer that he can read."""
    node = start().nodes[0]
    with Connection(node.address) as connection:
        answer = connection.request("GET", "/livez")
        assert (answer.status, answer.code) == (400, "tls_required")
        assert answer.headers["connection"] == "close"
        assert connection.at_end()
    with socket.create_connection(node.address, timeout=30) as other:
        other.sendall(b"\x00\x01\x02")
        assert other.recv(100) == b""
    assert node.get("/livez").status == 200


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_versions_are_refused(start, authority, version):
    node = start().nodes[0]
    told = run("openssl", "s_client", "-connect", f"localhost:{node.http_port}",
               "-CAfile", authority.pem, "-" + version.lower().replace("v1", "1"),
               "-cipher", "DEFAULT@SECLEVEL=0")
    assert "Cipher is (NONE)" in told.stdout, told


def test_h2_alone_is_refused(start, authority):
    node = start().nodes[0]
    context = authority.client()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        Connection(node.address, tls=context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with Connection(node.address, tls=context) as connection:
        assert connection.sock.selected_alpn_protocol() == "http/1.1"
        assert connection.request("GET", "/livez").status == 200


# --- settings ---


def test_settings_that_are_refused(make_cluster, authority, tmp_path):
    """Each names the setting and the file, and says why; nothing was made."""
    pem, key = authority.issue("server")
    required = {"http-tls-client": "required"}

    def made(name, **files):
        """A directory as that of the server, with other files; None: there is none."""
        directory = tmp_path / name
        shutil.copytree(authority.path("server"), directory)
        for file, source in files.items():
            path = directory / file.replace("_", ".")
            path.unlink()
            if source is not None:
                shutil.copy(source, path)
        return directory

    loose = made("loose")
    os.chmod(loose / "tls.key", 0o644)
    other_pem, _ = authority.issue("other")
    other = made("others", tls_crt=other_pem)
    for number, (directory, more, wanted) in enumerate([
        (loose, {}, f"http.tls-dir {loose}/tls.key: has mode 0644"),
        (other, {}, f"{other}/tls.key: is not the key of the certificate in {other}/tls.crt"),
        (made("keys", tls_crt=key), {}, "keys/tls.crt: has no certificate"),
        (tmp_path / "none", {}, f"http.tls-dir {tmp_path}/none/tls.crt: cannot open"),
        (made("keyless", tls_key=None), {}, f"{tmp_path}/keyless/tls.key: cannot open"),
        ("", required, "http.tls-client = "),
        (made("less", ca_crt=None), required, f"http.tls-dir {tmp_path}/less/ca.crt: cannot open"),
        (made("ca", ca_crt=pem), required, "ca/ca.crt: certificate 1 of the file is not a CA's"),
    ]):
        cluster = make_cluster(1, {**FAST, "http-tls-dir": directory, **more}, start=False)
        node = cluster.nodes[0]
        told = run(*node.command_line(), "--check-config")
        assert told.returncode != 0 and wanted in told.stderr, (number, told)
        assert not os.path.exists(node.data_dir)


# --- reload ---


def test_reload_under_load(start, authority, tag):
    """The certificate is renewed ten times while clients ask: no connection is dropped, new ones
    get the new certificate, and sessions go on across it."""
    cluster = start()
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    stop = threading.Event()
    faults, counts = [], []

    def ask(connection):
        count = 0
        try:
            while not stop.is_set():
                assert connection.request("GET", f"/api/segment/get/{tag}").status == 200
                count += 1
        except (OSError, AssertionError, ConnectionLost) as error:
            faults.append(repr(error))
        counts.append(count)

    connections = [node.connect() for _ in range(4)]
    threads = [threading.Thread(target=ask, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    try:
        serials = {serial(connections[0])}
        for _ in range(10):
            with node.connect() as before:
                before.request("GET", "/livez")
                session = before.sock.session
                authority.issue("server")
                reload(node, 'msg="reloaded".*CN=server until')
                assert before.request("GET", "/livez").status == 200
            with Connection(node.address, tls=node.tls) as fresh:
                serials.add(serial(fresh))
            with Connection(node.address, tls=node.tls, session=session) as resumed:
                assert resumed.sock.session_reused
                assert resumed.request("GET", "/livez").status == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not faults
    assert len(serials) == 11
    assert len(counts) == 4 and min(counts) > 0


def test_other_rules_for_clients_end_what_was_opened_under_the_old(
        make_cluster, authority, tmp_path):
    """No certificate where one is required from now on: the next request on an open connection is
    not read, and a stream ends. Of another authority: test_model.py. Shows attack-wire."""
    authority.issue("server")
    config = tmp_path / "leafd.conf"
    config.write_text("http.tls-client = optional\n")
    cluster = make_cluster(1, settings(authority, config=config), start=False)
    node = cluster.nodes[0]
    shown = authority.issue("orders", "DNS:orders", "clientAuth")
    node.tls = authority.client()
    cluster.start()
    config.write_text("http.tls-client = required\n")
    with node.connect() as idle, node.connect() as used, node.connect() as stream:
        for connection in (idle, used):
            assert connection.request("GET", "/livez").status == 200
        stream.sock.sendall(b"GET /api/live HTTP/1.1\r\nHost: leafd\r\n\r\n")
        assert stream.sock.recv(1000).startswith(b"HTTP/1.1 200 ")
        before_reload = len(node.log())
        node.process.send_signal(signal.SIGHUP)
        node.wait_log('msg="reloaded"', start=before_reload)
        for connection in (used, idle):
            with pytest.raises(ConnectionLost):
                connection.request("PUT", "/api/tags/late", {})
        came = b""
        while not came.endswith(b"0\r\n\r\n"):
            came = came[-10:] + stream.sock.recv(10000)
    with pytest.raises(OSError):
        node.get("/livez")
    node.tls = authority.client(shown)
    assert node.get("/api/tags/late").status == 404
    assert node.get("/livez").status == 200


def test_reload_that_is_refused(start, authority):
    """Files that do not fit each other change nothing, and the next good ones do."""
    node = start().nodes[0]
    with node.connect() as connection:
        before = serial(connection)
    node.expect_log("the reload was refused")
    _, key = authority.pair("server")
    with open(key, encoding="ascii") as file:
        good = file.read()
    other = authority.issue("other")[1]
    os.replace(other, key)
    reload(node, "the reload was refused.*certificate.*server/tls.key: is not the key of the")
    with node.connect() as connection:
        assert serial(connection) == before
    with open(key, "w", encoding="ascii") as file:
        file.write(good)
    reload(node, 'msg="reloaded"')
    authority.issue("server")
    reload(node, 'msg="reloaded"')
    with node.connect() as connection:
        assert serial(connection) != before


# --- ends ---


def test_drain(start, tag):
    """A node that stops says so to its idle connections, by close_notify."""
    node = start().nodes[0]
    connection = node.connect()
    assert connection.request("GET", "/livez").status == 200
    node.leaving()
    node.process.send_signal(signal.SIGTERM)
    assert connection.sock.recv(100) == b""  # Python's ssl raises where there is no close_notify
    assert node.wait_exit() == 0


def resident(node):
    """KiB."""
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


@pytest.mark.alone
def test_what_an_idle_connection_costs(start):
    """Beyond those whose buffers are kept, and while all of them are there: one that was closed
    meanwhile costs nothing."""
    node = start(**{"http-loops": 1}).nodes[0]
    connections = []

    def more(count):
        for _ in range(count):
            connections.append(node.connect())
            assert connections[-1].request("GET", "/livez").status == 200
        return resident(node)

    try:
        first = more(400)
        assert more(800) - first < 800 * IDLE_KIB
        for connection in connections:
            assert connection.request("GET", "/livez").status == 200
    finally:
        for connection in connections:
            connection.close()


def test_half_hellos(start, authority):
    """Two thousand clients stall in the midst of their hello: others are served, memory stays."""
    node = start().nodes[0]
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()

    assert node.get("/livez").status == 200
    before = resident(node)
    stalled = []
    try:
        for _ in range(2000):
            stalled.append(socket.create_connection(node.address, timeout=30))
            stalled[-1].sendall(hello[: len(hello) // 2])
        for _ in range(20):
            assert node.get("/livez").status == 200
        assert resident(node) - before < 2000 * 8
        # Then the whole of it: so many are held, the oldest give way, and others are served still.
        for sock in stalled:
            try:
                sock.sendall(hello[len(hello) // 2 :])
            except OSError:
                pass
        for _ in range(20):
            assert node.get("/livez").status == 200
        assert resident(node) - before < 2000 * 8 + 2 * 256 * 60
    finally:
        for sock in stalled:
            sock.close()
    wait_until(lambda: node.get("/livez").status == 200, 10, "an answer")


# --- scanners ---


@pytest.mark.bound(120)
def test_sslscan_finds_nothing(start, authority):
    node = start().nodes[0]
    told = run("sslscan", "--no-colour", f"localhost:{node.http_port}").stdout
    for line in ("SSLv2 disabled", "SSLv3 disabled", "TLSv1.0 disabled", "TLSv1.1 disabled",
                 "TLSv1.2 enabled", "TLSv1.3 enabled", "Server supports TLS Fallback SCSV",
                 "Session renegotiation not supported", "TLSv1.3 not vulnerable to heartbleed",
                 "TLSv1.2 not vulnerable to heartbleed"):
        assert line in " ".join(told.split()), told
    ciphers = [line.split() for line in told.splitlines()
               if line.startswith(("Accepted", "Preferred"))]
    assert len(ciphers) >= 4
    for cipher in ciphers:
        assert cipher[1] in ("TLSv1.2", "TLSv1.3") and int(cipher[2]) >= 128, told
        assert cipher[1] == "TLSv1.3" or cipher[4].startswith("ECDHE-"), told
        assert "CBC" not in cipher[4] and ("GCM" in cipher[4] or "CHACHA20" in cipher[4]), told


@pytest.mark.bound(900)
def test_testssl_finds_nothing(start, authority, tmp_path):
    """Protocols, forward secrecy and known holes; what is above "INFO" would be a finding."""
    node = start().nodes[0]
    found = tmp_path / "found.csv"
    run("testssl", "--color", "0", "--warnings", "off", "--add-ca", authority.pem, "-p", "-f", "-U",
        "--csvfile", found, f"localhost:{node.http_port}", timeout=900)
    lines = [line.split('","') for line in found.read_text("utf-8").splitlines()[1:]]
    assert len(lines) > 20, lines
    # What it says of itself: that its own openssl lacks what it would try next.
    lines = [line for line in lines if line[0].strip('"') != "engine_problem"]
    bad = [line for line in lines if line[3] not in ("OK", "INFO")]
    assert not bad, bad
