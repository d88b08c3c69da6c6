"""Tokens and TLS: whom a client trusts, and what its token may do."""

import pytest

from fake import http, server_tls


@pytest.fixture
def open_locked(start, locked):
    def make(token="ids", **settings):
        settings = {"endpoints": locked.url, "ca_file": locked.authority.pem, "deadline_ms": 5000,
                    "token": locked.tokens.tokens.get(token, token), **settings}
        return start().open(**settings)

    return make


def test_every_call(open_locked):
    client = open_locked(deadline_ms=5000)
    assert client.ids("segment orders 300").count() == 300
    assert client.ids("range orders 10").count() == 10
    assert client.ids("strict numbers 2").count() == 2
    assert client.ids("snowflake 10").count() == 10
    assert client.ask("close") == "ok"


EVERY_KIND = ("segment orders 1", "range orders 1", "strict numbers 1", "snowflake 1")
LONG_MS = 60000  # a deadline that no test waits for


def refused_at_once(client, line):
    failed = client.refused(line, "untrusted", timeout=30)
    assert failed.status == 0
    return failed


def test_another_authority(open_locked, locked):
    """No certificate that it has not signed is taken, nothing is said to such a server, and the
    caller hears of it long before its deadline."""
    client = open_locked(ca_file=locked.stranger.pem, deadline_ms=LONG_MS)
    for line in EVERY_KIND:
        failed = refused_at_once(client, line)
        assert locked.url in failed.message
        assert locked.tokens.tokens["ids"] not in failed.message


def test_one_of_two_is_trusted(open_locked, locked, fake):
    certificate = locked.stranger.issue("strange", "IP:127.0.0.1")
    server = fake(lambda request: http(200, f"1 {request.count}\n"), server_tls(certificate))
    while not server.connections:  # which is the first one is drawn by chance
        client = open_locked(endpoints=f"{locked.url},{server.url}")
        assert client.ids("segment orders 1").count() == 1
        assert client.ids("strict numbers 1").count() == 1
        client.kill()
    assert not server.requests, "something was said to it"


def test_the_system_s_authorities(open_locked):
    refused_at_once(open_locked(ca_file=None, deadline_ms=LONG_MS), "strict numbers 1")


def test_a_certificate_of_another_name(open_locked, locked, fake):
    certificate = locked.authority.issue("other", "DNS:other.example,IP:10.9.8.7")
    server = fake(lambda request: http(200, f"1 {request.count}\n"), server_tls(certificate))
    client = open_locked(endpoints=server.url, deadline_ms=LONG_MS)
    for line in EVERY_KIND:
        refused_at_once(client, line)
    assert not server.requests, "something was said to it"


def test_a_certificate_that_is_right(open_locked, locked, fake):
    """So the one before is refused for its name alone."""
    certificate = locked.authority.issue("right", "IP:127.0.0.1")
    server = fake(lambda request: http(200, f"1 {request.count}\n"), server_tls(certificate))
    assert open_locked(endpoints=server.url).ids("strict numbers 1") == [(1, 1)]


def test_a_certificate_that_has_ended(open_locked, locked, fake):
    certificate = locked.authority.issue("ended", "IP:127.0.0.1", days=-1)
    server = fake(lambda request: http(200, f"1 {request.count}\n"), server_tls(certificate))
    refused_at_once(open_locked(endpoints=server.url, deadline_ms=LONG_MS), "strict numbers 1")
    assert not server.requests


def test_plain_http_where_tls_is_spoken(open_locked, locked):
    url = locked.url.replace("https://", "http://")
    assert open_locked(endpoints=url).refused("strict numbers 1", "tls_required").status == 400


def test_tls_where_plain_http_is_spoken(open_locked, fake):
    server = fake(lambda request: http(200, "1 1\n"))
    open_locked(endpoints=server.url.replace("http:", "https:"), deadline_ms=400).refused(
        "strict numbers 1", "unreachable")
    assert not server.requests


def test_what_a_token_may_not_do(open_locked):
    assert open_locked("reader").refused("segment orders 1", "forbidden").status == 403
    assert open_locked("reader").refused("snowflake 1", "forbidden").status == 403
    client = open_locked("shop")
    assert client.refused("strict numbers 1", "forbidden_tag").status == 403
    assert client.ids("segment shop/orders 5").count() == 5
    assert client.refused("snowflake 1", "forbidden").status == 403


def test_no_token(open_locked):
    client = open_locked(token=None)
    assert client.refused("segment orders 1", "unauthorized").status == 401
    unknown = "x" * 43
    failed = open_locked(unknown).refused("strict numbers 1", "unauthorized")
    assert failed.status == 401 and unknown not in failed.message


def test_a_token_that_breaks_its_rule(start, locked):
    """Whatever could begin another header."""
    client = start()
    client.refused(f"open endpoints={locked.url} token=a\tb", "bad_setting")
