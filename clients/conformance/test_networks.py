"""What proxies and networks make of an answer: all of it in another form, a part of it, or bytes
that are none. The happy path is a Granter behind two servers, of which the one that is asked first
spoils its answers; each table has cases by name, and what all libraries do with them."""

import pytest

from driver import in_time
from fake import RESET, Granter, error, http

pytestmark = pytest.mark.inside

LONG = b"X-Long: " + b"a" * 400_000 + b"\r\n"


def parts(answer):
    """The lines of its head, without the length; its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")], body


def joined(lines, body):
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def with_line(answer, line):
    lines, body = parts(answer)
    return joined([*lines, line], body)


def with_length(answer, value):
    return with_line(answer, b"Content-Length: " + value)


def in_chunks(answer, chunks):
    lines, body = parts(answer)
    one = b"%x\r\n%s\r\n" % (len(body), body)
    return joined([*lines, b"Transfer-Encoding: chunked"], chunks(one))


def with_status(answer, line):
    lines, body = parts(answer)
    return joined([line, *lines[1:], b"Content-Length: %d" % len(body)], body)


class Spoiled:
    """Two servers. What the first that is asked answers is spoiled by made, until that is None."""

    def __init__(self, fake):
        self.granter = Granter()
        nodes = [self.granter.node({"Leafd_Generation": 5}) for _ in range(2)]
        self.servers = [fake(lambda request, number=number: self.answer(number, request))
                        for number in range(2)]
        self.nodes = nodes
        self.made = None
        self.first = None

    def answer(self, number, request):
        good = self.nodes[number](request)
        self.first = number if self.first is None else self.first
        return self.made(good) if self.made is not None and number == self.first else good

    def open(self, client, made, close=True):
        self.first, self.made = None, made
        for server in self.servers:
            server.close_idle = close
        return client.open(connect_ms=30000, min_count=10, max_count=10,
                           endpoints=",".join(server.url for server in self.servers))


def counted(client, **wanted):
    stats = client.stats()
    if stats["hedges"]:  # on a slow machine, a second request in place of a next one
        wanted = {name: count for name, count in wanted.items()
                  if name not in ("requests", "retries", "failovers")}
    assert {name: stats[name] for name in wanted} == wanted, stats


# --- no whole answer: the next node is asked ---

BROKEN = {
    "nothing": lambda answer: b"",
    "a reset": lambda answer: [RESET],
    "a reset in the head": lambda answer: [answer[:40], RESET],
    "a reset in the body": lambda answer: [answer[:-2], RESET],
    "another protocol": lambda answer: b"SSH-2.0-OpenSSH_9.2\r\n",
    "a body alone": lambda answer: parts(answer)[1],
    "a status of two digits": lambda answer: with_status(answer, b"HTTP/1.1 20 OK"),
    "a status of four digits": lambda answer: with_status(answer, b"HTTP/1.1 2000 OK"),
    "a status with a sign": lambda answer: with_status(answer, b"HTTP/1.1 -200 OK"),
    "a line that is no header": lambda answer: with_length(answer, b"5\r\nNonsense"),
    "a head without an end": lambda answer: [b"HTTP/1.1 200 OK\r\n", LONG, LONG],
    "no length": lambda answer: joined(*parts(answer)),
    "no length, by HTTP/1.0": lambda answer: joined(*parts(answer)).replace(b"1.1", b"1.0", 1),
    "a length of nothing": lambda answer: with_length(answer, b""),
    "a length that is too long": lambda answer: with_length(answer, b"500"),
    "chunks without the last": lambda answer: in_chunks(answer, lambda one: one),
    "a chunk that is too long": lambda answer: in_chunks(answer, lambda one: b"5" + one),
    "a size of no chunk": lambda answer: in_chunks(answer, lambda one: b"xyz\r\n" + one),
    "a size of 2^68": lambda answer: in_chunks(answer, lambda one: b"F" * 17 + b"\r\n" + one),
    "a coding that nobody knows": lambda answer: with_line(answer, b"Transfer-Encoding: rot13"),
}


def test_answers_that_are_not_whole(start, fake):
    """They are broken connections: nothing of them counts, and the next node is asked at once."""
    spoiled, client, wrong = Spoiled(fake), start(), []
    for name, made in BROKEN.items():
        spoiled.open(client, made)
        try:
            ids = client.ids("strict orders 3")
            assert ids == [spoiled.granter.grants[-1][:2]] and ids.replayed
            counted(client, requests=2, retries=1, failovers=1, errors=0)
        except Exception as found:  # noqa: BLE001
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)


def test_an_answer_that_is_cut_anywhere(start, fake):
    """Wherever that is."""
    spoiled, client, wrong = Spoiled(fake), start(), []
    for cut in range(1, 100):
        spoiled.open(client, lambda answer, cut=cut: answer[:-cut])
        said = client.ask_any("strict orders 3")
        stats = client.stats()
        if not said.endswith(" replayed") or (stats["failovers"] != 1 and not stats["hedges"]):
            wrong.append(f"without the last {cut} bytes: {said}")
    assert not wrong, "\n".join(wrong)


def test_an_upgrade_that_nobody_asked_for(start, fake):
    """The connection stays open, and says nothing more: the call ends by its deadline."""
    def answer(_):
        yield b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"
        server.ended.wait(30)

    server = fake(answer)
    client = start().open(endpoints=server.url, attempt_ms=400, deadline_ms=700)
    for line in ("segment orders 1", "strict orders 1"):
        client.refused(line, "unreachable")
        in_time(client, 700)


# --- all of an answer in another form: it is taken ---

INTERIM = (b"HTTP/1.1 103 Early Hints\r\nLeafd-Generation: 99\r\nIdempotency-Replayed: true\r\n"
           b"Retry-After: 60\r\n\r\n")
TRAILER = b"0\r\nLeafd-Generation: 99\r\nIdempotency-Replayed: true\r\n\r\n"
OTHER_FORMS = {
    "an interim answer first": lambda answer: INTERIM + answer,
    "trailers": lambda answer: in_chunks(answer, lambda one: one + TRAILER),
    "HTTP/1.0": lambda answer: answer.replace(b"1.1", b"1.0", 1),
    "the end of the connection": lambda answer: with_length(
        answer, b"%d\r\nConnection: close" % len(parts(answer)[1])),
    "no reason": lambda answer: answer.replace(b"200 OK", b"200 ", 1),
    "a time long ago": lambda answer: answer.replace(
        b"\r\n", b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAge: 99999999\r\n", 1),
}


def test_other_forms(start, fake):
    """What an interim answer or a trailer says is not of the answer; a node is kept to whose
    connections end."""
    spoiled, client, wrong = Spoiled(fake), start(), []
    for name, made in OTHER_FORMS.items():
        spoiled.open(client, made, close=name in ("HTTP/1.0", "the end of the connection"))
        try:
            for _ in range(3):
                ids = client.ids("strict orders 3")
                assert ids == [spoiled.granter.grants[-1][:2]]
                assert not ids.replayed or client.stats()["hedges"]
            counted(client, requests=3, failovers=0, errors=0)
            spoiled.made = None
            assert client.ids("strict orders 3").count() == 3
            counted(client, requests=4, failovers=0, errors=0, burnt=0)
        except Exception as found:  # noqa: BLE001
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)


# --- headers that say something else ---


@pytest.mark.parametrize("value", ["abc", "", "-1", "+5", "1.5", "5, 6", "5;x", "9" * 20])
def test_a_generation_that_is_no_number(start, fake, value):
    """What is held may be of another one: nothing is taken from such an answer."""
    server = fake(lambda request: http(200, f"1 {request.count}\n", Leafd_Generation=value))
    client = start().open(endpoints=server.url, min_count=10)
    for line in ("segment orders 1", "range orders 10", "strict orders 10"):
        assert client.refused(line, "bad_answer").status == 200
    counted(client, ids_segment=0, ids_strict=0)


NO_TIMES = [None, "", "0", "-1", "+1", "1.5", "1, 1", "soon", "Wed, 21 Oct 2099 07:28:00 GMT"]
LONG_TIMES = ["86401", "1000000000000", "9" * 40]


@pytest.mark.parametrize("status, code, says", [(429, "quota", "quota"),
                                                (503, "overloaded", "unreachable")])
def test_times_to_come_again(start, fake, status, code, says):
    """What is no number of seconds says nothing: then the wait is that of a round. More than a day
    is a day."""
    told = {}
    server = fake(lambda request: error(status, code, **told))
    client = start()
    wrong = []
    for value in NO_TIMES + LONG_TIMES:
        told = {} if value is None else {"Retry_After": value}
        before = len(server.requests)
        client.open(endpoints=server.url, deadline_ms=500)
        client.refused("strict orders 1", says)
        in_time(client, 500)
        # After 20 ms, 40, 80, 160, and 320, of each a random half to all.
        asked = len(server.requests) - before
        least, most = (1, 1) if value in LONG_TIMES else (4 if client.waited_s < 0.1 else 1, 7)
        if not least <= asked <= most:
            wrong.append(f"Retry-After: {value}: {asked} requests")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("status", [302, 404, 408, 429, 500])
def test_what_is_no_leafd_is_left(start, fake, status):
    """An error that is none of leafd's is the caller's; the next call begins at another node."""
    spoiled = Spoiled(fake)
    client = spoiled.open(start(), lambda answer: http(status, "<html>", "text/html"))
    assert client.refused("strict orders 1", "bad_answer").status == status
    assert client.ids("strict orders 1").count() == 1
    counted(client, requests=2, retries=0, failovers=1, errors=1)
