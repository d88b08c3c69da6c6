"""Ids: formats, batches over the switch of two segments, contiguous ranges, and the end of 63
bits."""

import threading

import pytest

from checker import History
from client import parse_ids
from drain import drain
from wait import wait_until

LAST_ID = (1 << 63) - 2
FORMATS = ["text", "range", "json"]


def take(node, tag, count=1, wire_format="plain", options=""):
    query = "" if wire_format == "plain" else f"?count={count}&format={wire_format}{options}"
    answer = node.get(f"/api/segment/get/{tag}{query}")
    assert answer.status == 200, answer
    return parse_ids(answer, wire_format, count)


def test_single_id_as_leaf_answers(shared, tag):
    shared.create_tag(tag)
    for node in shared.nodes:
        for method in ("GET", "POST"):
            answer = node.http(method, f"/api/segment/get/{tag}")
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/plain;charset=UTF-8"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.body.isdigit()
        answer = node.http("GET", f"/api/segment/get/{tag}", headers={"Accept": "application/json"})
        assert answer.status == 200 and answer.body.isdigit()


def test_first_id_is_max_id(shared, tag):
    shared.create_tag(tag, max_id=5000)
    assert take(shared.nodes[0], tag) == [(5000, 5000)]
    assert take(shared.nodes[0], tag) == [(5001, 5001)]


def test_count_with_text_ends_every_line(shared, tag):
    shared.create_tag(tag)
    answer = shared.nodes[0].get(f"/api/segment/get/{tag}?count=1")
    assert answer.body == b"1\n"
    answer = shared.nodes[0].get(f"/api/segment/get/{tag}?count=3")
    assert answer.body == b"2\n3\n4\n"


def test_json_names_the_tag(shared, tag):
    shared.create_tag(tag)
    answer = shared.nodes[0].get(f"/api/segment/get/{tag}?count=3&format=json")
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json() == {"tag": tag, "count": 3, "ranges": [{"first": "1", "last": "3"}]}


@pytest.mark.parametrize("wire_format", FORMATS)
def test_batch_over_the_switch_of_two_segments(shared, tag, wire_format):
    """More ids than the segment has left, while another node takes the segments in between."""
    shared.create_tag(tag, step=10, max_step=10)
    one, two, _ = shared.nodes
    history = History()
    track = history.track("one", one.id, tag)
    other = history.track("two", two.id, tag)
    split = 0
    for _ in range(8):
        ranges = take(two, tag, 7, wire_format)
        for first, last in ranges:
            other.add(first, last, ranges)
        ranges = take(one, tag, 27, wire_format)
        split += len(ranges) > 1
        for first, last in ranges:
            track.add(first, last, ranges)
    history.check()
    assert split > 0, "no batch was made of two ranges"


def test_batch_of_the_most_there_is(shared, tag):
    """count=100,000 from a tag whose segments grow as they are asked for."""
    shared.create_tag(tag)
    history = History()
    for node in shared.nodes:
        track = history.track("c", node.id, tag)
        for wire_format in FORMATS:
            ranges = take(node, tag, 100_000, wire_format)
            for first, last in ranges:
                track.add(first, last, ranges)
    assert history.check() == 900_000


# Shows lesson-contiguous.
def test_contiguous(shared, tag):
    shared.create_tag(tag, step=10, max_step=10)
    node = shared.nodes[0]
    history = History()
    track = history.track("c", node.id, tag)
    for _ in range(10):
        for count in (7, 10, 1, 6):
            ranges = take(node, tag, count, "range", "&contiguous=1")
            assert len(ranges) == 1
            track.add(*ranges[0], ranges)
    history.check()
    refused = node.get(f"/api/segment/get/{tag}?count=11&contiguous=1")
    assert (refused.status, refused.code) == (409, "not_contiguous")
    # The refusal took nothing away from the node's service.
    ranges = take(node, tag, 10, "json", "&contiguous=1")
    for first, last in ranges:
        track.add(first, last, ranges)
    history.check()


def test_contiguous_larger_than_the_step(shared, tag):
    """One range of more than a step, up to max_step: the next segment is made large enough."""
    shared.create_tag(tag, step=10, max_step=100_000)
    node = shared.nodes[1]
    for count in (50, 1000, 100_000):
        assert len(take(node, tag, count, "range", "&contiguous=1")) == 1


@pytest.mark.quiet
def test_many_threads_on_a_tiny_step(shared, tag):
    """Step 1: every id is a segment of its own until the node has learnt the rate."""
    shared.create_tag(tag, step=1, max_step=5)
    history = History()
    faults = []

    def run(node, number):
        track = history.track(f"c{number}", node.id, tag)
        try:
            for _ in range(100):
                ranges = take(node, tag, 3, "range")
                for first, last in ranges:
                    track.add(first, last, ranges)
        except Exception as error:
            faults.append(error)

    threads = [
        threading.Thread(target=run, args=(shared.nodes[i % 3], i), daemon=True) for i in range(9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert not faults, faults
    assert history.check() == 9 * 100 * 3


@pytest.mark.parametrize("step", [1, 2, 1000])
# Shows P8-end, lesson-end-of-int64.
def test_end_of_int64(shared, tag, step):
    """The last seven ids there are: each once, none beyond, none negative; then 409 everywhere."""
    shared.create_tag(tag, max_id=LAST_ID - 6, step=step, force=True)
    history = History()
    drain(shared, tag, history)
    assert history.check() == 7
    assert history.highest(tag) == LAST_ID
    assert min(min(track.firsts) for track in history.tracks if track.firsts) == LAST_ID - 6
    for node in shared.nodes:
        for query in ("", "?count=5&format=range", "?count=2&contiguous=1", "?timeout_ms=0"):
            answer = node.get(f"/api/segment/get/{tag}{query}")
            assert (answer.status, answer.code) == (409, "exhausted"), answer
        assert node.get_json(f"/api/tags/{tag}")["max_id"] in (str(LAST_ID + 1), LAST_ID + 1)


# Shows P8-end.
def test_end_of_int64_with_a_batch_too_large(shared, tag):
    """A batch of more ids than there are is refused and nothing is handed out twice."""
    shared.create_tag(tag, max_id=LAST_ID - 9, force=True)
    node = shared.nodes[0]
    history = History()
    track = history.track("c", node.id, tag)
    answer = node.get(f"/api/segment/get/{tag}?count=4&format=range")
    for first, last in parse_ids(answer, "range", 4):
        track.add(first, last, answer)
    answer = node.get(f"/api/segment/get/{tag}?count=100&format=range")
    assert (answer.status, answer.code) == (409, "exhausted"), answer
    drain(shared, tag, history)
    history.check()


def halved(take_some, most):
    """As a client does that wants all there is: each time half of what was refused."""
    taken = []
    count = most
    while count > 0:
        got = take_some(count)
        count = count if got else count // 2
        taken += got or []
    return taken


@pytest.mark.parametrize(
    "step,options",
    # In small segments a contiguous count that is served may skip the rest of one.
    [(10, ""), (60, ""), (1000, ""), (1000, "&contiguous=1"), (60, "&timeout_ms=0")],
)
def test_a_count_beyond_the_max_takes_nothing(shared, tag, step, options):
    """What is refused with 409 is still there: of 250 ids all are had in the end."""
    made = shared.nodes[0].http("PUT", f"/api/tags/{tag}", {"step": step, "max": 251})
    assert made.status == 201, made
    node = shared.nodes[1]
    contiguous = "contiguous" in options
    history = History()
    track = history.track("c", node.id, tag)

    def some(count):
        answer = node.get(f"/api/segment/get/{tag}?count={count}&format=range{options}")
        if answer.status == 200:
            for first, last in parse_ids(answer, "range", count):
                track.add(first, last, answer)
            return [count]
        allowed = [(409, "exhausted")]
        allowed += [(409, "not_contiguous")] if contiguous else []
        allowed += [(503, "timeout")] if "timeout" in options else []
        assert (answer.status, answer.code) in allowed, answer
        return None

    some(1)
    taken = sum(halved(some, 400))
    if "timeout" in options:
        wait_until(lambda: some(1) is None, 10, "the rest")
        drain(shared, tag, history)
    assert history.check() == 250, taken


def test_a_raised_max_is_known_at_once(shared, tag):
    """A node that judged by an older max would refuse what another node has allowed."""
    assert shared.nodes[0].http("PUT", f"/api/tags/{tag}", {"max": 101, "step": 10}).status == 201
    node = shared.nodes[1]
    for number in range(1, 30):
        refused = node.get(f"/api/segment/get/{tag}?count=101&format=range")
        assert (refused.status, refused.code) == (409, "exhausted"), refused
        more = {"max": 101 + number * 100}
        raised = shared.nodes[number % 3].http("PUT", f"/api/tags/{tag}", more)
        assert raised.status == 200, raised
        answer = node.get(f"/api/segment/get/{tag}?count=100&format=range")
        assert answer.status == 200, (number, answer)


# Shows P8-end.
def test_exhausted_survives_a_restart(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag, max_id=LAST_ID - 2, force=True)
    history = History()
    drain(cluster, tag, history)
    assert history.check() == 3
    cluster.kill_all()
    cluster.start()
    for node in cluster.nodes:
        answer = node.get(f"/api/segment/get/{tag}")
        assert (answer.status, answer.code) == (409, "exhausted"), answer
    # Only by force can the tag be used again.
    answer = cluster.nodes[0].http("PUT", f"/api/tags/{tag}", {"max_id": 1})
    assert (answer.status, answer.code) == (409, "would_repeat")
    answer = cluster.nodes[0].http("PUT", f"/api/tags/{tag}?force=1", {"max_id": 1})
    assert answer.status == 200
    for node in cluster.nodes:
        # Elsewhere it is exhausted until the change is applied there.
        wait_until(
            lambda n=node: n.get(f"/api/segment/get/{tag}").status == 200, 5, f"{node} goes on"
        )
        assert take(node, tag)[0][0] < 10_000


@pytest.mark.parametrize("max_id,status", [(LAST_ID + 1, 201), (LAST_ID + 2, 400), (1 << 64, 400)])
def test_max_id_at_the_end_itself(shared, tag, max_id, status):
    answer = shared.nodes[0].http("PUT", f"/api/tags/{tag}?force=1", {"max_id": max_id})
    assert answer.status == status, answer
    answer = shared.nodes[1].get(f"/api/segment/get/{tag}")
    if status == 201:
        assert (answer.status, answer.code) == (409, "exhausted")
    else:
        assert (answer.status, answer.code) == (404, "unknown_tag")
