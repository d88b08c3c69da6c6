"""The keys between nodes (docs/operations.md, docs/replication.md): secrets and certificates that
are exchanged on running nodes, bytes changed on their way, and those who have no secret."""

import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import threading

import pytest

from checker import History
from cluster import STEADY, write_secret
from liar import HELLO, crc32c, text16
from load import mixed_load, wait_taken
from node import leafd_path
from peer_tls import PeerTls, read_secret
from wait import wait_until

RENEWED = r"other keys between nodes, (\d+) links to renew"


def give(node, text):
    """Its own file has these secrets now; SIGHUP, and it has taken them."""
    size = len(node.log())
    os.unlink(node.settings["cluster-secret-file"])
    write_secret(node.settings["cluster-secret-file"], text)
    node.process.send_signal(signal.SIGHUP)
    node.wait_log(RENEWED, start=size)


def own_secret_files(cluster):
    for node in cluster.nodes:
        path = os.path.join(cluster.directory, f"secret-{node.id}")
        with open(cluster.secret_file, encoding="ascii") as file:
            write_secret(path, file.read())
        node.settings["cluster-secret-file"] = path


def speaks_with(node, secret):
    """Does its port take this secret?"""
    with socket.create_connection(("127.0.0.1", node.peer_port), timeout=5) as sock:
        try:
            PeerTls(sock, bytes.fromhex(secret), "leafd", 9, node.id).close()
        except ConnectionError:
            return False
    return True


def links_up(cluster):
    """The leader reaches all; a link that has other keys now may be dialled anew."""

    def all_up():
        members = cluster.leader().cluster_status()["members"]
        assert all(m["reachable"] for m in members), members
        return True

    wait_until(all_up, 10, "all members are reached")


@pytest.mark.quiet
# Shows P7-keys.
def test_a_secret_is_exchanged_under_load(make_cluster, tag):
    """New and old in all files, then the new one alone: no request fails, nobody is elected."""
    cluster = make_cluster(start=False, settings=STEADY)
    own_secret_files(cluster)
    cluster.start()
    cluster.create_tag(tag)
    term = cluster.leader().cluster_status()["term"]
    old, new = read_secret(cluster.secret_file).hex(), secrets.token_hex(32)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 5_000)
        for text in (f"{new}\n{old}\n", f"{new}\n"):
            for node in cluster.nodes:
                give(node, text)
                assert speaks_with(node, new)
                wait_taken(load, 2_000)
        # Those of the old one are gone within 10 s, and nobody takes it any more.
        wait_until(
            lambda: all(
                len(re.findall("reason=.its secret was exchanged", node.log())) >= 2
                for node in cluster.nodes
            ),
            25,
            "the links of the old secret are closed",
        )
        wait_taken(load, 5_000)
        load.finish()
    for node in cluster.nodes:
        assert not speaks_with(node, old) and speaks_with(node, new)
    assert cluster.leader().cluster_status()["term"] == term, "the exchange caused an election"
    links_up(cluster)


# Shows P7-keys.
def test_a_bad_secret_changes_nothing(make_cluster):
    cluster = make_cluster(start=False)
    own_secret_files(cluster)
    cluster.start()
    node = cluster.nodes[0]
    old = read_secret(cluster.secret_file).hex()
    for text, why in (("00" * 32, "is not random"), ("a passphrase", "32 random bytes")):
        size = len(node.log())
        node.expect_log("the reload was refused")
        os.unlink(node.settings["cluster-secret-file"])
        write_secret(node.settings["cluster-secret-file"], text)
        node.process.send_signal(signal.SIGHUP)
        node.wait_log(f"the reload was refused.*{why}.*leafd --new-secret", start=size)
    assert speaks_with(node, old)
    links_up(cluster)


def test_new_secret_is_one(make_cluster):
    command = [leafd_path(), "--new-secret"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    cluster = make_cluster(start=False)
    os.unlink(cluster.secret_file)
    write_secret(cluster.secret_file, made.stdout)
    cluster.start()
    links_up(cluster)


# --- the wire ---


def old_hello(node):
    """A HELLO without TLS."""
    hello = struct.pack("<HHH", 3, 1, 2) + text16(b"leafd")
    return hello + struct.pack("<QQQ", 9, node.id, 77) + bytes(32)


def frame(kind, payload):
    checked = struct.pack("<BBH", 1, kind, 0) + payload
    return struct.pack("<II", len(checked), crc32c(checked)) + checked


# Shows P7-peer-bytes.
def test_a_stranger_gets_nothing_that_the_secret_made(make_cluster):
    """Number 15: an unauthenticated HELLO was answered with an HMAC."""
    cluster = make_cluster()
    for node in cluster.nodes:
        with socket.create_connection(("127.0.0.1", node.peer_port), timeout=5) as sock:
            sock.sendall(frame(HELLO, old_hello(node)))
            sock.settimeout(10)
            answer = b""
            while data := sock.recv(4096):
                answer += data
        # TLS's own alert, and no word more
        assert answer == b"" or (answer[:2] == b"\x15\x03" and len(answer) == 7), answer
        assert not speaks_with(node, secrets.token_hex(32))


class Meddler:
    """Between nodes: counts what passes, and changes one bit where it is told to."""

    def __init__(self, proxies):
        self.lock = threading.Lock()
        self.armed = 0
        self.changed = 0
        proxies.change = self.change

    def change(self, data):
        with self.lock:
            if self.armed == 0 or len(data) < 64:
                return data
            self.armed -= 1
            self.changed += 1
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.quiet
# Shows P7-peer-bytes.
def test_bits_that_are_changed_on_their_way(make_cluster, proxies, tag):
    """Number 5: a forwarded PUT and AppendEntries that were rewritten in flight were committed. Now
    the link closes, the node dials anew, and nobody sees anything but what was asked for."""
    cluster = make_cluster(start=False, proxies=proxies)
    meddler = Meddler(proxies)
    cluster.start()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    for number in range(20):
        meddler.armed = 1
        wanted = 1_000_000 + number
        answer = node.http("PUT", f"/api/tags/{tag}.{number}", {"max_id": wanted})
        assert answer.status in (200, 201, 503, 504), answer
        wait_until(
            lambda: node.http("PUT", f"/api/tags/{tag}.{number}", {"max_id": wanted}).status
            in (200, 201),
            20,
            "the link is there again",
        )
        for other in cluster.nodes:
            row = other.get_json(f"/api/tags/{tag}.{number}")
            assert int(row["max_id"]) == wanted, row
    assert meddler.changed == 20
    forged = "a record that was changed on its way"
    assert sum(len(re.findall(forged, n.log())) for n in cluster.nodes) > 0
    cluster.wait_applied()


# --- certificates ---


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], capture_output=True, check=True)


def authority(directory, name):
    key, cert = (os.path.join(directory, f"{name}.{end}") for end in ("key", "pem"))
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", cert, "-subj", f"/CN={name}", "-days", "2")  # fmt: skip
    return key, cert


def certify(directory, node, signer, name=None, days=2):
    """A certificate for a node, by an authority."""
    base = os.path.join(directory, f"node-{node.id}", "tls")
    os.makedirs(os.path.dirname(base), exist_ok=True)
    name = name or f"leafd:leafd/{node.id}"
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", base + ".key", "-out", base + ".csr", "-subj", "/CN=node")  # fmt: skip
    with open(base + ".ext", "w", encoding="ascii") as file:
        file.write(f"subjectAltName=URI:{name}\n")
    openssl("x509", "-req", "-in", base + ".csr", "-CA", signer[1], "-CAkey", signer[0],
            "-CAcreateserial", "-days", str(days), "-extfile", base + ".ext",
            "-out", base + ".crt")  # fmt: skip
    os.chmod(base + ".key", 0o600)
    return {"peer-tls-dir": os.path.dirname(base)}


def with_certificates(cluster):
    signer = authority(cluster.directory, "authority")  # one file, for all nodes
    for node in cluster.nodes:
        node.settings["cluster-secret-file"] = ""
        node.settings.update(certify(cluster.directory, node, signer))
        os.symlink(signer[1], os.path.join(node.settings["peer-tls-dir"], "ca.crt"))
    return signer


# Shows P7-keys.
def test_certificates_and_their_exchange(make_cluster, tag):
    """Without a secret; a node's certificate is exchanged without a word, and the authority with a
    file that holds both for a while."""
    cluster = make_cluster(start=False)
    _, ca = with_certificates(cluster)
    cluster.start()
    cluster.create_tag(tag)
    links_up(cluster)
    newer = authority(cluster.directory, "newer")
    with open(newer[1], encoding="ascii") as file:
        both = file.read()
    with open(ca, "a", encoding="ascii") as file:
        file.write(both)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for step in (lambda node: None, lambda node: certify(cluster.directory, node, newer)):
            for node in cluster.nodes:
                step(node)
                size = len(node.log())
                node.process.send_signal(signal.SIGHUP)
                node.wait_log(RENEWED, start=size)
                wait_taken(load, 2_000)
        load.finish()
    links_up(cluster)
    cluster.nodes[0].restart()
    links_up(cluster)


# Shows P7-keys.
def test_a_certificate_of_another_node(make_cluster):
    """It is refused with both ids, at the start and by a reload, which leaves the old one in force;
    and so is one of another cluster."""
    cluster = make_cluster(start=False)
    signer = with_certificates(cluster)
    odd = cluster.nodes[2]
    for name, says in (("leafd:leafd/1", "certificate is of node 1, and node.id is 3"),
                       ("leafd:other/3", "URI:leafd:leafd/<node id>")):
        certify(cluster.directory, odd, signer, name)
        odd.expect_log(says)
        odd.start()
        assert odd.wait_exit() == 64
        assert says in odd.log_tail()
    certify(cluster.directory, odd, signer)
    cluster.start()
    links_up(cluster)
    certify(cluster.directory, odd, signer, "leafd:leafd/1")
    odd.process.send_signal(signal.SIGHUP)
    odd.wait_log("the reload was refused.*certificate is of node 1")
    links_up(cluster)


def test_the_end_of_a_certificate_is_told_before(make_cluster):
    """Open links outlive it, so nobody would see it before the next restart. A longer one that is
    read by SIGHUP ends the alarm."""
    cluster = make_cluster(1, start=False)
    signer = with_certificates(cluster)
    node = cluster.start().nodes[0]

    def told():
        status = node.get_json("/api/status")
        assert [certificate["what"] for certificate in status["certificates"]] == ["peer.tls-dir"]
        return [alarm["text"] for alarm in status["alarms"]
                if alarm["name"] == "LeafdCertificateEnds"]

    wait_until(told, 30, "an alarm")
    assert told()[0].startswith("the certificate of node 1 for other nodes ends in ")
    certify(cluster.directory, node, signer, days=90)
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not told(), 30, "its end")
    assert 'leafd_certificate_end_timestamp_seconds{what="peer.tls-dir"} ' in (
        node.get("/metrics").body.decode())
