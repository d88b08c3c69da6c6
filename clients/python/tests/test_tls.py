"""TLS of both clients: who signs, and for which name."""
import asyncio
import ssl
import subprocess

import fake
import leafd.aio
import pytest


class Secure(fake.Node):
    """A node that speaks TLS alone."""

    def __init__(self, cluster, context):
        self.context = context
        super().__init__(cluster)
        self.url = f"https://127.0.0.1:{self.port}"

    def wrap(self, sock):
        return self.context.wrap_socket(sock, server_side=True)


def authority(folder, name):
    """(certificate of an authority, context of a server for 127.0.0.1 that it signed)"""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            "/CN=node", "-keyout", f"{name}-node.key", "-out", f"{name}-node.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-days", "2", "-in", f"{name}-node.csr", "-CA", f"{name}.pem", "-CAkey",
            f"{name}.key", "-set_serial", "7", "-extfile", "names", "-out", f"{name}-node.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}-node.pem", folder / f"{name}-node.key")
    return str(folder / f"{name}.pem"), context


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture
def secure(ours):
    with fake.Cluster(0) as cluster:
        cluster.nodes.append(Secure(cluster, ours[1]))
        yield cluster


def threads(urls, **settings):
    with leafd.Client(urls, **settings) as client:
        strict = client.strict("invoice")
        return [strict.next(deadline_ms=1500) for _ in range(3)]


def loop(urls, **settings):
    async def work():
        async with leafd.aio.Client(urls, **settings) as client:
            strict = client.strict("invoice")
            return [await strict.next(deadline_ms=1500) for _ in range(3)]

    return asyncio.run(work())


@pytest.mark.parametrize("ask", [threads, loop])
def test_who_signs_and_for_which_name(secure, ours, stranger, ask):
    assert ask(secure.urls, ca_file=ours[0]) == [1, 2, 3]
    assert secure.nodes[0].connections == 1
    elsewhere = [url.replace("127.0.0.1", "localhost") for url in secure.urls]
    for urls, ca_file in ((secure.urls, stranger[0]), (secure.urls, None), (elsewhere, ours[0])):
        with pytest.raises(leafd.LeafdError) as caught:
            ask(urls, ca_file=ca_file)
        assert caught.value.code == "untrusted"
        assert "certificate verify failed" in caught.value.message
    assert len(secure.log) == 3


@pytest.mark.parametrize("ask", [threads, loop])
def test_plain_http_where_tls_is_spoken_and_the_other_way_round(secure, cluster, ours, ask):
    for urls in ([secure.urls[0].replace("https", "http")],
                 [cluster.urls[0].replace("http", "https")]):
        with pytest.raises(leafd.LeafdError) as caught:
            ask(urls, ca_file=ours[0])
        assert caught.value.code in ("unreachable", "bad_answer")
    assert not secure.log and not cluster.log
