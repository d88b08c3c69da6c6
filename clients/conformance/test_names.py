"""An endpoint whose name has several addresses stands for as many nodes (docs/clients.md, Nodes and
retries). The driver sees a file of hosts of the test's own, by a mount that nobody else sees."""

import subprocess

import pytest

from certificates import Authority
from driver import check_once
from fake import Granter, error, server_tls

pytestmark = pytest.mark.inside

NAME = "leafd.test"
MOUNT = ["unshare", "-m", "--propagation", "private", "sh", "-c",
         'mount --bind "$0" /etc/hosts && exec "$@"']


@pytest.fixture(name="hosts")
def hosts_fixture(tmp_path):
    """say(address, ...): these are the addresses of NAME from now on; then the prefix."""
    path = tmp_path / "hosts"

    def say(*addresses):
        path.write_text("".join(f"{address} {NAME}\n" for address in addresses), encoding="ascii")
        return [*MOUNT, str(path)]

    if subprocess.run([*say("127.0.0.1"), "true"], check=False).returncode != 0:
        pytest.skip("a mount of its own needs root")
    return say


class Nodes:
    """Three nodes at one port of 127.0.0.2 to 127.0.0.4."""

    def __init__(self, fake, tls=None):
        self.granter = Granter()
        self.refusing = set()
        self.servers = [fake(self.handler(0), tls, host="127.0.0.2")]
        self.servers += [fake(self.handler(i), tls, host=f"127.0.0.{i + 2}",
                              port=self.servers[0].port) for i in (1, 2)]
        self.url = f"{self.servers[0].url.partition('//')[0]}//{NAME}:{self.servers[0].port}"

    def handler(self, number):
        node = self.granter.node()

        def answer(request):
            if number in self.refusing:
                return error(503, "no_leader", "there is none")
            return node(request)
        return answer

    def asked(self, number):
        return len(self.servers[number].requests)


@pytest.mark.parametrize("line", ["segment orders 50", "range orders 50", "strict orders 50"])
def test_each_address_is_a_node(start, fake, hosts, line):
    """Those that refuse are left for the one that does not, in one round."""
    nodes = Nodes(fake)
    client = start(prefix=hosts("127.0.0.2", "127.0.0.3", "127.0.0.4"))
    found = []
    for serving in range(3):
        nodes.refusing = {0, 1, 2} - {serving}
        before = nodes.asked(serving)
        client.open(endpoints=nodes.url, min_count=10)
        found.append(client.ids(line))
        assert nodes.asked(serving) > before
        # A second request, which a slow machine has it send, comes to those that refuse as well.
        assert client.stats()["failovers"] <= 2 + 3 * client.stats()["hedges"], client.stats()
    check_once(*found)
    seen = {request.headers["host"] for server in nodes.servers for request in server.requests}
    assert seen == {f"{NAME}:{nodes.servers[0].port}"}


def test_a_name_that_moves(start, fake, hosts):
    """After a round of failures the name is resolved anew."""
    nodes = Nodes(fake)
    client = start(prefix=hosts("127.0.0.2"))
    client.open(endpoints=nodes.url, min_count=10, max_count=10)
    found = [client.ids("strict1 orders 5")]
    assert nodes.asked(0) == 5
    nodes.refusing = {0}
    hosts("127.0.0.4", "127.0.0.3")
    found.append(client.ids("strict1 orders 5"))
    found.append(client.ids("segment orders 25"))
    assert nodes.asked(1) + nodes.asked(2) >= 5
    check_once(*found)


def test_the_certificate_is_the_names(start, fake, hosts, tmp_path):
    authority = Authority(tmp_path / "ca")
    right = authority.issue("right", f"DNS:{NAME}")
    wrong = authority.issue("wrong", "DNS:other.test,IP:127.0.0.2,IP:127.0.0.3")
    prefix = hosts("127.0.0.2", "127.0.0.3")
    nodes = Nodes(fake, server_tls(right))
    client = start(prefix=prefix)
    client.open(endpoints=nodes.url, ca_file=authority.pem)
    assert client.ids("strict1 orders 5") == [(1, 5)]
    nodes = Nodes(fake, server_tls(wrong))
    client.open(endpoints=nodes.url, ca_file=authority.pem)
    client.refused("strict orders 1", "untrusted")
