"""A member of a test, over a real link: it knows the secret, proves an id, and says what it likes.

The frames are those of raft/wire/wire.h, the handshake that of raft/transport/handshake.h, all of
it inside TLS (peer_tls.py). And a term that is on disk already: the record of it in a data file,
written anew with its checksum.
"""

import os
import socket
import struct

from peer_tls import PeerTls, read_secret

PROTOCOL = 5
HELLO, CHALLENGE, PROOF, WELCOME, REJECT = 1, 2, 3, 4, 5
FRAME_RAFT = 16
REQUEST_VOTE = 3
REJECT_IMPLAUSIBLE = 10

def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table

CRC_TABLE = _table()

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF

def text16(data):
    return struct.pack("<H", len(data)) + data

class Liar:
    """A link to `victim` in the name of the node with this id and store."""

    def __init__(self, cluster, victim, node_id, store_id, statement):
        secret = read_secret(cluster.secret_file)
        self.sock = socket.create_connection(("127.0.0.1", victim.peer_port), timeout=5)
        self.tls = PeerTls(self.sock, secret, "leafd", node_id, victim.id)
        self.answer, self.reason = self.shake_hands(victim.id, node_id, store_id, statement)

    def close(self):
        self.tls.close()
        self.sock.close()

    def send(self, kind, payload):
        checked = struct.pack("<BBH", 1, kind, 0) + payload
        self.tls.send(struct.pack("<II", len(checked), crc32c(checked)) + checked)

    def receive(self):
        head = self.tls.receive(8)
        if len(head) < 8:
            return None, b""
        checked = self.tls.receive(struct.unpack("<II", head)[0])
        return checked[1], checked[4:]

    def shake_hands(self, victim_id, node_id, store_id, statement):
        name = b"leafd"
        protocol = struct.pack("<H", PROTOCOL)
        levels = struct.pack("<HH", 1, 99)  # as if it spoke any
        hello = protocol + levels + text16(name)
        self.send(HELLO, hello + struct.pack("<QQQ", node_id, victim_id, store_id))
        kind, challenge = self.receive()
        assert kind == CHALLENGE, (kind, challenge)
        at = 2 + 4 + 2 + len(name)
        self.victim_store = struct.unpack_from("<Q", challenge, at + 8)[0]
        self.send(PROOF, statement)
        kind, payload = self.receive()
        reason = struct.unpack_from("<H", payload)[0] if kind == REJECT else None
        return kind, reason

    def is_closed(self):
        """The other side has closed the link (or does so within some seconds)."""
        return self.tls.receive(1) == b""

def statement(life=0, term=0, index=0):
    """What a dialler says of its start; life counts the starts. Of its cluster it has heard
    nothing, as one that has just joined; and it does not say where it is."""
    last_term = min(term, 1) if index else 0
    fixed = struct.pack("<BQQQQIQQQ", 1, life << 32, term, index, 0, 0, 0, 0, 0)
    return fixed + struct.pack("<HQQI", 0, 0, last_term, 0)

def vote_request(candidate, term, last_index, last_term):
    """48 bytes, as they were injected."""
    head = struct.pack("<BBQQQQBB", REQUEST_VOTE, 2, term, candidate, last_index, last_term, 1, 0)
    return head

def store_id_of(cluster, node, as_id):
    """It tells everybody who dials."""
    liar = Liar(cluster, node, as_id, 0, b"")
    liar.close()
    return liar.victim_store

def put_term_on_disk(node, term):
    """Write the term into the record of a data file, with its checksum; the process must be gone.
    Returns how many copies of the record there were."""
    path = os.path.join(node.data_dir, "db", "data.mdb")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    found = 0
    at = data.find(b"now", 8)
    while at >= 0:
        # Before the key LMDB's size of the value; in it a checksum, the transaction, the term.
        size = struct.unpack_from("<I", data, at - 8)[0]
        stored = struct.unpack_from("<I", data, at + 3)[0]
        record = data[at + 7 : at + 3 + size] if size < 4096 else b""
        if len(record) >= 16 and crc32c(b"mnow" + record) == stored:
            struct.pack_into("<Q", record, 8, term)
            struct.pack_into("<I", data, at + 3, crc32c(b"mnow" + record))
            data[at + 7 : at + 3 + size] = record
            found += 1
        at = data.find(b"now", at + 1)
    with open(path, "wb") as file:
        file.write(data)
    return found
