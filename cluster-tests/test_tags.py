"""The life of tags on a real cluster: made, changed, deleted, made again; lists, bulk, reads."""

import itertools
import json

import pytest

from checker import History
from client import tag_path
from wait import wait_until

NAMES = [
    "plain",
    "dots.in.the.name",
    ".leading.dot",
    "with/slash",
    "/",
    "a b",
    "100%",
    "q?x=1&y#z",
    "größe-Ω-数-🙂",
    "x" * 128,
    "ü" * 64,
    "+plus+",
]


def path(name):
    return f"/api/tags/{tag_path(name)}"


def get_id(node, name, query=""):
    return node.get(f"/api/segment/get/{tag_path(name)}{query}")


@pytest.mark.parametrize("name", NAMES)
def test_names(shared, name):
    """The whole name counts, percent-encoded where it must be, on every node."""
    name = name if len(name.encode()) > 100 else f"names.{name}"
    made = shared.nodes[0].http("PUT", path(name), {"description": "d"})
    assert made.status == 201, made
    for node in shared.nodes:
        assert node.get_json(path(name))["tag"] == name
        assert get_id(node, name).status == 200
    listed = shared.nodes[1].get_json(f"/api/tags?prefix={tag_path(name)}")["tags"]
    assert name in [row["tag"] for row in listed]
    answer = shared.nodes[2].get(f"/api/segment/get/{tag_path(name)}?count=2&format=json")
    assert answer.json()["tag"] == name
    assert shared.nodes[2].http("DELETE", path(name)).status == 204


HIDDEN = [0x9, 0x7f, 0x85, 0xad, 0x61c, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x2069, 0xfe0f,
          0xfeff, 0xe0041]


@pytest.mark.parametrize("code", HIDDEN, ids=hex)
# Shows attack-names.
def test_no_new_name_has_what_nobody_sees(shared, tag, code):
    """The answer names it, and its place; whatever node is asked, alone and in a list."""
    name = f"{tag}{chr(code)}x"
    place = f"U+{code:04X} at character {len(tag) + 1} is"
    for node in shared.nodes:
        answer = node.http("PUT", path(name))
        assert answer.status == 400 and place in answer.json()["message"], answer
        answer = node.http("POST", "/api/tags", [{"tag": tag}, {"tag": name}])
        assert answer.status == 400 and place in answer.json()["message"], answer
        assert chr(code) not in answer.json()["message"]
    assert get_id(shared.nodes[0], name).status == (400 if code < 0xa0 else 404)
    assert shared.nodes[0].get_json(f"/api/tags?prefix={tag}")["tags"] == []


@pytest.mark.parametrize("end, why", [
    ("cafe\u0301", "U+0301 at character"),
    ("\u0430bc", "U+0062 at character"),
    ("x\u00a0y", "U+00A0 at character"),
    ("\uff58", "U+FF58 at character"),
    ("caf\u00e9 \u8ba2\u5355 \u0437\u0430\u043a\u0430\u0437 Order", None),
])
def test_a_new_name_that_looks_like_another_is_warned_of(shared, tag, end, why):
    """Once, when the tag is made; beside what else there is to warn of."""
    made = shared.nodes[0].http("PUT", path(f"{tag}.{end}"))
    assert made.status == 201 and (why or "") in made.json().get("warning", ""), made
    assert ("warning" in made.json()) == (why is not None)
    again = shared.nodes[1].http("PUT", path(f"{tag}.{end}"), {"max": 5})
    assert again.status == 200 and "warning" not in again.json(), again
    both = shared.nodes[0].http("PUT", path(f"{tag}.{end}2"), {"max": 5, "max_id": 5})
    assert both.status in (201, 409), both
    assert get_id(shared.nodes[2], f"{tag}.{end}").status == 200


def test_dots_do_not_merge_tags(shared, tag):
    """Leaf drops what follows the last dot; here two such names are two tags."""
    shared.create_tag(f"{tag}.a", max_id=1000)
    shared.create_tag(f"{tag}.b", max_id=2000)
    assert get_id(shared.nodes[0], f"{tag}.a").body == b"1000"
    assert get_id(shared.nodes[0], f"{tag}.b").body == b"2000"
    assert get_id(shared.nodes[0], f"{tag}.c").status == 404


def test_usable_on_every_node_at_once(shared, tag):
    """A tag can be used everywhere as soon as its 201 is there, whichever node made it."""
    for number, (maker, user) in enumerate(itertools.product(shared.nodes, shared.nodes)):
        name = f"{tag}.{number}"
        with user.connect() as connection:
            assert connection.request("GET", "/livez").status == 200
            shared.create_tag(name, node=maker)
            answer = connection.request("GET", f"/api/segment/get/{name}")
            assert answer.status == 200, f"made on {maker}, used on {user}: {answer}"


def test_asked_for_before_it_was_made(shared, tag):
    """A node that said 404 does not keep saying so."""
    for node in shared.nodes:
        assert (get_id(node, tag).status, get_id(node, tag).code) == (404, "unknown_tag")
    shared.create_tag(tag)
    for node in shared.nodes:
        assert get_id(node, tag).status == 200


def test_fields_and_defaults(shared, tag):
    made = shared.create_tag(tag).json()
    assert made["tag"] == tag
    assert (made["step"], made["max_step"], made["mode"]) == (1000, 1_000_000, "trend")
    assert int(made["max_id"]) == 1
    changed = shared.nodes[1].http(
        "PUT", path(tag), {"step": 7, "max_step": 70, "description": "größer"}
    )
    assert changed.status == 200
    for node in shared.nodes:
        row = node.get_json(path(tag))
        assert (row["step"], row["max_step"], row["description"]) == (7, 70, "größer")
        assert row["mode"] == "trend" and row["created"] and row["updated"]
        assert row == changed.json()


# Shows P5-read.
def test_reads_right_after_writes(shared, tag):
    """Linearizable reads: what one node acknowledged, every node shows."""
    shared.create_tag(tag)
    for number in range(30):
        writer = shared.nodes[number % 3]
        answer = writer.http("PUT", path(tag), {"description": f"v{number}", "step": number + 1})
        assert answer.status == 200
        for node in shared.nodes:
            row = node.get_json(path(tag))
            assert (row["description"], row["step"]) == (f"v{number}", number + 1)
            rows = node.get_json(f"/api/tags?prefix={tag_path(tag)}")["tags"]
            assert rows[0]["description"] == f"v{number}"


def test_local_reads_catch_up(shared, tag):
    shared.create_tag(tag, description="new")
    for node in shared.nodes:
        wait_until(
            lambda n=node: n.get_json(f"{path(tag)}?consistency=local")["description"] == "new",
            5,
            f"{node} has applied the tag",
        )


def test_changed_step_is_used(shared, tag):
    shared.create_tag(tag, step=10, max_step=10)
    node = shared.nodes[0]
    assert get_id(node, tag).status == 200
    assert node.http("PUT", path(tag), {"step": 500, "max_step": 500}).status == 200
    before = int(node.get_json(path(tag))["max_id"])
    assert get_id(node, tag, "?count=100").status == 200
    after = int(node.get_json(path(tag))["max_id"])
    assert after - before >= 500, "the old step is still asked for"


def test_max_id_is_raised(shared, tag):
    shared.create_tag(tag)
    assert shared.nodes[1].http("PUT", path(tag), {"max_id": 1_000_000}).status == 200
    for node in shared.nodes:
        assert int(get_id(node, tag).body) >= 1_000_000


def test_max_id_is_lowered_only_by_force(shared, tag):
    shared.create_tag(tag, max_id=1_000_000)
    for node in shared.nodes:
        assert int(get_id(node, tag).body) >= 1_000_000
    refused = shared.nodes[1].http("PUT", path(tag), {"max_id": 10})
    assert (refused.status, refused.code) == (409, "would_repeat")
    forced = shared.nodes[1].http("PUT", f"{path(tag)}?force=1", {"max_id": 10})
    assert forced.status == 200 and int(forced.json()["max_id"]) == 10
    # Every node drops what it held above: at once where the change was made, elsewhere when it is
    # applied there.
    for node in shared.nodes:
        wait_until(lambda n=node: int(get_id(n, tag).body) < 1_000_000, 5, f"{node} is below")


# Shows P1-tags, lesson-recreate.
def test_deleted_everywhere_and_made_again_above(shared, tag):
    shared.create_tag(tag, step=100)
    handed_out = [int(get_id(node, tag).body) for node in shared.nodes for _ in range(3)]
    assert shared.nodes[1].http("DELETE", path(tag)).status == 204
    for node in shared.nodes:
        wait_until(lambda n=node: get_id(n, tag).status == 404, 5, f"{node} says 404")
        answer = get_id(node, tag)
        assert (answer.status, answer.code) == (404, "unknown_tag")
        answer = node.get(path(tag))
        assert (answer.status, answer.code) == (404, "unknown_tag")
        assert node.get_json(f"/api/tags?prefix={tag_path(tag)}")["tags"] == []
    again = shared.nodes[2].http("DELETE", path(tag))
    assert (again.status, again.code) == (404, "unknown_tag")

    # Made again it goes on above. Asked to begin below it is refused, as a living one is.
    for _ in range(2):
        refused = shared.nodes[1].http("PUT", path(tag), {"max_id": 1})
        assert (refused.status, refused.code) == (409, "would_repeat"), refused
        made = shared.create_tag(tag, node=shared.nodes[2]).json()
        assert int(made["max_id"]) > max(handed_out)
        for node in shared.nodes:
            value = int(get_id(node, tag).body)
            assert value > max(handed_out)
            handed_out.append(value)
        refused = shared.nodes[1].http("PUT", path(tag), {"max_id": 1})
        assert (refused.status, refused.code) == (409, "would_repeat"), refused
        assert "or none, leaves it as it is" in refused.json()["message"], "the safe way on"
        assert shared.nodes[0].http("DELETE", path(tag)).status == 204

    # Forced it begins where it is told.
    forced = shared.nodes[0].http("PUT", f"{path(tag)}?force=1", {"max_id": 1})
    assert forced.status == 201
    for node in shared.nodes:
        wait_until(
            lambda n=node: (a := get_id(n, tag)).status == 200 and int(a.body) < max(handed_out),
            5,
            f"{node} starts again",
        )


def test_made_and_deleted_in_quick_turns(shared, tag):
    """No waiting between: a tag is usable everywhere when its 201 is there, and repeats nothing."""
    history = History()
    tracks = {node: history.track("c", node.id, tag) for node in shared.nodes}
    for number in range(40):
        maker, deleter = shared.nodes[number % 3], shared.nodes[(number // 3) % 3]
        shared.create_tag(tag, node=maker, step=number % 5 + 1)
        for node in shared.nodes:
            answer = get_id(node, tag)
            assert answer.status == 200, f"round {number}, {maker} then {node}: {answer}"
            tracks[node].add(int(answer.body), int(answer.body), answer)
        assert deleter.http("DELETE", path(tag)).status == 204
    history.check()


def test_list_pages(shared, tag):
    names = sorted((f"{tag}/{n:03}{c}" for n in range(40) for c in "aé."), key=str.encode)
    answer = shared.nodes[0].http("POST", "/api/tags", [{"tag": name} for name in reversed(names)])
    assert answer.status == 200, answer
    for node in shared.nodes:
        for limit in (1, 7, 120, 1000):
            seen = []
            after = ""
            while True:
                page = node.get_json(
                    f"/api/tags?prefix={tag_path(tag)}&limit={limit}&after={tag_path(after)}"
                )
                got = [row["tag"] for row in page["tags"]]
                assert len(got) <= limit
                seen.extend(got)
                if not page.get("next"):
                    break
                after = page["next"]
                assert after == got[-1]
            assert seen == names
    after = tag_path(names[100])
    page = shared.nodes[0].get_json(f"/api/tags?prefix={tag_path(tag)}&after={after}")
    assert [row["tag"] for row in page["tags"]] == names[101:]
    for limit in ("0", "1001", "x", "-1"):
        answer = shared.nodes[0].get(f"/api/tags?limit={limit}")
        assert (answer.status, answer.code) == (400, "bad_request"), answer


def test_bulk_is_all_or_nothing(shared, tag):
    shared.create_tag(f"{tag}.old", max_id=100)
    rows = [{"tag": f"{tag}.{n}", "max_id": n + 1} for n in range(50)]
    lowering = {"tag": f"{tag}.old", "max_id": 5}
    refused = shared.nodes[0].http("POST", "/api/tags", rows + [lowering])
    assert (refused.status, refused.code) == (409, "would_repeat"), refused
    invalid = shared.nodes[0].http("POST", "/api/tags", rows + [{"tag": f"{tag}.bad", "step": 0}])
    assert invalid.status == 400, invalid
    for node in shared.nodes:
        listed = node.get_json(f"/api/tags?prefix={tag_path(tag)}")["tags"]
        assert [row["tag"] for row in listed] == [f"{tag}.old"]

    done = shared.nodes[1].http("POST", "/api/tags", rows + [{"tag": f"{tag}.old", "step": 5}])
    assert done.status == 200, done
    for node in shared.nodes:
        listed = node.get_json(f"/api/tags?prefix={tag_path(tag)}")["tags"]
        assert len(listed) == 51
        assert int(get_id(node, f"{tag}.49").body) >= 50


def test_bulk_of_lines(shared, tag):
    lines = "\n".join(json.dumps({"tag": f"{tag}.{n}", "step": n + 1}) for n in range(20)) + "\n"
    answer = shared.nodes[2].http(
        "POST", "/api/tags", lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status == 200, answer
    for node in shared.nodes:
        assert node.get_json(path(f"{tag}.19"))["step"] == 20


def test_bulk_at_its_limit_and_beyond(make_cluster, tag):
    cluster = make_cluster()
    rows = [{"tag": f"{tag}.{n}"} for n in range(10_001)]
    refused = cluster.nodes[0].http("POST", "/api/tags", rows)
    assert refused.status in (400, 413), refused
    answer = cluster.nodes[0].http("POST", "/api/tags", rows[:10_000])
    assert answer.status == 200, answer
    for node in cluster.nodes:
        assert get_id(node, f"{tag}.9999").status == 200
        page = node.get_json(f"/api/tags?prefix={tag_path(tag)}&limit=1000")
        assert len(page["tags"]) == 1000 and page["next"]


# Shows P5-read.
def test_concurrent_changes_are_all_kept(make_cluster, tag):
    """Writes through all nodes while the leader is killed: what was acknowledged is there."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    acknowledged = []
    for number in range(60):
        if number == 20:
            cluster.leader().kill9()
        node = cluster.running()[number % len(cluster.running())]
        answer = node.http("PUT", path(f"{tag}.{number}"), {"max_id": 1000 + number}, timeout=30)
        # An unknown outcome is told as such; only acknowledged writes must be found.
        if answer.status in (200, 201):
            acknowledged.append(number)
        else:
            assert answer.status == 503, answer
    assert len(acknowledged) >= 50
    for node in cluster.running():
        for number in acknowledged:
            assert int(node.get_json(path(f"{tag}.{number}"))["max_id"]) == 1000 + number
