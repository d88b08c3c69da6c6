"""TLS 1.3 as nodes speak it among themselves (raft/transport/net_keys.h), for tests that play a
node: an external PSK made of the cluster's secret, with OpenSSL by ctypes, since Python's ssl
has no PSK.
"""

import base64
import ctypes
import hashlib
import hmac
import socket
import struct

SSL = ctypes.CDLL("libssl.so.3")
TLS_1_3 = 0x0304
SET_MIN_PROTOCOL, SET_MAX_PROTOCOL = 123, 124
VERIFY_PEER = 1

_pointer = ctypes.c_void_p
for _name, _result, _arguments in (
    ("TLS_client_method", _pointer, ()),
    ("SSL_CTX_new", _pointer, (_pointer,)),
    ("SSL_CTX_free", None, (_pointer,)),
    ("SSL_CTX_ctrl", ctypes.c_long, (_pointer, ctypes.c_int, ctypes.c_long, _pointer)),
    ("SSL_CTX_set_ciphersuites", ctypes.c_int, (_pointer, ctypes.c_char_p)),
    ("SSL_CTX_set_verify", None, (_pointer, ctypes.c_int, _pointer)),
    ("SSL_CTX_set_psk_use_session_callback", None, (_pointer, _pointer)),
    ("SSL_SESSION_new", _pointer, ()),
    ("SSL_SESSION_set1_master_key", ctypes.c_int, (_pointer, ctypes.c_char_p, ctypes.c_size_t)),
    ("SSL_SESSION_set_cipher", ctypes.c_int, (_pointer, _pointer)),
    ("SSL_SESSION_set_protocol_version", ctypes.c_int, (_pointer, ctypes.c_int)),
    ("SSL_CIPHER_find", _pointer, (_pointer, ctypes.c_char_p)),
    ("SSL_new", _pointer, (_pointer,)),
    ("SSL_free", None, (_pointer,)),
    ("SSL_set_fd", ctypes.c_int, (_pointer, ctypes.c_int)),
    ("SSL_connect", ctypes.c_int, (_pointer,)),
    ("SSL_write", ctypes.c_int, (_pointer, ctypes.c_char_p, ctypes.c_int)),
    ("SSL_read", ctypes.c_int, (_pointer, ctypes.c_char_p, ctypes.c_int)),
    ("SSL_session_reused", ctypes.c_int, (_pointer,)),
):
    getattr(SSL, _name).restype = _result
    getattr(SSL, _name).argtypes = _arguments

USE_SESSION = ctypes.CFUNCTYPE(
    ctypes.c_int,
    _pointer,
    _pointer,
    ctypes.POINTER(_pointer),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(_pointer),
)


def read_secret(path):
    """The first secret of a file."""
    with open(path, encoding="ascii") as file:
        text = file.read().split()[0]
    return bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text)


def hkdf(secret, salt, info, length):
    key = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()[:length]


def identity_of(secret, cluster, dialler, wanted):
    key_id = hkdf(secret, b"leafd 4 key id", b"", 8).hex()
    digest = hkdf(secret, b"leafd 4 cluster", cluster.encode(), 8).hex()
    return f"leafd4/{key_id}/{digest}/{dialler}/{wanted}".encode()


class PeerTls:
    """A dialler's end of a channel over a connected socket. ConnectionError: it was refused."""

    def __init__(self, sock, secret, cluster, dialler, wanted, identity=None):
        self.identity = identity or identity_of(secret, cluster, dialler, wanted)
        self.psk = hkdf(secret, b"leafd 4 psk", self.identity, 32)
        self.callback = USE_SESSION(self.use_session)
        self.ctx = SSL.SSL_CTX_new(SSL.TLS_client_method())
        for which in (SET_MIN_PROTOCOL, SET_MAX_PROTOCOL):
            assert SSL.SSL_CTX_ctrl(self.ctx, which, TLS_1_3, None) == 1
        assert SSL.SSL_CTX_set_ciphersuites(self.ctx, b"TLS_AES_128_GCM_SHA256") == 1
        SSL.SSL_CTX_set_verify(self.ctx, VERIFY_PEER, None)
        SSL.SSL_CTX_set_psk_use_session_callback(
            self.ctx, ctypes.cast(self.callback, ctypes.c_void_p)
        )
        self.ssl = SSL.SSL_new(self.ctx)
        # OpenSSL reads the socket itself; what Python's timeout would do, the system does.
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
        assert SSL.SSL_set_fd(self.ssl, sock.fileno()) == 1
        if SSL.SSL_connect(self.ssl) != 1 or SSL.SSL_session_reused(self.ssl) != 1:
            self.close()
            raise ConnectionError("the handshake failed")

    def use_session(self, ssl, _digest, identity, length, session):
        made = SSL.SSL_SESSION_new()
        assert SSL.SSL_SESSION_set1_master_key(made, self.psk, len(self.psk)) == 1
        assert SSL.SSL_SESSION_set_cipher(made, SSL.SSL_CIPHER_find(ssl, b"\x13\x01")) == 1
        assert SSL.SSL_SESSION_set_protocol_version(made, TLS_1_3) == 1
        identity[0] = ctypes.cast(ctypes.c_char_p(self.identity), ctypes.c_void_p)
        length[0] = len(self.identity)
        session[0] = made
        return 1

    def close(self):
        if self.ssl:
            SSL.SSL_free(self.ssl)
            SSL.SSL_CTX_free(self.ctx)
            self.ssl = self.ctx = None

    def send(self, data):
        if SSL.SSL_write(self.ssl, data, len(data)) != len(data):
            raise ConnectionError("the link is closed")

    def receive(self, length):
        """So many bytes; fewer where the link ends or says nothing for 5 s."""
        data = b""
        room = ctypes.create_string_buffer(length)
        while len(data) < length:
            got = SSL.SSL_read(self.ssl, room, length - len(data))
            if got <= 0:
                break
            data += room.raw[:got]
        return data
