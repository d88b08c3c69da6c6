"""The checker itself: it must see what it is there to see."""

import pytest

from checker import History
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


@pytest.mark.parametrize("first,last", [(0, 1), (-5, 1), (5, 4), (1, (1 << 63) - 1)])
def test_ids_outside_the_range_are_found(first, last):
    with pytest.raises(AssertionError, match="no range"):
        history_of((1, [(first, last)])).check()


def answer(body):
    return Response(200, {}, body)


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
