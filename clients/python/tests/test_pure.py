"""The parts without a network: sizes of requests, pieces, settings, HTTP, the way from node to
node, and a walk of the snowflake generator by a clock that does what it likes."""
import random
import ssl

import pytest

import leafd
from leafd import _api, _buffer, _errors, _http, _journey, _settings, _stats
from leafd._generator import Generator, Why


def test_sizes_follow_the_rate_within_their_bounds():
    for seed in range(3000):
        rng = random.Random(seed)
        low = rng.randint(1, 1000)
        high = rng.randint(low, 100000)
        before = rng.randint(1, high)
        taken = rng.choice([0, 1, rng.randint(0, 10 ** 7)])
        elapsed = rng.choice([0, 1e-9, rng.random() * 1000])
        cover = rng.random() * 100
        size = _buffer.next_size(before, taken, elapsed, cover, low, high)
        assert min(max(low, before // 2), before * 2, high) <= size <= min(before * 2, high)
        wanted = taken / elapsed * cover if elapsed else float("inf")
        if max(before / 2, low) <= wanted <= min(before * 2, high):
            assert abs(size - wanted) <= 0.5


@pytest.mark.parametrize("before, taken, elapsed, expected", [
    (100, 100, 10, 100), (100, 1000, 10, 200), (100, 1, 10, 50), (100, 75, 10, 75),
    (100, 100, 0, 200), (99000, 10 ** 9, 1, 100000), (12, 0, 5, 10), (1, 0, 5, 2)])
def test_examples_of_sizes(before, taken, elapsed, expected):
    assert _buffer.next_size(before, taken, elapsed, 10, 10, 100000) == expected


def test_every_id_of_an_answer_is_in_one_piece_and_the_half_is_where_it_is_asked():
    for seed in range(2000):
        rng = random.Random(seed)
        ranges, at = [], 1
        for _ in range(rng.randint(1, 9)):
            size = rng.choice([1, 2, rng.randint(1, 300)])
            ranges.append(range(at, at + size))
            at += size + rng.randint(0, 5)
        pieces = _buffer.cut(ranges)
        assert [id for ids, _ in pieces for id in ids] == [id for ids in ranges for id in ids]
        total = sum(len(ids) for ids in ranges)
        before = sum(len(ids) for ids, past in pieces if not past)
        assert before == total // 2
        assert [past for _, past in pieces] == sorted(past for _, past in pieces)
        assert all(len(ids) for ids, _ in pieces)


def test_a_buffer_hands_out_what_came_and_counts_it():
    for seed in range(500):
        rng = random.Random(seed)
        buffer, expected, got, at, burnt = _buffer.Buffer(), [], [], 1, 0
        for _ in range(rng.randint(1, 60)):
            if buffer.wants and rng.random() < 0.7:
                ids = range(at, at + rng.randint(1, 40))
                at = ids[-1] + rng.randint(1, 3)
                buffer.add(_buffer.Answer([ids], -1, 0.0))
                expected += ids
            elif rng.random() < 0.02:
                burnt += buffer.burn()
                expected = list(got)
                assert buffer.empty
            for _ in range(rng.randint(0, 30)):
                id = next(buffer.piece, None)
                if id is None and buffer.advance():
                    id = next(buffer.piece, None)
                if id is None:
                    assert buffer.empty
                    break
                got.append(id)
            assert buffer.taken == len(got)
            assert got == expected[:len(got)]


def test_what_there_is_no_room_for_is_not_taken():
    buffer = _buffer.Buffer()
    assert buffer.add(_buffer.Answer([range(1, 3)], -1, 0.0)) == 0
    assert buffer.add(_buffer.Answer([range(3, 6)], -1, 0.0)) == 3
    assert buffer.left == 2


def test_ranges_of_an_age_or_of_an_older_generation_are_dropped_and_no_others():
    for seed in range(500):
        rng = random.Random(seed)
        buffer = _buffer.Buffer()
        front, spare = [_buffer.Answer([range(at, at + rng.randint(1, 40))], rng.randint(-1, 3),
                                       rng.random()) for at in (1, 100)]
        got = []
        buffer.add(front)
        for _ in range(rng.randint(0, front.size)):
            buffer.advance()
            got.append(next(buffer.piece))
        piece = buffer.piece  # which a thread has in hand
        buffer.advance()
        buffer.add(spare)
        if rng.random() < 0.5:
            limit = rng.choice([front.asked_at, spare.asked_at, rng.random()])
            gone = [one.asked_at <= limit for one in (front, spare)]
            dropped = buffer.drop_aged(limit)
        else:
            limit = rng.randint(0, 4)
            gone = [0 <= one.generation < limit for one in (front, spare)]
            dropped = buffer.drop_older(limit)
        left = [one for one, is_gone in zip((front, spare), gone) if not is_gone]
        held = [id for one in left for ids in one.ranges for id in ids if id not in got]
        assert dropped == front.size + spare.size - len(got) - len(held)
        assert buffer.left == len(held) and buffer.empty == (not held)
        if gone[0]:
            assert next(piece, None) is None
        if held:
            assert buffer.asked_at == min(one.asked_at for one in left
                                          if set(held) & set(one.ranges[0]))
        rest = []
        while buffer.advance():
            rest += buffer.take(1000)
        assert rest == held and buffer.taken == len(got) + len(held)


def test_time_in_which_callers_waited_with_nothing_held_is_none_of_the_rate():
    rate = _buffer.Rate()
    assert rate.next(0, 0.0, 10, 10, 100000) == 10
    rate.wait(0.0)
    rate.go(99.0)
    rate.wait(99.5)
    rate.wait(99.6)
    rate.go(99.5 + 8)
    assert rate.next(15, 109.5, 10, 10, 100000) == 20  # 15 in 2.5 s, and at most twice as many
    assert rate.next(15 + 30, 129.5, 10, 10, 100000) == 15
    rate.wait(140.0)
    assert rate.next(15 + 30 + 21, 143.5, 10, 10, 100000) == 20  # it still waits
    rate.go(150.0)
    assert rate.next(15 + 30 + 21, 150.0, 10, 10, 100000) == 40  # in no time


def test_the_usual_time_follows_what_is_measured():
    usual = _journey.Usual(0.3)
    assert usual.patience_s == 0.6
    usual.add(0.1)
    assert usual.patience_s == 0.2
    usual.add(0.9)
    assert usual.patience_s == pytest.approx(0.4)
    for _ in range(100):
        usual.add(0.0001)
    assert usual.patience_s == 0.04


@pytest.mark.parametrize("body", [
    b"1 3", b"1 3 0", b"1 4 2", b"1 5 2 1", b"1 7 2", b"1 3 1", b"5 1 2", b"1 5 -2",
    b"1 5 2\n4 4 1", b"1 9223372036854775809 9223372036854775808", b"1 5 99999999999999999999"])
def test_stepped_ranges_that_are_none(body):
    with pytest.raises(leafd.LeafdError, match="bad_answer"):
        _api.ranges_of(answer(body + b"\n"), 2, stepped=True)


def test_stepped_ranges():
    assert _api.ranges_of(answer(b"7 7 5\n10 20 5\n"), 4, stepped=True) == [
        range(7, 8, 5), range(10, 21, 5)]
    last = (1 << 63) - 1
    assert _api.ranges_of(answer(b"0 %d %d\n" % (last, last)), 2, stepped=True)[0][-1] == last
    with pytest.raises(leafd.LeafdError, match="bad_answer"):
        _api.ranges_of(answer(b"1 2 1\n"), 2)


def test_a_piece_that_is_used_up_gives_nothing_to_who_has_it_in_hand():
    for piece in (iter(range(1, 10)), _buffer.LockedPiece(range(1, 10)),
                  iter(range((1 << 63) - 9, 1 << 63))):
        next(piece)
        assert _buffer.use_up(piece) == 8
        assert next(piece, None) is None


@pytest.mark.parametrize("name, value, word", [
    ("endpoints", [], "1 to 64"), ("endpoints", "ftp://a", "base URL"),
    ("endpoints", ["http://a/b"], "base URL"), ("endpoints", ["http://u:p@a"], "base URL"),
    ("endpoints", ["http://a:0"], "base URL"), ("endpoints", ["http://a:65536"], "base URL"),
    ("endpoints", ["http://a"] * 65, "1 to 64"), ("endpoints", 7, "1 to 64"),
    ("endpoints", ["http://a?x"], "base URL"), ("endpoints", ["http://a b"], "base URL"),
    ("endpoints", ["http://a..b"], "base URL"), ("endpoints", ["http://.a"], "base URL"),
    ("endpoints", ["http://" + "a" * 64], "base URL"), ("endpoints", ["http://[::g]"], "base URL"),
    ("endpoints", ["http://" + ".".join(["a" * 49] * 6)], "base URL"),
    ("admin_endpoints", ["nothing"], "base URL"), ("token", "a b", "ASCII"),
    ("token", "", "ASCII"), ("token", "x" * 1025, "ASCII"), ("token", "a\r\nb", "ASCII"),
    ("ca_file", "/nonexistent", "PEM"), ("attempt_ms", 0, "1 to 600000"),
    ("deadline_ms", 600001, "1 to 600000"), ("cover_ms", 1.5, "whole"),
    ("min_count", 0, "1 to 100000"), ("min_count", True, "whole"),
    ("max_count", 99, "100 to 100000"), ("max_count", 100001, "100 to 100000"),
    ("window_ms", 999, "1000 to 86400000"), ("window_ms", 86400001, "1000 to 86400000")])
def test_settings_that_break_their_rule(name, value, word):
    settings = {"endpoints": "http://127.0.0.1:1", name: value}
    with pytest.raises(leafd.LeafdError) as caught:
        leafd.Client(settings.pop("endpoints"), **settings)
    error = caught.value
    assert (error.code, error.status, error.retryable) == ("bad_setting", 0, False)
    assert error.message.startswith(name + "=") and word in error.message
    if name == "token" and value:
        assert value not in str(error)


def test_settings_at_their_bounds():
    with leafd.Client(["http://a"] * 64, token="x" * 1024, attempt_ms=1, deadline_ms=600000,
                      cover_ms=1, min_count=100000, max_count=100000, window_ms=1000):
        pass
    with leafd.Client("https://[::1]:9/", window_ms=86400000, min_count=1, max_count=1):
        pass


@pytest.mark.parametrize("tag, good", [
    ("a" * 128, True), ("a" * 129, False), ("", False), ("é" * 64, True), ("é" * 65, False),
    ("a\nb", False), ("a/b;c.d %", True), ("\ud800", False), (None, False)])
def test_names_of_tags(tag, good):
    with leafd.Client("http://127.0.0.1:1") as client:
        if good:
            assert client.segment(tag).tag == tag
        else:
            with pytest.raises(leafd.LeafdError, match="bad_setting"):
                client.segment(tag)


def read(data, size):
    reader = _http.Reader()
    for at in range(0, len(data), size):
        got = reader.feed(data[at:at + size])
        if got is not None:
            return got, data[at + size:]
    return None, b""


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_replies_come_in_pieces(size):
    data = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n"
            b"retry-After:  3 \r\n\r\nhello")
    got, rest = read(data, size)
    assert (got.status, got.body, got.keep, rest) == (200, b"hello", True, b"")
    assert _api.retry_after(got) == 3.0
    got, _ = read(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", size)
    assert (got.status, got.body, got.keep) == (204, b"", False)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_chunks_come_in_pieces(size):
    got, rest = read(CHUNKED + b"2\r\nhe\r\n0003 ;a=b\r\nllo\r\n0\r\nB: c\r\n\r\n", size)
    assert (got.body, got.keep, rest) == (b"hello", True, b"")
    got, _ = read(CHUNKED + b"0\r\n\r\nab", size)
    assert (got.body, got.keep) == (b"", size < 7)
    assert read(CHUNKED + b"2\r\nhe\r\n0\r\n", size)[0] is None


def test_a_reply_with_more_behind_it_ends_the_connection():
    got, _ = read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 100)
    assert (got.body, got.keep) == (b"a", False)
    got, _ = read(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 100)
    assert not got.keep


@pytest.mark.parametrize("data", [
    b"SSH-2.0-x\r\n", b"\x16\x03\x01", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    CHUNKED + b"g\r\n", CHUNKED + b"-1\r\n", CHUNKED + b"1\r\nabc",
    CHUNKED + b"0\r\n" + b"a: b\r\n" * 4000, CHUNKED + b"0" * 20000,
    CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\n") + b"0\r\n\r\n",
    CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    b"HTTP/1.1 101 Up\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n a: b\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 4000,
    b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 4000 + b"\r\n"])
def test_what_is_no_reply(data):
    with pytest.raises(ConnectionError):
        read(data, len(data))


@pytest.mark.parametrize("data", [
    CHUNKED + b"100001\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n"])
def test_a_reply_that_is_too_long(data):
    with pytest.raises(_http.BadAnswer):
        read(data, len(data))


def test_random_bytes_are_no_reply_and_no_crash():
    rng = random.Random(1)
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    for _ in range(5000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            read(bytes(data), rng.randint(1, 50))
        except (ConnectionError, _http.BadAnswer):
            pass


def answer(body, status=200, **headers):
    return _http.Reply(status, headers, body, True)


@pytest.mark.parametrize("body, count", [
    (b"", 1), (b"1", 1), (b"1 2\n", 3), (b"2 1\n", 2), (b"1 2\n2 3\n", 4), (b"5 6\n1 2\n", 4),
    (b"a b\n", 1), (b"1 2\n\n3 4\n", 4), (b"0 9223372036854775808\n", 5), (b"1 2\r\n", 2),
    ("١ ٢\n".encode(), 2), (b"\xff", 1), (b"-1 1\n", 3), (b"1  2\n", 2),
    (b"".join(b"%d %d\n" % (n, n) for n in range(65)), 65)])
def test_what_are_no_ranges(body, count):
    with pytest.raises(leafd.LeafdError) as caught:
        _api.ranges_of(answer(body), count)
    assert (caught.value.code, caught.value.status) == ("bad_answer", 200)


def test_ranges_at_their_bounds():
    last = (1 << 63) - 1
    assert _api.ranges_of(answer(b"0 0\n%d %d\n" % (last - 1, last)), 3) == [
        range(0, 1), range(last - 1, last + 1)]
    many = b"".join(b"%d %d\n" % (n, n) for n in range(0, 128, 2))
    assert len(_api.ranges_of(answer(many), 64)) == 64


@pytest.mark.parametrize("body", [
    b"", b"[]", b"null", b"{}",
    b'{"worker_id":1024,"epoch":1,"from_ms":0,"until_ms":9,"layout":null}',
    b'{"worker_id":1,"epoch":0,"from_ms":0,"until_ms":9,"layout":null}',
    b'{"worker_id":1,"epoch":1,"from_ms":10,"until_ms":9,"layout":null}',
    b'{"worker_id":1,"epoch":1,"from_ms":0,"until_ms":9}',
    b'{"worker_id":1.0,"epoch":1,"from_ms":0,"until_ms":9,"layout":null}',
    b'{"worker_id":true,"epoch":1,"from_ms":0,"until_ms":9,"layout":null}',
    b'{"worker_id":64,"epoch":1,"from_ms":0,"until_ms":9,"layout":{"epoch_ms":1,"time_bits":41,'
    b'"worker_bits":6,"sequence_bits":6}}', b"[" * 100000,
    b'{"worker_id":1,"epoch":1,"from_ms":0,"until_ms":9,"layout":{"epoch_ms":9,"time_bits":41,'
    b'"worker_bits":6,"sequence_bits":6}}'])
def test_what_is_no_worker_id(body):
    with pytest.raises(leafd.LeafdError, match="bad_answer"):
        _api.grant_of(answer(body))


@pytest.mark.parametrize("status, body, code", [
    (404, b'{"code":"unknown_tag","message":"x"}', "unknown_tag"), (404, b"<html>", "bad_answer"),
    (302, b'{"code":"moved","message":"x"}', "bad_answer"), (500, b"{}", "bad_answer"),
    (400, b'{"code":"A B","message":"x"}', "bad_answer"),
    (400, b'{"code":"a","message":7}', "bad_answer"), (206, b"", "bad_answer"),
    (201, b"1 1\n", "bad_answer")])
def test_errors_of_servers(status, body, code):
    error = _api.error_of(answer(body, status), (200,))
    assert (error.code, error.status) == (code, status)


@pytest.mark.parametrize("code, status, good", [
    ("unknown_tag", 404, False), ("no_leader", 503, True), ("quota", 429, True),
    ("share", 429, False), ("no_worker_id", 409, True), ("unreachable", 0, True),
    ("bad_answer", 503, False), ("closed", 0, False), ("fenced", 409, True),
    ("window_over", 0, True), ("layout_unknown", 0, True), ("bad_setting", 0, False)])
def test_what_makes_sense_to_ask_again(code, status, good):
    assert _errors.LeafdError(code, "", status).retryable is good


def walk(seed):
    """Rounds of three nodes that all fail: the waits between them."""
    door = _journey.Door([_settings.Address(False, f"n{n}", 1) for n in range(3)], _stats.Stats())
    rng = random.Random(seed)
    journey = _journey.Journey(door, lambda: 1000.0, rng.uniform)
    waits, asked = [], []
    for _ in range(36):
        move = journey.move(0.0)
        if move.wait_s:
            waits.append(move.wait_s)
            assert len(set(asked)) == 3
            asked = []
            move = journey.move(0.0)
        asked.append(move.node)
        journey.failed("down")
    return waits


def test_rounds_wait_longer_and_longer_up_to_a_second():
    for seed in range(200):
        for n, wait in enumerate(walk(seed)):
            top = min(0.02 * 2 ** n, 1.0)
            assert top / 2 <= wait <= top


def one_journey(nodes, deadline):
    door = _journey.Door([_settings.Address(False, f"n{n}", 1) for n in range(nodes)],
                         _stats.Stats())
    return door, _journey.Journey(door, lambda: deadline)


def addresses(name, *ips):
    return [_settings.Address(False, name, 1, ip) for ip in ips]


def test_a_door_has_the_addresses_of_its_names():
    for seed in range(300):
        rng = random.Random(seed)
        named, other, fixed = (_settings.Address(False, host, 1) for host in ("n", "o", "10.0.0.1"))
        door = _journey.Door([named, other, fixed], _stats.Stats())
        assert door.names == [named, other]
        known = {named: [named], other: [other], fixed: [fixed]}
        for _ in range(10):
            one = rng.choice(door.names)
            ips = rng.sample([f"10.0.1.{n}" for n in range(9)], rng.randint(1, 5))
            current = door.current
            door.found(one, ips + ips)
            known[one] = addresses(one.host, *sorted(ips))
            assert list(door.nodes) == known[named] + known[other] + [fixed]
            assert door.current in door.nodes
            assert door.current == current or current not in door.nodes
            failovers = door.stats.values()["failovers"]
            door.leave(door.current)
            door.leave(named)  # which is no node of it any more
            assert door.stats.values()["failovers"] - failovers in ([1] if named not in door.nodes
                                                                    else [1, 2])


def test_a_door_has_64_nodes_at_most():
    door = _journey.Door([_settings.Address(False, f"n{n}", 1) for n in range(3)], _stats.Stats())
    for one in door.names:
        door.found(one, [f"10.0.0.{n}" for n in range(50)])
        assert door.current in door.nodes
    assert len(door.nodes) == 64


def test_each_round_has_the_nodes_of_its_beginning():
    door = _journey.Door([_settings.Address(False, "n", 1)], _stats.Stats())
    journey, told = _journey.Journey(door, lambda: 100.0), []
    journey.on_nodes = lambda: told.append(tuple(sorted(journey.nodes)))
    assert not journey.begun and journey.looks(1.0) == (True, True)
    door.found(door.names[0], ["10.0.0.1", "10.0.0.2"])
    door.resolved_at = 1.0
    journey.begin()
    assert _journey.Journey(door, lambda: 100.0).looks(30.9) == (False, False)
    assert _journey.Journey(door, lambda: 100.0).looks(31.0) == (True, False)
    second = _journey.Journey(door, lambda: 100.0, beside=journey)
    assert second.begun and {second.node, journey.node} == set(addresses("n", "10.0.0.1",
                                                                         "10.0.0.2"))
    door.found(door.names[0], ["10.0.0.3"])
    asked = []
    for _ in range(2):
        assert journey.begun
        asked.append(journey.move(1.0).node.ip)
        journey.failed("down")
    assert sorted(asked) == ["10.0.0.1", "10.0.0.2"]
    assert not journey.begun and journey.looks(1.0) == (True, True)
    journey.begin()
    assert journey.move(1.0).wait_s > 0 and journey.move(1.0).node.ip == "10.0.0.3"
    assert [[node.ip for node in nodes] for nodes in told] == [["10.0.0.1", "10.0.0.2"],
                                                               ["10.0.0.3"]]
    assert "http://n:1 (10.0.0.2): down" in journey.unreachable().message


def test_retry_after_is_the_least_and_the_deadline_the_most():
    _, journey = one_journey(1, 5.0)
    journey.move(0.0)
    journey.failed("503", 2.0)
    assert journey.move(0.0).wait_s == 2.0
    assert journey.move(2.0).wait_s == 0
    journey.failed("503", 60.0)
    assert journey.move(2.0).wait_s == 3.0
    with pytest.raises(leafd.LeafdError) as caught:
        journey.move(5.0)
    assert caught.value.code == "unreachable" and "http://n0:1: 503" in caught.value.message


def test_only_a_round_without_one_trusted_certificate_is_the_last():
    def fails(journey, error):
        journey.move(0.0)
        journey.broke(error)

    untrusted = ssl.SSLCertVerificationError("not signed by ours")
    _, journey = one_journey(2, 5.0)
    fails(journey, untrusted)
    fails(journey, ConnectionRefusedError("down"))  # it may come back
    assert journey.move(0.0).wait_s > 0
    fails(journey, untrusted)
    fails(journey, untrusted)
    with pytest.raises(leafd.LeafdError) as caught:
        journey.move(1.0)
    assert caught.value.code == "untrusted"


def test_a_try_that_the_deadline_cuts_says_what_was_before():
    _, journey = one_journey(1, 5.0)
    journey.move(0.0)
    journey.failed("503")
    assert journey.move(0.0).wait_s > 0
    journey.move(4.9)
    journey.cut(5.0, 4.9)
    assert journey.unreachable().message.endswith(": 503")


def test_who_fails_is_left_once():
    door, journey = one_journey(3, 5.0)
    first = door.current
    other = _journey.Journey(door, lambda: 5.0)
    assert journey.move(0.0).node == other.move(0.0).node == first
    journey.failed("down")
    other.failed("down")
    assert door.current == door.nodes[(door.nodes.index(first) + 1) % 3]
    assert door.stats.values()["failovers"] == 1


def test_a_quota_waits_at_the_same_node_and_is_the_error_in_the_end():
    door, journey = one_journey(2, 5.0)
    node = journey.move(0.0).node
    journey.quota(leafd.LeafdError("quota", "too many", 429), 3.0)
    assert journey.move(0.0).wait_s == 3.0
    assert journey.move(3.0).node == node == door.current
    journey.quota(leafd.LeafdError("quota", "too many", 429), 0.0)
    assert 0.02 <= journey.move(3.0).wait_s <= 0.04, "as after a second round"
    with pytest.raises(leafd.LeafdError, match="quota"):
        journey.move(5.0)


LAYOUTS = [_api.Layout(1288834974657, 41, 10, 12), _api.Layout(1288834974657, 41, 6, 6),
           _api.Layout(1700000000000, 45, 1, 4), _api.Layout(1700000000000, 39, 10, 14)]


def snowflake_walk(seed):
    """A clock that stands, jumps and goes back; windows that are extended or not."""
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    clock = [layout.epoch_ms + rng.randint(1, 10 ** 6)]
    start = rng.choice([0, clock[0] - 5, clock[0] + rng.randint(0, 50)])
    grant = _api.Grant(rng.randrange(1 << layout.worker_bits), 1, start, clock[0] + 1000, layout)
    generator = Generator(grant, layout, lambda: clock[0] * 1000000 + rng.randrange(1000000),
                          rng.randrange)
    ids, used_before = [], -1
    for _ in range(rng.randint(1, 200)):
        for _ in range(rng.choice([1, 1, 5, 40] if rng.random() < 0.95 else [5000])):
            last = generator.last_ms
            step = generator.step()
            if step.why is Why.ID:
                parts = layout.decode(step.id)
                assert parts.worker_id == grant.worker_id
                assert grant.from_ms < parts.timestamp_ms <= generator.until_ms
                assert parts.timestamp_ms >= used_before
                used_before = parts.timestamp_ms
                assert generator.used_ms == parts.timestamp_ms
                ids.append(step.id)
            elif step.why is Why.WINDOW:
                assert clock[0] > generator.until_ms
                break
            else:
                assert step.why is Why.CLOCK and step.wait_ms >= 1
                assert clock[0] <= last
                if last - clock[0] > 5:
                    assert step.wait_ms == last - clock[0] + 1
                break
        clock[0] += rng.choice([0, 0, 1, 1, 1, 2, 30, -1, -3, -5, -6, -200, 700])
        if rng.random() < 0.1:
            generator.extend(clock[0] + rng.randint(-100, 1000))
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert generator.taken == len(ids)


def test_walks_of_the_generator():
    for seed in range(200):
        snowflake_walk(seed)


def test_a_millisecond_begins_at_random_and_at_0_when_the_one_before_was_used_up():
    layout = LAYOUTS[0]
    clock = [layout.epoch_ms + 1000]
    below = []
    generator = Generator(_api.Grant(5, 1, 0, clock[0] + 1000, layout), layout,
                          lambda: clock[0] * 1000000, lambda n: below.append(n) or 57)
    assert layout.decode(generator.step().id) == (clock[0], 5, 57)
    for sequence in range(58, 4096):
        assert layout.decode(generator.step().id).sequence == sequence
    assert generator.step() == (Why.CLOCK, 0, 1)
    clock[0] += 1
    assert layout.decode(generator.step().id) == (clock[0], 5, 0)
    clock[0] += 1
    assert layout.decode(generator.step().id) == (clock[0], 5, 57)
    assert below == [4096, 4096]


def test_the_end_of_the_layout():
    layout = _api.Layout(1000, 10, 1, 4)
    clock = [1000 + 1023]
    generator = Generator(_api.Grant(0, 1, 0, 10 ** 9, layout), layout,
                          lambda: clock[0] * 1000000)
    assert layout.decode(generator.step().id).timestamp_ms == 2023
    clock[0] += 1
    assert generator.step().why is Why.END


def test_the_example_of_the_documentation():
    assert LAYOUTS[0].decode(2123748187964452921) == (1795176000001, 3, 57)
    assert LAYOUTS[0].decode(LAYOUTS[0].at(1795176000001)) == (1795176000001, 0, 0)


def test_counters_for_prometheus():
    values = dict.fromkeys(_stats.COUNTERS, 3)
    gauges = _stats.Gauges({'a"b': 5}, {'a"b': 1500}, {})
    lines = _stats.text(values, gauges).splitlines()
    assert 'leafd_client_ids_left{tag="a\\"b"} 5' in lines
    assert 'leafd_client_range_age_seconds{tag="a\\"b"} 1.500' in lines
    assert "leafd_client_ids_segment_total 3" in lines
    assert "# TYPE leafd_client_burnt_total counter" in lines
    assert len(lines) == 3 * 12 + 2 * 3
