"""The checker itself: it must see what it is there to see."""

import random
import time

import pytest

from checker import Answers, History
from client import ProtocolError, Response, parse_ids


def history_of(*tracks):
    history = History()
    for client, (node_id, ranges) in enumerate(tracks):
        track = history.track(client, node_id, "t")
        for first, last in ranges:
            track.add(first, last)
    return history


def test_disjoint_ranges_pass():
    history = history_of((1, [(1, 10), (21, 30)]), (2, [(11, 20), (31, 31)]), (1, [(32, 40)]))
    assert history.check() == 40
    assert history.highest("t") == 40


def test_neighbours_are_merged():
    history = history_of((1, [(1, 1), (2, 2), (3, 10)]))
    assert list(history.tracks[0].firsts) == [1] and list(history.tracks[0].lasts) == [10]


@pytest.mark.parametrize(
    "tracks",
    [
        [(1, [(1, 10)]), (2, [(10, 12)])],
        [(1, [(1, 100)]), (2, [(5, 6)]), (3, [(101, 102)])],
        [(1, [(1, 100), (200, 201)]), (2, [(102, 103), (150, 200)])],
        [(1, [(7, 7)]), (2, [(7, 7)])],
    ],
)
def test_an_id_twice_is_found(tracks):
    with pytest.raises(AssertionError, match="repeats"):
        history_of(*tracks).check()


def test_falling_ids_of_one_client_and_node_are_found():
    with pytest.raises(AssertionError, match="came after"):
        history_of((1, [(11, 20), (1, 10)])).check()


# --- over all clients of a node ---


def timed(*answers):
    """The history of answers: client, node, first, last, sent, received[, tag]."""
    history = History()
    tracks = {}
    for client, node, first, last, sent, received, *tag in answers:
        where = (client, node, *(tag or ["t"]))
        if where not in tracks:
            tracks[where] = history.track(*where)
        response = Response(200, {}, b"")
        response.sent_ns, response.received_ns = sent, received
        tracks[where].add(first, last, response)
    return history


def test_ids_that_rise_over_the_clients_of_a_node_pass():
    rising = timed(("a", 1, 1, 10, 5, 9), ("b", 1, 11, 20, 10, 15), ("a", 1, 21, 21, 16, 20))
    assert rising.check() == 21


@pytest.mark.parametrize(
    "later",
    [
        ("b", 1, 5, 7, 9, 15),  # sent when the other was received: concurrent
        ("b", 1, 5, 7, 1, 15),
        ("b", 2, 5, 7, 10, 15),  # another node
        ("b", 1, 5, 7, 10, 15, "other"),
    ],
)
def test_ids_that_need_not_rise_pass(later):
    assert timed(("a", 1, 8, 10, 5, 9), later).check() == 6


@pytest.mark.parametrize(
    "answers",
    [
        # A stale segment: another client's ids of the next one were known.
        [("a", 1, 101, 110, 5, 9), ("b", 1, 1, 4, 10, 15)],
        # Behind the highest of several, which came first.
        [("a", 1, 50, 50, 1, 2), ("b", 1, 10, 10, 1, 5), ("c", 1, 40, 45, 6, 7)],
        # Its answer was the last one, and its request the first that came too late.
        [("a", 1, 30, 30, 1, 20), ("b", 1, 31, 31, 1, 3), ("c", 1, 29, 29, 4, 90)],
        # Ids next to those of the same client, of another answer.
        [("a", 1, 1, 1, 1, 2), ("b", 1, 7, 7, 3, 4), ("a", 1, 2, 2, 5, 6)],
    ],
)
def test_falling_ids_of_two_clients_of_a_node_are_found(answers):
    with pytest.raises(AssertionError, match="node 1, tag t: .* was asked for after "):
        timed(*answers).check()


def test_answers_without_times_are_compared_within_their_track():
    history = timed(("a", 1, 8, 10, 5, 9))
    history.track("b", 1, "t").add(1, 2)
    history.track("c", 1, "t").add(3, 4, Response(200, {}, b""))  # its sending is not known
    assert history.check() == 7


def fallen_plainly(answers):
    """Every answer compared with every other."""
    places = range(len(answers))

    def is_wrong(at, other):
        before = answers.received[other] < answers.sent[at]
        return before and answers.lasts[other] >= answers.firsts[at]

    return sum(any(is_wrong(at, other) for other in places) for at in places)


def test_falling_ids_are_those_that_all_comparisons_find():
    source = random.Random(5)
    for _ in range(2000):
        answers = Answers()
        for _ in range(source.randint(1, 8)):
            first, sent = source.randint(1, 20), source.randint(0, 20)
            answers.add(first, first + source.randint(0, 3), sent, sent + source.randint(0, 6))
        assert len(answers.fallen()) == fallen_plainly(answers)


def test_a_request_knows_its_times():
    import socket
    import threading

    from client import once

    def serve(server):
        peer, _ = server.accept()
        peer.recv(1000)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n17")
        peer.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        begin = time.monotonic_ns()
        response = once(server.getsockname(), "GET", "/")
        end = time.monotonic_ns()
        thread.join()
    assert begin <= response.sent_ns < response.received_ns <= end
    ranges = parse_ids(response, "plain", 1)
    assert ranges == [(17, 17)]
    assert (ranges.sent_ns, ranges.received_ns) == (response.sent_ns, response.received_ns)


@pytest.mark.parametrize("first,last", [(0, 1), (-5, 1), (5, 4), (1, (1 << 63) - 1)])
def test_ids_outside_the_range_are_found(first, last):
    with pytest.raises(AssertionError, match="no range"):
        history_of((1, [(first, last)])).check()


def answer(body):
    return Response(200, {}, body)


# Shows lesson-js53.
def test_formats_are_read():
    assert parse_ids(answer(b"17"), "plain", 1) == [(17, 17)]
    assert parse_ids(answer(b"17\n18\n21\n"), "text", 3) == [(17, 18), (21, 21)]
    assert parse_ids(answer(b"1 10\n12 12\n"), "range", 11) == [(1, 10), (12, 12)]
    body = b'{"tag":"t","count":2,"ranges":[{"first":"1","last":"2"}]}'
    assert parse_ids(answer(body), "json", 2) == [(1, 2)]


@pytest.mark.parametrize(
    "body,wire_format,count",
    [
        (b"17\n", "plain", 1),
        (b"017", "plain", 1),
        (b"-1", "plain", 1),
        (b"9223372036854775807", "plain", 1),
        (b"1\n2", "text", 2),
        (b"2\n1\n", "text", 2),
        (b"1\n1\n", "text", 2),
        (b"1 10\n", "range", 11),
        (b'{"tag":"t","count":1,"ranges":[{"first":1,"last":1}]}', "json", 1),
    ],
)
def test_deviating_answers_are_refused(body, wire_format, count):
    with pytest.raises(ProtocolError):
        parse_ids(answer(body), wire_format, count)
