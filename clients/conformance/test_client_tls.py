"""Tokens and TLS: whom a client trusts, and what its token may do."""

import os
import ssl
import time

import pytest

from driver import OVER_LIBLEAFD, Failed
from fake import Granter, http, server_tls
from node import ROOT
from wait import wait_until


@pytest.fixture
def open_locked(start, locked):
    def make(token="ids", **settings):
        settings = {"endpoints": locked.url, "ca_file": locked.authority.pem,
                    "token": locked.tokens.tokens.get(token, token), **settings}
        return start().open(**settings)

    return make


def test_every_call(open_locked):
    client = open_locked()
    assert client.ids("segment orders 300").count() == 300
    assert client.ids("range orders 10").count() == 10
    assert client.ids("strict numbers 2").count() == 2
    assert client.ids("snowflake 10").count() == 10
    assert client.ask("close") == "ok"


EVERY_KIND = ("segment orders 1", "range orders 1", "strict numbers 1", "snowflake 1")


def refused_at_once(client, line):
    failed = client.refused(line, "untrusted", timeout=30)
    assert failed.status == 0
    return failed


def test_another_authority(open_locked, locked):
    """No certificate that it has not signed is taken, nothing is said to such a server, and the
    caller hears of it long before its deadline."""
    client = open_locked(ca_file=locked.stranger.pem)
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
    refused_at_once(open_locked(ca_file=None), "strict numbers 1")


def test_a_certificate_of_another_name(open_locked, locked, fake):
    certificate = locked.authority.issue("other", "DNS:other.example,IP:10.9.8.7")
    server = fake(lambda request: http(200, f"1 {request.count}\n"), server_tls(certificate))
    client = open_locked(endpoints=server.url)
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
    refused_at_once(open_locked(endpoints=server.url), "strict numbers 1")
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


# --- what is not written into the program ---


@pytest.fixture
def seen(fake):
    """A node that gives any ids, and what was sent in Authorization."""
    server = fake(Granter().node())
    server.tokens = lambda: [request.headers.get("authorization") for request in server.requests]
    return server


def test_settings_of_the_environment(start, locked, tmp_path):
    (tmp_path / "token").write_text(locked.tokens.tokens["ids"] + "\n")
    client = start(env={"LEAFD_ENDPOINTS": locked.url, "LEAFD_CA_FILE": locked.authority.pem,
                        "LEAFD_TOKEN_FILE": str(tmp_path / "token")}).open()
    assert client.ids("segment orders 10").count() == 10
    assert client.ids("strict numbers 1").count() == 1


def test_the_environment_says_nothing_of_a_cluster_that_the_program_names(start, seen):
    """A token goes to no other cluster than the one that it is for."""
    client = start(env={"LEAFD_ENDPOINTS": "http://127.0.0.1:1", "LEAFD_TOKEN": "secret",
                        "LEAFD_CA_FILE": "/nowhere"}).open(endpoints=seen.url)
    client.ids("strict orders 1")
    assert seen.tokens() == [None]
    error = start(env={"LEAFD_TOKEN": "secret"}).refused("open", "bad_setting")
    assert "LEAFD_ENDPOINTS" in error.message and "secret" not in error.message


def test_a_file_of_the_token_that_changes(start, seen, tmp_path):
    """The new token is sent a second after it was written, and nothing else is ever sent."""
    file = tmp_path / "token"
    file.write_text("first\n")
    client = start().open(endpoints=seen.url, token_file=file)
    client.ids("strict orders 1")
    assert seen.tokens() == ["Bearer first"]

    def sends(token):
        client.ids("strict orders 1")
        return seen.tokens()[-1] == f"Bearer {token}"

    for text, token in (("", "first"), ("two words", "first"), ("second\n", "second")):
        other = tmp_path / "other"
        other.write_text(text)
        other.replace(file)
        until = time.monotonic() + 1.5
        wait_until(lambda: sends(token) and time.monotonic() > until, 30, f"{token} is sent")
    file.unlink()
    client.ids("strict orders 1")
    assert set(seen.tokens()) == {"Bearer first", "Bearer second"}


@pytest.mark.parametrize("settings", [
    {"token_file": "/nowhere/token"}, {"token_file": "/dev/null"},
    {"token_file": __file__}, {"token_file": __file__, "token": "secret"},
    {"cert_file": __file__, "key_file": __file__},
    {"cert_file": "/nowhere", "key_file": "/nowhere"},
])
def test_files_that_break_their_rule(start, locked, language, settings):
    """Refused when the client is made; by C's library, where it is libcurl that reads certificates,
    at the first call."""
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    client = start()
    answer = client.ask_any(f"open endpoints={locked.url} {words}")
    if answer == "ok" and language in OVER_LIBLEAFD and settings.get("cert_file") == __file__:
        answer = client.ask_any("strict orders 1")
    with pytest.raises(Failed) as caught:
        client.judge(answer)
    error = caught.value
    assert error.code == "bad_setting"
    assert "_file" in error.message and "secret" not in error.message


def test_a_certificate_of_the_client_s_own(start, locked, fake):
    """A server that asks for one gets it."""
    context = server_tls(locked.authority.issue("asks", "IP:127.0.0.1"))
    context.load_verify_locations(locked.authority.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    server = fake(lambda request: http(200, f"1 {request.count}\n"), context)
    own, key = locked.authority.issue("program", "DNS:program", use="clientAuth")
    trust = {"endpoints": server.url, "ca_file": locked.authority.pem}
    start().open(**trust, deadline_ms=400).refused("strict orders 1", "unreachable")
    assert not server.requests
    client = start().open(**trust, cert_file=own, key_file=key)
    assert client.ids("strict orders 1") == [(1, 1)]
    assert client.ids("segment orders 1").count() == 1


def test_files_of_certificates_that_change(start, locked, fake, tmp_path):
    """Those who are trusted, and the certificate of the client's own, count anew once their files
    have changed; files that do not fit together change nothing."""
    context = server_tls(locked.authority.issue("asks", "IP:127.0.0.1"))
    context.load_verify_locations(locked.stranger.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    server = fake(lambda request: http(200, f"1 {request.count}\n"), context)
    ca, own, key = (tmp_path / name for name in ("ca", "own", "key"))

    def put(file, source):
        other = tmp_path / "other"
        other.write_bytes(open(source, "rb").read())
        other.chmod(0o600)
        other.replace(file)

    def put_pair(authority):
        for file, source in zip((key, own), authority.issue("program", "DNS:program",
                                                            use="clientAuth")[::-1]):
            put(file, source)

    put(ca, locked.stranger.pem)
    put_pair(locked.authority)
    client = start().open(endpoints=server.url, ca_file=ca, cert_file=own, key_file=key)

    def answer():
        return client.ask_any("strict orders 1 deadline_ms=1000")

    assert answer().startswith("error untrusted ")
    put(ca, locked.authority.pem)
    wait_until(lambda: answer().startswith("error unreachable "), 30, "the server is trusted")
    put(key, locked.stranger.issue("another", "DNS:program", use="clientAuth")[1])
    until = time.monotonic() + 1.5
    # libleafd has no earlier pair: libcurl reads the files at each connection.
    failures = ("error unreachable ", "error bad_setting ")
    wait_until(lambda: answer().startswith(failures) and time.monotonic() > until, 30,
               "the pair does not fit")
    put_pair(locked.stranger)
    wait_until(lambda: answer() == "ids 1-1", 30, "the new certificate is shown")


def test_the_library_s_name_and_version(start, seen, language):
    start().open(endpoints=seen.url).ids("strict orders 1")
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as file:
        version = file.read().strip()
    name = "c" if language in OVER_LIBLEAFD else language
    assert seen.requests[0].headers["user-agent"] == f"leafd-{name}/{version}"
