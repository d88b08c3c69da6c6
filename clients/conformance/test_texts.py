"""Ids as texts: of tags with a shape and of others, by any node, and back to numbers."""

import itertools
import json
import os
import re

import pytest

from driver import check_once, urls
from fake import http
from test_client_faults import QUICK, joined
from wait import wait_until

serial = itertools.count(1)
INVOICE = "INV-{id:6}{luhn}"


def luhn(digits):
    """The digit behind them, by ISO/IEC 7812."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 - place % 2)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def invoice(number):
    return f"INV-{number:06}{luhn(f'{number:06}')}"


@pytest.fixture
def make(request, shared):
    """Makes tags of the test's own."""
    def named(shape=None, **fields):
        name = f"{request.node.originalname}.made.{os.getpid()}.{next(serial)}"
        shared.create_tag(name, **fields, **({} if shape is None else {"shape": shape}))
        shared.wait_applied()  # decode reads what the node has
        return name

    return named


def keys(gates):
    return [exchange.headers.get("idempotency-key") for gate in gates
            for exchange in gate.requests("GET /api/segment/get/")]


def test_texts_of_a_strict_tag(steady, make):
    tag = make(INVOICE, mode="strict")
    assert steady.texts(f"texts {tag} 3") == ["INV-0000018", "INV-0000026", "INV-0000034"]
    assert steady.texts(f"texts {tag} 1") == [invoice(4)]
    assert steady.texts(f"texts {tag} 1000") == [invoice(number) for number in range(5, 1005)]
    stats = steady.stats()
    assert (stats["ids_strict"], stats["requests"], stats["errors"]) == (1004, 3, 0)


def test_texts_of_a_tag_of_mode_trend(start, gates, make):
    """It takes no key, which the first call finds out by one request more."""
    tag = make(INVOICE)
    client = start().open(endpoints=gates[0].url)
    found = client.texts(f"texts {tag} 20") + client.texts(f"texts {tag} 30")
    assert len(set(found)) == 50
    assert all(text == invoice(int(text[4:-1])) for text in found)
    assert [bool(key) for key in keys(gates)] == [True, False, False]
    stats = client.stats()
    assert (stats["requests"], stats["retries"], stats["errors"]) == (3, 0, 0)
    assert client.refused(f"texts {tag} 1 mine", "bad_key").status == 400


def test_texts_of_tags_without_a_shape(client, tag, strict_tag):
    assert client.texts(f"texts {strict_tag} 3") == ["1", "2", "3"]
    assert len({int(text) for text in client.texts(f"texts {tag} 100")}) == 100


def test_texts_by_a_key(client, make):
    tag = make(INVOICE, mode="strict")
    first = client.texts(f"texts {tag} 2 order-4711")
    again = client.texts(f"texts {tag} 2 order-4711")
    assert first == again == [invoice(1), invoice(2)]
    assert not first.replayed and again.replayed
    assert client.refused(f"texts {tag} 3 order-4711", "idempotency_conflict").status == 409
    assert client.texts(f"texts {tag} 1") == [invoice(3)]


def test_an_answer_with_texts_is_lost(start, gates, make):
    """The retry has the same key, and gets the texts of the first try."""
    tag = make(INVOICE, mode="strict")
    client = start().open(endpoints=joined(gates), **QUICK)
    for gate in gates:
        gate.lose = 1
    found = client.texts(f"texts {tag} 3")
    assert found == [invoice(1), invoice(2), invoice(3)] and found.replayed
    assert sum(gate.lost for gate in gates) >= 1
    sent = keys(gates)
    assert len(sent) > 1 and len(set(sent)) == 1 and re.fullmatch("[A-Za-z2-7]{26}", sent[0])
    for gate in gates:
        gate.lose = 0
    assert client.texts(f"texts {tag} 1") == [invoice(4)]


def test_texts_of_a_monotonic_tag(start, gates, make):
    """They take keys as well, and rise."""
    tag = make("E{id:9}", mode="monotonic")
    client = start().open(endpoints=joined(gates), **QUICK)
    for gate in gates:
        gate.lose = 1
    found = client.texts(f"texts {tag} 3")
    assert sum(gate.lost for gate in gates) >= 1
    assert found.replayed and len(set(keys(gates))) == 1 and keys(gates)[0]
    for gate in gates:
        gate.lose = 0
    found += client.texts(f"texts {tag} 2") + client.texts(f"texts {tag} 2")
    assert all(re.fullmatch("E[0-9]{9}", text) for text in found)
    assert found == sorted(set(found)) and len(found) == 7


@pytest.mark.bound(90)
def test_texts_while_the_leader_dies(start, faulty, make):
    """One client, one call at a time, with a key each: no gap and no call that fails."""
    tag = make(INVOICE, mode="strict")
    client = start().open(endpoints=urls(faulty), **QUICK)
    found = client.texts(f"texts {tag} 2")
    client.begin(f"texts {tag} 2")
    faulty.leader().kill9()
    found += client.parse_texts(client.judge(client.finish()))
    for _ in range(10):
        found += client.texts(f"texts {tag} 2")
    assert found == [invoice(number) for number in range(1, 25)]
    assert client.stats()["errors"] == 0


def test_secret_texts(client, make):
    tag = make("{secret36:8}", mode="strict")
    found = client.texts(f"texts {tag} 50")
    assert all(re.fullmatch("[0-9A-Z]{8}", text) for text in found) and len(set(found)) == 50
    assert found != sorted(found)
    numbers = [int(client.ask(f"textid {tag} {text}").split(" ")[1]) for text in found[:5]]
    assert numbers == [1, 2, 3, 4, 5]


def test_decode(client, make, tag):
    shaped = make(INVOICE, mode="strict")
    client.texts(f"texts {shaped} 2")
    assert client.ask(f"textid {shaped} INV-0000026") == "textid 2"
    assert client.ask(f"textid {shaped} {invoice(777)}") == "textid 777", "whether granted or not"
    assert client.refused(f"textid {shaped} INV-0000027", "bad_id").status == 400
    assert client.refused(f"textid {shaped} A&b=c+d%20#", "bad_id").status == 400
    assert client.refused(f"textid {tag} 1", "no_shape").status == 409
    assert client.refused(f"textid {tag}.absent 1", "unknown_tag").status == 404
    odd = make("a&b=+{id}%20#", mode="strict")
    text = client.texts(f"texts {odd} 1")[0]
    assert text == "a&b=+1%20#" and client.ask(f"textid {odd} {text}") == "textid 1"


def test_decode_asks_the_admin_endpoints(start, fake):
    ids = fake(lambda request: http(200, "A1\n"))
    admin = fake(lambda request: http(200, '{"tag":"orders","id":"1","granted":true}',
                                      "application/json"))
    client = start().open(endpoints=ids.url, admin_endpoints=admin.url)
    assert client.texts("texts orders 1") == ["A1"]
    assert client.ask("textid orders A1") == "textid 1"
    assert [r.target for r in admin.requests] == ["/api/segment/decode/orders?text=A1"]
    assert [r.target for r in ids.requests] == ["/api/segment/get/orders?count=1"]


def test_sources_of_numbers_say_what_gives_texts(client, make):
    trend, strict = make(INVOICE), make(INVOICE, mode="strict")
    for line in (f"segment {trend} 1", f"range {trend} 1", f"strict {strict} 1"):
        error = client.refused(line, "bad_request")
        assert error.status == 400 and "; use texts() of the client" in error.message


def test_texts_that_break_their_rule(client, tag):
    """Nothing is sent."""
    for line in (f"texts {tag} 0", f"texts {tag} 1001", f"texts {'x' * 129} 1",
                 f"texts {tag} 1 {'x' * 129}", f"textid {tag} {'x' * 131}", f"textid {tag} é"):
        assert client.refused(line, "bad_setting").status == 0, line
    assert client.stats()["requests"] == 0


def test_texts_after_the_end(client, strict_tag):
    client.texts(f"texts {strict_tag} 1")
    assert client.ask("close") == "ok"
    for line in (f"texts {strict_tag} 1", f"textid {strict_tag} 1"):
        assert client.refused(line, "closed").status == 0


@pytest.mark.parametrize("line", ["texts orders 1", "textid orders A1"])
def test_nobody_listens_for_texts(start, fake, line):
    server = fake(lambda request: None)
    server.close()
    client = start().open(endpoints=server.url, deadline_ms=10000)
    client.refused(f"{line} deadline_ms=300", "unreachable")  # a runtime has loaded its code then
    _, failed = client.refused_in_time(f"{line} deadline_ms=300", [server.url])
    assert failed.status == 0


def test_connections_kept_for_texts_end_while_idle(start, fake):
    server = fake(lambda request: http(200, f"A{len(server.requests)}\n"))
    server.close_idle = True
    client = start().open(endpoints=server.url)
    assert sum((client.texts("texts orders 1") for _ in range(5)), []) == [
        f"A{number}" for number in range(1, 6)]
    assert client.stats()["errors"] == client.stats()["failovers"] == 0


# What is answered to a request for three texts.
NO_TEXTS = {
    "empty": lambda: http(200, ""),
    "fewer": lambda: http(200, "A1\nA2\n"),
    "more": lambda: http(200, "A1\nA2\nA3\nA4\n"),
    "half a line": lambda: http(200, "A1\nA2\nA3"),
    "an empty line": lambda: http(200, "A1\n\nA3\n"),
    "an empty line at the end": lambda: http(200, "A1\nA2\n\n"),
    "a space": lambda: http(200, "A1\nA 2\nA3\n"),
    "a tab": lambda: http(200, "A1\nA\t2\nA3\n"),
    "a NUL": lambda: http(200, "A1\nA\0\nA3\n"),
    "a DEL": lambda: http(200, "A1\nA\x7f\nA3\n"),
    "CR": lambda: http(200, "A1\r\nA2\r\nA3\r\n"),
    "other letters": lambda: http(200, "A1\nÄ2\nA3\n"),
    "no UTF-8": lambda: http(200, b"A1\nA\xff\nA3\n"),
    "a text of 131 bytes": lambda: http(200, f"A1\n{'x' * 131}\nA3\n"),
    "a text of 60000 bytes": lambda: http(200, f"A1\n{'x' * 60000}\nA3\n"),
    "html": lambda: http(200, "<html><body>at your service</body></html>\n", "text/html"),
    "201": lambda: http(201, "A1\nA2\nA3\n"),
    "302": lambda: http(302, "", Location="http://127.0.0.1:9/"),
    "400 without JSON": lambda: http(400, "A1\nA2\nA3\n"),
}


def test_what_is_no_text(start, fake):
    cases = {f"case{i}": case for i, case in enumerate(NO_TEXTS.items())}
    right = "!" * 130 + "\nA2\n~~\n"
    server = fake(lambda request: http(200, right) if request.tag == "right"
                  else cases[request.tag][1]())
    client = start().open(endpoints=server.url)
    wrong = []
    for tag, (name, _) in cases.items():
        try:
            client.refused(f"texts {tag} 3", "bad_answer")
        except AssertionError as found:
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)
    assert client.stats()["ids_strict"] == 0
    assert client.texts("texts right 3") == right.split()


def test_texts_without_an_end(start, fake):
    """They are read up to a bound, and not kept."""
    def answer(_):
        yield b"HTTP/1.1 200 X\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = b"A1\n" * 16384
        while True:
            yield b"%x\r\n%s\r\n" % (len(piece), piece)

    server = fake(answer)
    client = start().open(endpoints=server.url)
    for line in ("texts orders 1000", "textid orders A1"):
        server.sent_bytes = 0
        client.refused(line, "bad_answer")
        assert server.sent_bytes < 24 << 20, f"{server.sent_bytes} bytes were read"


def test_the_largest_answer_with_texts(start, fake):
    lines = [f"{number:0130}" for number in range(1000)]
    server = fake(lambda request: http(200, "".join(f"{line}\n" for line in lines)))
    client = start().open(endpoints=server.url)
    assert client.texts("texts orders 1000") == lines


NO_IDS = {
    "no JSON": "2",
    "half of it": '{"tag":"orders","id":"2"',
    "a list": '["2"]',
    "nothing": "{}",
    "an endless depth": "[" * 60000,
    "a number": '{"id":2,"granted":true}',
    "no digits": '{"id":"two","granted":true}',
    "an empty id": '{"id":"","granted":true}',
    "a negative one": '{"id":"-2","granted":true}',
    "2^63": json.dumps({"id": str(1 << 63), "granted": True}),
    "a book": json.dumps({"id": "9" * 5000, "granted": True}),
    "not known whether granted": '{"id":"2"}',
    "granted as a text": '{"id":"2","granted":"true"}',
}


def test_what_is_no_id_of_a_text(start, fake):
    body = None
    server = fake(lambda request: http(200, body, "application/json"))
    client = start().open(endpoints=server.url)
    wrong = []
    for name, body in NO_IDS.items():  # noqa: B020
        try:
            client.refused("textid orders A1", "bad_answer")
        except AssertionError as found:
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)
    body = '{"id":"9223372036854775807","granted":false,"more":[]}'
    assert client.ask("textid orders A1") == f"textid {(1 << 63) - 1}"


def test_the_token_of_texts_is_in_no_message(start, fake):
    server = fake(lambda request: http(401, json.dumps(
        {"code": "unauthorized", "message": "no"}), "application/json"))
    client = start().open(endpoints=server.url, token="secret-of-ours")
    for line in ("texts orders 1", "textid orders A1"):
        assert "secret-of-ours" not in client.refused(line, "unauthorized").message
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer secret-of-ours"}


def test_texts_of_two_nodes(start, shared, make):
    tag = make(INVOICE)
    found = []
    for node in shared.nodes[:2]:
        client = start().open(endpoints=urls(shared, node))
        texts = client.texts(f"texts {tag} 100")
        found.append([(int(text[4:-1]), int(text[4:-1])) for text in texts])
    check_once(*found)


def test_the_numbers_of_texts_are_for_the_role_read(start, locked):
    def made():
        answer = locked.node.http("PUT", "/api/tags/shaped", {"shape": "A{id}"},
                                  locked.tokens.bearer("root"))
        return answer.status in (200, 201)

    wait_until(made, 20, "the level that shapes need")

    def opened(role):
        return start().open(endpoints=locked.url, ca_file=locked.authority.pem,
                            token=locked.tokens.tokens[role])

    ids, reader = opened("ids"), opened("reader")
    text = ids.texts("texts shaped 1")[0]
    assert reader.ask(f"textid shaped {text}") == f"textid {text[1:]}"
    assert ids.refused(f"textid shaped {text}", "forbidden").status == 403
    assert reader.refused("texts shaped 1", "forbidden").status == 403
