"""Every operation that a sequence may have: how it is drawn, what it does, and what is right then.

An operation is a name and a few plain words, and what they mean is looked up when it runs: so a
sequence can be cut, repeated and pasted. draw(rng, plan) makes the words, run(run, **words) does it
and checks. covers names what of the routes of http/api/api.c, the methods of
http/resp/api/resp.c and the commands of src/ctl/cmd/all.h it uses; NOT_DRAWN has the rest,
with why. scripts/check-model compares.
"""

import json
import os
import socket
import struct
import time

from model.certified import HOLDERS, Held, ends, probe
from model.reference import DATED, NO_MAX, SECRET, Share, must

OPERATIONS = {}
SEGMENT = "/api/segment/get/"
PREFIX = {"alice": "a/", "bob": "b/", "shop": "a/", "operator": ""}


class Operation:
    def __init__(self, run, draw, weight, cost_s, at_most, covers):
        self.run, self.draw, self.weight = run, draw, weight
        self.cost_s, self.at_most, self.covers = cost_s, at_most, covers


def operation(draw, covers, weight=10, cost_s=0.002, at_most=None):
    """weight: how often, among the others; at_most: in one sequence."""

    def add(run):
        OPERATIONS[run.__name__] = Operation(run, draw, weight, cost_s, at_most, covers)
        return run

    return add


def path_of(tag):
    return tag.replace("/", "%2F")


def expect(answer, codes, what):
    """The answer's code is one of these, or its outcome is unknown."""
    must(answer.code in codes or answer.code == "unknown", f"{answer.code.replace(' ', '-')}"
         f"-where-{'-or-'.join(sorted(codes))}", f"{what}: {answer}")


def may_use(token, tag):
    return tag.startswith(PREFIX[token])


# --- ids ---

PROTOCOLS = ["text"] * 5 + ["range", "json", "post", "incr", "incrby", "next", "ctl", "proxied"]


def draw_ids(rng, plan):
    tag = rng.choice(plan.tags)
    words = {"tag": tag, "node": rng.randrange(plan.size), "as_": plan.owner(rng, tag),
             "protocol": rng.choice(PROTOCOLS), "count": rng.choice(plan.counts)}
    if rng.random() < plan.keys:
        words["key"] = rng.choice(["k0", "k1", "k2"])
    if rng.random() < 0.3:
        words["number"] = True
    return words


@operation(draw_ids, weight=100, covers=[
    "GET /api/segment/get/", "POST /api/segment/get/", "INCR", "INCRBY", "LEAFD.NEXT", "NEXT",
    "GET /api/segment/decode/", "AUTH", "HELLO"])
def ids(run, tag, node=0, as_="operator", protocol="text", count=1, key=None, number=False):
    """Take ids."""
    row = run.tag(tag)
    if key is not None and (not row.alive or protocol in ("incr", "incrby", "ctl", "proxied")):
        key = None
    if row.shape and protocol in ("range", "json", "ctl"):
        number = True
    run.see(row, node)
    if run.size == 1 and row.alive and row.left_from is None and row.max != NO_MAX:
        run.look(row)
    answer, count = ask(run, row, node, as_, protocol, count, key, number)
    what = f"ids of {tag}"
    if not may_use(as_, tag):
        return expect(answer, {"forbidden_tag"}, what)
    if not row.alive and not row.murky:
        behind = node in row.behind
        expect(answer, {"unknown_tag", "ok"} if behind else {"unknown_tag"}, what)
        if answer.ok:  # the texts of what is gone elsewhere nobody takes apart
            took(run, row, node, answer, what, answer.numbers or [])
        return None
    if row.murky and answer.code == "unknown_tag":
        return None
    numbers = count > 1 if protocol == "incrby" else number and protocol not in ("incr", "next")
    if row.shape in SECRET and as_ == "shop" and numbers and not row.murky:
        return expect(answer, {"forbidden", "NOPERM"}, what)
    if key is not None:
        return keyed(run, row, node, as_, key, count, answer, what)
    codes = {"ok"}
    if protocol in ("incrby", "incr"):
        codes.add("not_contiguous")
        row.left_from = None
    if row.may_be_exhausted(count, run.size == 1):
        codes.add("exhausted")
    if answer.code == "exhausted" and "exhausted" not in codes:
        must(False, f"exhausted-too-soon-{row.mode}", f"{what}: {count} asked for, {row.max} is "
             f"max, {row.next if row.mode == 'strict' else row.available()} is next or left")
    expect(answer, codes, what)
    if answer.code == "unknown":
        row.slack += count
        row.left_from = None
    elif answer.ok:
        took(run, row, node, answer, what)
        given = answer.numbers if answer.numbers is not None else answer.texts
        must(len(given) == count, "wrong-count", f"{what}: {answer} where {count}")
    return None


def keyed(run, row, node, as_, key, count, answer, what):
    codes, entry = run.model.key_must(row, key, as_, count)
    if "ok" in codes and row.may_be_exhausted(count, run.size == 1) and (
            entry is None or entry["maybe"] or entry["days"] != run.model.days):
        codes = codes | {"exhausted"}
    if answer.ok and "ok" not in codes and entry is not None and entry["owner"] != as_:
        must(False, "key-of-another", f"{what}: {as_} got what {entry['owner']} was given for the "
             f"key {key}: {answer}")
    expect(answer, codes, what)
    sure = entry is not None and not entry["maybe"] and entry["days"] == run.model.days
    if answer.code == "unknown":
        if entry is None:
            row.slack += count
            run.model.keys[row.name, key] = {"owner": as_, "count": count, "days": run.model.days,
                                             "maybe": True, "ids": None}
        return
    if not answer.ok:
        return
    given = same_ids(run, row, answer)
    if entry is not None and entry["ids"] == given:
        must(answer.replayed is not False, "replay-not-told", f"{what}: {answer}")
        return
    must(not sure or entry["ids"] is None, "key-gave-others",
         f"{what}: the key {key} had {entry and entry['ids'][:3]}, now {answer}")
    took(run, row, node, answer, what, given)
    run.model.keys[row.name, key] = {"owner": as_, "count": count, "days": run.model.days,
                                     "maybe": False, "ids": given}


def same_ids(run, row, answer):
    """Its ids as numbers: the same however they were asked for."""
    if answer.numbers is not None:
        return answer.numbers
    return numbers_of(run, row, answer.texts)


def numbers_of(run, row, texts):
    """The numbers of texts, by the cluster, first and last; what lies between where it must be."""
    first = decode_text(run, row, texts[0])
    last = decode_text(run, row, texts[-1]) if len(texts) > 1 else first
    if last - first == len(texts) - 1:
        return list(range(first, last + 1))
    must(row.mode == "trend" or row.murky or row.behind, "strict-gap", f"{texts[0]} to {texts[-1]}")
    if len(texts) > 30:
        return []
    return [first, *(decode_text(run, row, text) for text in texts[1:-1]), last]


def decode_text(run, row, text):
    from urllib.parse import quote
    target = f"/api/segment/decode/{path_of(row.name)}?text={quote(text, safe='')}"
    answer = run.certain(lambda: run.world.http(0, "operator", "GET", target))
    must(answer.ok, f"decode-{answer.code}", f"{row.name}: {text} was handed out, now {answer}")
    return int(answer.json["id"])


def took(run, row, node, answer, what, numbers=None):
    if numbers is None:
        numbers = answer.numbers
        if numbers is None:
            numbers = numbers_of(run, row, answer.texts)
    run.model.took(row, node, numbers, answer.texts, what)
    run.taken += len(answer.texts or numbers)


def ask(run, row, node, as_, protocol, count, key, number):
    """The answer, its ids as numbers or texts; and how many were asked for."""
    world = run.world
    if protocol == "ctl":
        words = ["next", row.name, "-n", count] + (["--numbers"] if row.shape else [])
        answer = world.leafctl(node, as_, *words)
        return with_ids(answer, False, "text"), count
    if protocol == "incr":
        return shaped(row, world.resp(node, as_, "INCR", row.name)), 1
    if protocol == "incrby":
        answer = world.resp(node, as_, "INCRBY", row.name, count)
        if answer.ok and answer.numbers is not None:
            last = answer.numbers[0]
            answer.numbers = list(range(last - count + 1, last + 1))
        elif answer.ok and count > 1:  # of a shape: the last one's number
            last = int(answer.texts[0])
            answer.numbers, answer.texts = list(range(last - count + 1, last + 1)), None
        return answer, count
    if protocol == "next":
        words = ["LEAFD.NEXT", row.name, "COUNT", count] + (["KEY", key] if key else [])
        return world.resp(node, as_, *words), count
    options = [f"count={count}", "timeout_ms=10000"]
    if protocol == "proxied":
        options += ["as=number"] if number and row.shape else []
        answer = world.proxied(node, as_, f"{SEGMENT}{path_of(row.name)}?{'&'.join(options)}",
                               proxy_header(node + count))
        return with_ids(answer, bool(row.shape) and not number, "text"), count
    options += [f"format={protocol}"] if protocol in ("range", "json") else []
    options += ["as=number"] if number and row.shape else []
    answer = world.http(node, as_, "POST" if protocol == "post" else "GET",
                        f"{SEGMENT}{path_of(row.name)}?{'&'.join(options)}", None,
                        {"Idempotency-Key": key} if key else None)
    as_texts = bool(row.shape) and not number and protocol in ("text", "post")
    return with_ids(answer, as_texts, protocol), count


def proxy_header(number):
    """What a proxy sends first: for a client, or for itself."""
    client = f"203.0.113.{1 + number % 200}"
    if number % 3 == 0:
        return f"PROXY TCP4 {client} 192.0.2.1 {1024 + number % 60000} 80\r\n".encode()
    begin = b"\r\n\r\n\0\r\nQUIT\n"
    if number % 3 == 1:
        return begin + bytes([0x20, 0, 0, 0])
    return begin + bytes([0x21, 0x11, 0, 12]) + socket.inet_aton(client) + (
        socket.inet_aton("192.0.2.1") + struct.pack(">HH", 1024, 80))


def shaped(row, answer):
    if answer.ok and row.shape is None:
        answer.numbers = [int(answer.texts[0])] if answer.numbers is None else answer.numbers
    return answer


def with_ids(answer, as_texts, protocol):
    if not answer.ok:
        return answer
    lines = answer.text.split()
    if as_texts:
        answer.texts = lines
    elif protocol == "json":
        answer.numbers = [n for r in answer.json["ranges"]
                          for n in range(int(r["first"]), int(r["last"]) + 1)]
    elif protocol == "range":
        ends = list(map(int, lines))
        answer.numbers = [n for first, last in zip(ends[::2], ends[1::2])
                          for n in range(first, last + 1)]
    else:
        answer.numbers = list(map(int, lines))
    return answer


# --- tags ---

MODES = ["trend", "strict", "monotonic"]


def draw_put(rng, plan):
    tag = rng.choice(plan.tags)
    words = {"tag": tag, "node": rng.randrange(plan.size), "as_": plan.owner(rng, tag)}
    what = words["what"] = rng.choice(["again", "again", "mode", "mode", "raise", "low", "max",
                                       "key", "key", "step", "cover"])
    if what == "mode":
        words["mode"] = rng.choice(MODES)
    if what == "max":
        words["by"] = rng.choice([0, 3, 20, 500])
    if what == "raise":
        words["by"] = rng.choice([0, 1, 7, 5000])
    if what == "cover":
        words["by"] = rng.choice([0, 1, 600, 86400])
    if rng.random() < 0.5:
        words["wait"] = True
    if rng.random() < 0.2:
        words["protocol"] = "ctl"
    return words


@operation(draw_put, weight=14, covers=["PUT /api/tags/", "TAGS_PUT"])
def put(run, tag, what="again", node=0, as_="operator", mode=None, by=0, wait=False,
        protocol="http"):
    """Make a tag as its name says (again), or change it."""
    row = run.tag(tag)
    run.resolve(row)
    made = not row.alive
    fields = fields_of(run, row, what, mode, by)
    if fields is None:
        return None
    if made or what == "again":
        fields = {**run.spec(row.name), **fields}
    again = made and row.name in run.model.lost and row.shape not in DATED
    if again:
        fields["max_id"] = run.model.lost[row.name].top() + 1
    codes = put_must(run, row, as_, fields)
    if again and as_ != "shop" and may_use(as_, tag):
        codes = {"ok"} | ({"bad_request"} if "max" in fields else set())  # it may leave none
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "tags", "put", tag, *ctl_options(fields),
                                   *(["--wait-all"] if wait else []),
                                   *(["--force"] if again else []), "--json")
    else:
        answer = run.world.http(node, as_, "PUT", f"/api/tags/{path_of(tag)}?timeout_ms=10000"
                                f"{'&wait=all' if wait else ''}{'&force=1' if again else ''}",
                                fields)
    if made and answer.ok and codes == {"would_repeat"}:
        must(False, "lowered-on-deleted", f"PUT {fields} of the deleted {tag}: {answer}")
    expect(answer, codes | ({"not_everywhere"} if wait else set()), f"PUT {tag} {fields}")
    if answer.code in ("unknown", "not_everywhere"):
        row.murky = True
    if answer.ok:
        must(answer.status in (None, 201 if made else 200), "wrong-status", f"{answer.status}")
        if again:
            run.model.made_again(row)
        was_put(run, row, node, made, fields, answer.json, wait)
    return None


def ctl_options(fields):
    names = {"max_id": "--max-id", "max_step": "--max-step", "key": "--shape-key",
             "cover_s": "--cover-s"}
    return [word for name, value in fields.items()
            for word in (names.get(name, f"--{name}"), value)]


def fields_of(run, row, what, mode, by):
    """What is asked for; None where that has no sense for the tag as it is."""
    if what in ("again", "low"):
        return {"max_id": 1} if what == "low" else {}
    if not row.alive:
        return None
    if what == "mode":
        return None if row.shape in DATED else {"mode": mode}
    if what == "step":
        return {"step": 10}
    if what == "cover":
        return {"cover_s": by} if row.mode == "trend" and row.shape not in DATED else None
    if what == "key":
        return {"key": row.key + 1} if row.shape == "keyed" and row.key < 9 else None
    if row.shape in DATED | SECRET:
        return None
    max_id = run.look(row)
    if what == "raise":
        return {"max_id": max_id + by} if row.mode == "strict" else {"max_id": max_id + by + 10**6}
    return {"max": max_id + by} if row.mode == "strict" else None


def put_must(run, row, as_, fields):
    if as_ == "shop":
        return {"forbidden"}
    if not may_use(as_, row.name):
        return {"forbidden_tag"}
    if row.murky:
        return {"ok", "would_repeat", "bad_request", "needs_force", "conflict"}
    top = row.top()
    if fields.get("max_id", top + 1) <= top or (fields.get("max_id") == 1 and row.floor > 1):
        return {"would_repeat"}
    if fields.get("max_id") == 1 and row.name in run.made:
        return {"ok", "would_repeat"}
    if "max_id" in fields and row.max - fields["max_id"] < 10**6:
        return {"needs_force", "bad_request", "ok"}
    if fields.get("max", NO_MAX) < NO_MAX and row.alive:
        return {"ok", "bad_request"} if row.mode != "strict" or row.next is None else {"ok"}
    if row.name in run.made and "max" in fields:
        return {"ok", "bad_request"}
    if "cover_s" in fields:
        return {"ok", "exhausted"}  # too few left for so long
    if row.alive and row.cover and fields.get("mode", "trend") != "trend":
        return {"bad_request"}
    return {"ok"}


def was_put(run, row, node, made, fields, shown, wait):
    """The change was made."""
    others = [] if wait else [n for n in range(run.size) if n != node % run.size]
    max_id = int(shown["max_id"])
    before = row.mode
    row.mode = fields.get("mode", "trend" if made else row.mode)
    row.max = int(shown.get("max", NO_MAX))
    row.step = fields.get("step", 1000 if made else row.step)
    row.cover = fields.get("cover_s", 0 if made else row.cover)
    anew = made or row.mode != before or "max_id" in fields or fields.get("key", row.key) != row.key
    row.key = fields.get("key", row.key)
    row.alive, row.murky = True, False
    run.made.add(row.name)
    if anew:
        row.begins_anew(max_id, others)
        row.highest = 0
    run.model.shown(row, shown)


def draw_tag(rng, plan):
    tag = rng.choice(plan.tags)
    return {"tag": tag, "node": rng.randrange(plan.size), "as_": plan.owner(rng, tag)}


def draw_protocol(rng, *protocols):
    return {"protocol": rng.choice(protocols)} if rng.random() < 0.3 else {}


@operation(lambda rng, plan: {**draw_tag(rng, plan), "wait": rng.random() < 0.5,
                              **draw_protocol(rng, "ctl")},
           weight=4, covers=["DELETE /api/tags/", "TAGS_DELETE"])
def delete(run, tag, node=0, as_="operator", wait=False, protocol="http"):
    """Delete a tag."""
    row = run.tag(tag)
    run.resolve(row)
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "tags", "delete", tag)
    else:
        answer = run.world.http(node, as_, "DELETE", f"/api/tags/{path_of(tag)}?timeout_ms=10000"
                                f"{'&wait=all' if wait else ''}")
    if as_ == "shop":
        return expect(answer, {"forbidden"}, f"DELETE {tag}")
    if not may_use(as_, tag):
        return expect(answer, {"forbidden_tag"}, f"DELETE {tag}")
    if not row.murky:
        expect(answer, {"ok" if row.alive else "unknown_tag"}, f"DELETE {tag}")
    row.murky = answer.code == "unknown"
    if answer.ok:
        row.alive = False
        row.behind = set() if wait else set(range(run.size)) - {node % run.size}
    return None


@operation(lambda rng, plan: {**draw_tag(rng, plan), "number": rng.choice([0, 0, 7])},
           weight=4, covers=["SET", "SETNX"])
def make(run, tag, number=0, node=0, as_="operator"):
    """Make a tag as programs for Redis do, unless it is there."""
    row = run.tag(tag)
    run.resolve(row)
    made = not row.alive
    if made and (row.name in run.model.lost or (run.spec(row.name) and row.name not in run.made)):
        return None  # a name keeps the shape that it is first made with
    words = ["SETNX", tag, number] if node % 2 else ["SET", tag, number, "NX"]
    answer = run.world.resp(node, as_, *words)
    what = f"{words} by {as_}"
    if not may_use(as_, tag):
        return expect(answer, {"forbidden_tag"}, what)
    if made and as_ == "shop":
        return expect(answer, {"unknown_tag"}, what)
    codes = put_must(run, row, as_, {"max_id": number + 1} if made and number > 0 else {})
    if "ok" in codes and number > 0 and row.name in run.made:
        codes = codes | {"would_repeat"}  # its mark may be above what was taken
    if made and row.shape in DATED and as_ != "shop":
        # It is made with the default mode, trend; and a raise could be into a later date.
        codes = codes - {"ok"} | {"bad_request"} | ({"needs_force"} if number > 0 else set())
    expect(answer, codes if made else {"ok"}, what)
    if answer.code == "unknown":
        row.murky = row.murky or made
    if answer.ok:
        said = (answer.numbers or answer.texts)[0]
        right = ("1", "OK") if made else ("0", "None")
        must(str(said) in right, "wrong-set", f"{what}: {answer}")
    if answer.ok and made:
        shown = run.certain(lambda: run.world.http(0, "operator", "GET",
                                                   f"/api/tags/{path_of(tag)}"))
        was_put(run, row, node, True, {}, shown.json, False)
    return None


@operation(lambda rng, plan: {**draw_tag(rng, plan), **draw_protocol(rng, "resp", "ctl")},
           weight=6, covers=["GET /api/tags/", "TAGS_GET", "GET"])
def look(run, tag, node=0, as_="operator", protocol="http"):
    """What the cluster says of a tag."""
    row = run.tag(tag)
    run.resolve(row)
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "tags", "get", tag, "--json")
    elif protocol == "resp":
        answer = run.world.resp(node, as_, "GET", tag)
        if answer.ok and answer.texts == ["None"]:
            answer.code = "unknown_tag"
    else:
        answer = run.world.http(node, as_, "GET", f"/api/tags/{path_of(tag)}")
    if as_ == "shop":
        return expect(answer, {"forbidden"}, f"GET {tag}")
    if not may_use(as_, tag):
        return expect(answer, {"forbidden_tag"}, f"GET {tag}")
    expect(answer, {"ok"} if row.alive else {"unknown_tag"}, f"GET {tag}")
    if answer.ok and protocol != "resp":
        run.model.shown(row, answer.json)
    elif answer.ok:
        top = row.top()
        max_id = int((answer.numbers or answer.texts)[0])
        must(max_id > top or row.shape in DATED, "max-id-below", f"GET {tag}: {answer}, {top}")
    return None


@operation(lambda rng, plan: {"prefix": rng.choice(["a/", "b/"]),
                              "as_": rng.choice(["alice", "bob", "operator"]),
                              "node": rng.randrange(plan.size), **draw_protocol(rng, "ctl")},
           weight=4, covers=["GET /api/tags", "TAGS_LIST"])
def list_tags(run, prefix="a/", node=0, as_="operator", protocol="http"):
    """All tags of a tenant."""
    for row in run.model.tags.values():
        run.resolve(row)
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "tags", "list", prefix, "--json")
    else:
        answer = run.world.http(node, as_, "GET", f"/api/tags?prefix={prefix}")
    if as_ != "operator" and PREFIX[as_] != prefix:
        return expect(answer, {"forbidden_tag"}, f"tags of {prefix}")
    expect(answer, {"ok"}, f"tags of {prefix}")
    if answer.ok:
        there = [shown["tag"] for shown in answer.json["tags"]]
        right = sorted(row.name for row in run.model.tags.values()
                       if row.alive and row.name.startswith(prefix))
        must(there == right, "wrong-list", f"tags of {prefix}: {there} where {right} are there")
    return None


def draw_bulk(rng, plan):
    return {"tags": rng.sample(plan.tags, rng.choice([1, 2, 3])), "node": rng.randrange(plan.size)}


@operation(draw_bulk, weight=3, covers=["POST /api/tags"])
def bulk(run, tags, node=0, as_="operator"):
    """Make several tags, or find them there: all or none."""
    rows = [run.tag(tag) for tag in tags]
    for row in rows:
        run.resolve(row)
    # Of a living one nothing is to change; one that a restore lost comes again by its own PUT.
    rows = [row for row in rows if not row.alive and row.name not in run.model.lost]
    if not rows:
        return
    items = [{"tag": row.name, **run.spec(row.name)} for row in rows]
    answer = run.world.http(node, as_, "POST", "/api/tags?wait=all&timeout_ms=10000", items)
    codes = [put_must(run, row, as_, item) for row, item in zip(rows, items)]
    refusals = set.union(*codes) - {"ok"}  # one that is refused refuses all
    expect(answer, refusals | set.intersection({"ok"}, *codes), f"POST {items}")
    for row, item in zip(rows, items):
        if answer.ok:
            shown = run.certain(lambda row=row: run.world.http(
                node, as_, "GET", f"/api/tags/{path_of(row.name)}")).json
            was_put(run, row, node, True, item, shown, True)
        elif answer.code in ("unknown", "not_everywhere"):
            row.murky = True


@operation(draw_tag, weight=3, covers=[])
def copy(run, tag, node=0, as_="operator"):
    """Post a tag's page of the list, as a dump of another cluster, under a name that is new."""
    row = run.tag(tag)
    run.resolve(row)
    name = f"{tag}.copy"
    if not row.alive or name in run.model.tags:
        return
    page = run.certain(lambda: run.world.http(node, "operator", "GET",
                                              f"/api/tags?prefix={tag}&limit=1")).json
    shown = page["tags"][0]
    must(shown["tag"] == tag, "wrong-list", f"{page} where {tag} is there")
    shown["tag"] = name
    answer = run.world.http(node, "operator", "POST", "/api/tags?wait=all&timeout_ms=10000", page)
    must(answer.ok or answer.code in ("unknown", "not_everywhere"), f"dump-refused-{answer.code}",
         f"{shown}: {answer}")
    other = run.model.tag(name, row.shape)
    run.specs[name] = {**run.spec(tag), "mode": row.mode}
    other.murky = not answer.ok
    if answer.ok:
        other.key, other.floor = row.key, 1
        fresh = run.certain(lambda: run.world.http(node, "operator", "GET",
                                                   f"/api/tags/{path_of(name)}")).json
        must(int(fresh["max_id"]) >= int(shown["max_id"]), "dump-lowers", f"{shown}: {fresh}")
        was_put(run, other, node, True, {"mode": row.mode, "key": row.key, "step": row.step,
                                          "cover_s": row.cover}, fresh, True)


# --- worker ids ---

def draw_worker(rng, plan):
    return {"name": rng.choice(["w0", "w1", "w2", "w3"]), "as_": rng.choice(["alice", "bob"]),
            "node": rng.randrange(plan.size), **draw_protocol(rng, "ctl")}


def worker_rows(run):
    return run.certain(lambda: run.world.http(
        0, "operator", "GET", "/api/workers?limit=1024")).json


@operation(draw_worker, weight=6, covers=["POST /api/workers", "GET /api/workers",
                                          "WORKERS_ACQUIRE", "WORKERS_LIST"])
def acquire(run, name, as_="alice", node=0, protocol="http"):
    """Acquire a worker id, or acquire it again."""
    before = worker_rows(run)
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "workers", "acquire", name, "--json")
    else:
        answer = run.world.http(node, as_, "POST", "/api/workers", {"name": name})
    if as_ == "shop":
        return expect(answer, {"forbidden"}, "POST /api/workers")
    own = run.model.workers.get(name)
    soft = {"clock_skew"} if run.model.clock_moved else set()
    if own is None:
        expect(answer, {"ok"} | soft, f"{as_} acquires {name}")
    if not answer.ok:
        return None
    grant = answer.json
    number = grant["worker_id"]
    log_ms = before["log_time_ms"]
    rows = {row["worker_id"]: row for row in before["workers"]}
    held = own is not None and own["held"] and own["until_ms"] > log_ms + 5000
    must(not held or own["owner"] == as_ or own["worker_id"] != number, "worker-taken-by-another",
         f"{as_} got the worker id {number} of {own and own['owner']}: {answer}")
    run.model.granted(number, grant, rows.get(number), f"{as_} acquires {name}")
    if own is None:
        free = next((n for n in range(1024)
                     if n not in rows or rows[n]["until_ms"] < log_ms), None)
        # Nodes acquire theirs when they like, and windows end.
        near = any(abs(row["until_ms"] - log_ms) < 60_000 for row in rows.values()
                   if row["worker_id"] < 900) or any(  # those above are of pools()
            row["worker_id"] != number and any(
                row[field] != rows.get(row["worker_id"], {}).get(field)
                for field in ("epoch", "until_ms"))
            for row in worker_rows(run)["workers"])
        last = rows.get(number, {}).get("name") == name  # before a day that is over, say
        must(near or last or number == free, "not-the-lowest-worker-id",
             f"{name} got {number}, and {free} is free")
    for other, entry in run.model.workers.items():
        if entry["worker_id"] == number and other != name:
            entry["held"] = entry["fenced"] = True
    run.model.workers[name] = {**grant, "owner": as_, "held": True, "fenced": False}
    return None


@operation(lambda rng, plan: {**draw_worker(rng, plan), "stale": rng.random() < 0.2},
           weight=4, covers=["PUT /api/workers/", "WORKERS_RENEW"])
def renew(run, name, as_="alice", node=0, stale=False, protocol="http"):
    """Hold a worker id longer."""
    own = run.model.workers.get(name)
    if own is None:
        return
    epoch = own["epoch"] - 1 if stale else own["epoch"]
    if epoch == 0:
        return
    if protocol == "ctl":
        answer = run.world.leafctl(node, as_, "workers", "renew", own["worker_id"], "--epoch",
                                   epoch, "--json")
    else:
        answer = run.world.http(node, as_, "PUT", f"/api/workers/{own['worker_id']}",
                                {"epoch": epoch})
    if own["owner"] != as_:
        must(not answer.ok, "worker-renewed-by-another", f"{as_} renews {own}: {answer}")
        return
    # Once the log's time is ahead of the window, a node that is new may have taken the worker id.
    soft = {"clock_skew", "fenced"} if run.model.clock_moved else set()
    if stale or own["fenced"] or not own["held"]:
        expect(answer, {"fenced", "conflict"} | soft, f"renews {own}")
        return
    expect(answer, {"ok"} | soft, f"renews {own}")
    own["fenced"] = answer.code == "fenced"
    if answer.ok:
        must(answer.json["until_ms"] >= own["until_ms"], "window-falls", f"{own}: {answer}")
        own["until_ms"] = answer.json["until_ms"]
        run.model.renewed(own)


@operation(lambda rng, plan: {**draw_worker(rng, plan), "early": rng.random() < 0.5},
           weight=4, covers=["DELETE /api/workers/", "WORKERS_RELEASE"])
def release(run, name, as_="alice", node=0, early=False, protocol="http"):
    """Give a worker id back; early: only the first half of its window was used."""
    own = run.model.workers.get(name)
    if own is None:
        return
    last = (own["from_ms"] + own["until_ms"]) // 2 if early else 0
    options = f"epoch={own['epoch']}" + (f"&last_timestamp_ms={last}" if early else "")
    if protocol == "ctl":
        words = ["--last-timestamp-ms", last] if early else []
        answer = run.world.leafctl(node, as_, "workers", "release", own["worker_id"], "--epoch",
                                   own["epoch"], *words)
    else:
        answer = run.world.http(node, as_, "DELETE", f"/api/workers/{own['worker_id']}?{options}")
    if own["owner"] != as_:
        # What was released before is a repeat, whoever asks, and changes nothing.
        must(not answer.ok or not own["held"], "worker-released-by-another",
             f"{as_} releases {own}: {answer}")
        return
    if own["fenced"]:
        expect(answer, {"fenced", "conflict"}, f"releases {own}")
        return
    expect(answer, {"ok"} | ({"clock_skew", "fenced"} if run.model.clock_moved else set()),
           f"releases {own}")
    own["fenced"] = answer.code == "fenced"
    if answer.ok and own["held"]:
        own["held"] = False
        run.model.released(own, last if early else own["until_ms"])


POOLS = {"": {}, "a=900-903": {"a": range(900, 904)},
         "a=904-907,b=908-908": {"a": range(904, 908), "b": range(908, 909)},
         "a=901-902,b=902-903": None}  # they overlap


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "pools": rng.choice(list(POOLS)),
                              "zone": rng.choice("ab"), "as_": rng.choice(["alice", "operator"]),
                              **draw_protocol(rng, "ctl")},
           weight=3, covers=["GET /api/workers/pools", "PUT /api/workers/pools", "WORKERS_POOLS"])
def pools(run, node, pools, zone="a", as_="operator", protocol="http"):
    """Zones get pools, of worker ids that nobody else here asks for; and one takes from its own."""
    def ask(*words, method="GET", path="/api/workers/pools", body=None, by="operator"):
        if protocol == "ctl":
            return run.world.leafctl(node, by, "workers", *words, "--json")
        return run.world.http(node, by, method, path, body)

    before = run.certain(lambda: ask("pools"))
    must(before.code == "newer" or before.json == {"pools": run.model.pools}, "pools-forgotten",
         f"{before} where {run.model.pools} was set")
    answer = run.certain(lambda: ask("pools", pools, method="PUT", body={"pools": pools}))
    if answer.code == "newer":
        return
    expect(answer, {"ok"} if POOLS[pools] is not None else {"conflict"}, f"PUT pools {pools}")
    if not answer.ok:
        return
    run.model.pools = pools
    shown = run.certain(lambda: ask("pools"))
    must(shown.ok and shown.json == {"pools": pools}, "pools-not-shown", f"{pools}: {shown}")
    if zone not in POOLS[pools]:
        return
    rows = {row["worker_id"]: row for row in worker_rows(run)["workers"]}
    name = f"zone-{zone}"
    answer = ask("acquire", name, "--zone", zone, "--window-ms", 1000, method="POST",
                 path="/api/workers", body={"name": name, "zone": zone, "window_ms": 1000}, by=as_)
    soft = {"clock_skew"} if run.model.clock_moved else set()
    expect(answer, {"ok", "no_worker_id"} | soft, f"acquires of zone {zone}, pools {pools}")
    if answer.ok:
        number = answer.json["worker_id"]
        must(number in POOLS[pools][zone], "not-of-the-pool", f"{zone}, {pools}: {answer}")
        run.model.granted(number, answer.json, rows.get(number), f"zone {zone} acquires")


# --- snowflake ids, layouts ---

PRESETS = ["leaf", "js53", "discord", "sonyflake"]  # twitter is leaf by another name


def draw_flakes(rng, plan):
    words = {"node": rng.randrange(plan.size), "as_": rng.choice(["alice", "shop", "operator"]),
             "count": rng.choice([1, 1, 20]),
             "protocol": rng.choice(["http", "post", "resp", "ctl"])}
    if rng.random() < 0.5:
        words["layout"] = rng.choice(["l0", "l1"])
    return words


@operation(draw_flakes, weight=8, covers=[
    "GET /api/snowflake/get/", "POST /api/snowflake/get/", "LEAFD.SNOWFLAKE",
    "GET /api/snowflake/decode/", "POST /api/snowflake/decode/", "LEAFD.DECODE",
    "GET /api/snowflake/at", "LEAFD.AT", "AT"])
def flakes(run, node=0, as_="operator", count=1, protocol="http", layout=None):
    """Take snowflake ids, of a layout or the cluster's own."""
    known = run.model.layouts.get(layout)
    soft = {"clock_backwards", "clock_skew", "window_expired"} if run.model.clock_moved else set()

    def asked():
        answer = ask_flakes(run, node, as_, count, protocol, layout)
        # With the clocks as they were these pass.
        wait = {"no_worker_id", "unknown", "window_expired", "clock_skew", "clock_backwards"}
        return answer if answer.code not in wait or run.model.clock_moved else None

    answer = run.until(asked, "snowflake ids")
    if layout is not None and not (known and known["alive"]):
        expect(answer, {"unknown_layout"} | soft, f"ids of layout {layout}")
        return
    expect(answer, {"ok", "no_worker_id"} | soft, f"snowflake ids of {layout or 'leafd'}")
    if not answer.ok:
        return
    seen = run.model.flakes.setdefault(known and known["preset"], set())
    again = seen & set(answer.numbers)
    must(not again and len(set(answer.numbers)) == count, "snowflake-again",
         f"{answer} of layout {layout}: {sorted(again)[:3]} came before")
    seen.update(answer.numbers)
    run.taken += count
    one = answer.numbers[0]
    if protocol == "resp":
        words = ["LEAFD.DECODE", one] + (["LAYOUT", layout] if layout else [])
        decoded = run.certain(lambda: run.world.resp(node, as_, *words))
    else:
        decoded = run.certain(lambda: run.world.http(
            node, as_, "POST" if protocol == "post" else "GET", f"/api/snowflake/decode/{one}"
            + (f"?layout={layout}" if layout else "")))
    expect(decoded, {"ok"}, f"decode {answer.numbers[0]}")
    check_at(run, node, as_, protocol, layout, one)


def check_at(run, node, as_, protocol, layout, one):
    """The smallest id of the time of this one is at or below it, that of the next unit above."""
    world = run.world
    named = f"?layout={layout}" if layout else ""
    ms = run.certain(lambda: world.http(
        node, as_, "GET", f"/api/snowflake/decode/{one}{named}")).json["timestamp_ms"]

    def at(time_ms):
        if protocol == "resp":
            return world.resp(node, as_, "LEAFD.AT", time_ms,
                              *(["LAYOUT", layout] if layout else []))
        if protocol == "ctl":
            return world.leafctl(node, as_, "at", time_ms,
                                 *(["--layout", layout] if layout else []))
        return world.http(node, as_, "GET", f"/api/snowflake/at?time={time_ms}"
                          + named.replace("?", "&"))

    found = [run.certain(lambda ms=ms: at(ms)) for ms in (ms, ms + 1000)]
    for each in found:
        expect(each, {"ok"}, f"at {ms}")
    least, above = (each.numbers[0] if each.numbers else int(each.text) for each in found)
    must(least <= one < above, "at-wrong", f"{one} of {ms} ms, layout {layout}: {least}, {above}")


def ask_flakes(run, node, as_, count, protocol, layout):
    if protocol == "resp":
        words = ["LEAFD.SNOWFLAKE", "COUNT", count] + (["LAYOUT", layout] if layout else [])
        return run.world.resp(node, as_, *words)
    if protocol == "ctl":
        words = ["next", "k", "--snowflake", "-n", count] + (["--layout", layout] if layout else [])
        answer = run.world.leafctl(node, as_, *words)
    else:
        answer = run.world.http(node, as_, "POST" if protocol == "post" else "GET",
                                f"/api/snowflake/get/k?count={count}"
                                + (f"&layout={layout}" if layout else ""))
    return with_ids(answer, False, "text")


@operation(lambda rng, plan: {"name": rng.choice(["l0", "l1"]), "preset": rng.choice(PRESETS),
                              "node": rng.randrange(plan.size)},
           weight=3, covers=["PUT /api/layouts/", "GET /api/layouts/", "GET /api/layouts"])
def layout_put(run, name, preset="leaf", node=0):
    """Give a layout a name."""
    known = run.model.layouts.get(name)
    answer = run.world.http(node, "operator", "PUT", f"/api/layouts/{name}", {"preset": preset})
    same = known is None or known["preset"] == preset
    expect(answer, {"ok"} if same else {"conflict"}, f"PUT layout {name} {preset}")
    if answer.ok:
        run.model.layouts[name] = {"preset": preset, "alive": True}
        run.world.settle()
        for path in (f"/api/layouts/{name}", "/api/layouts"):
            shown = run.certain(lambda path=path: run.world.http(node, "operator", "GET", path))
            must(shown.ok and f'"name":"{name}"' in shown.text, "layout-not-shown", f"{shown}")
    elif answer.code == "unknown":
        run.model.layouts.pop(name, None)


@operation(lambda rng, plan: {"name": rng.choice(["l0", "l1"]), "node": rng.randrange(plan.size)},
           weight=2, covers=["DELETE /api/layouts/"])
def layout_delete(run, name, node=0):
    """Take it away."""
    known = run.model.layouts.get(name)
    answer = run.world.http(node, "operator", "DELETE", f"/api/layouts/{name}")
    expect(answer, {"ok"} if known and known["alive"] else {"unknown_layout"},
           f"DELETE layout {name}")
    if answer.ok:
        known["alive"] = False
        run.world.settle()
        for one in sorted(run.model.flakes.get(known["preset"], ()))[:1]:
            check_at(run, node, "operator", "resp" if one % 2 else "http", name, one)


# --- clocks, tokens ---

@operation(lambda rng, plan: {"by_s": rng.choice([3600, 86400, 86400, -3600])},
           weight=3, cost_s=3, at_most=3, covers=[])
def clock(run, by_s):
    """The clocks of all nodes are set; the log's time follows, within seconds."""
    run.world.set_clocks(run.world.shift_s + by_s)
    run.model.days += 1
    run.model.clock_moved = True


@operation(lambda rng, plan: {"who": rng.choice(["alice", "bob", "shop"]),
                              "both": rng.random() < 0.5},
           weight=3, cost_s=0.1, at_most=3, covers=[])
def reload(run, who, both=False):
    """A client gets another secret, by SIGHUP; the old one is worth nothing then, or (both) as much
    as the new one: they are one client."""
    stream = None
    if who != "shop" and run.world.shows(who)[1]:
        stream = run.world.watch(0, who)
    gone = run.world.exchange_token(who, both)
    if stream is not None and who not in run.world.older:
        must(ends(stream), "stream-goes-on", f"of {who}, whose token is worth nothing")
    elif stream is not None:
        must(not ends(stream, 3), "stream-ends", f"of {who}, whose token is good")
    for old in gone:
        for node in range(run.size):
            answer = run.certain(lambda node=node: run.world.http(node, old, "GET", "/api/tags"))
            expect(answer, {"unauthorized"}, f"the old token of {who}")


CHANGES = ["server", "again", "authority", "line", "line", "ended", "stranger", "ends", "beside"]


@operation(lambda rng, plan: {"what": rng.choice(CHANGES), "who": rng.choice(HOLDERS),
                              "node": rng.randrange(plan.size)},
           weight=6, cost_s=0.5, at_most=4, covers=[])
def certificate(run, what, who="alice", node=0):
    """Where listeners speak TLS: a certificate or its authority is exchanged, loses its line in the
    tokens file or gets it again, or ends, while its client has connections and a stream."""
    world, tls = run.world, run.world.tls
    if tls is None or what == "line" and who in world.older:
        return
    asked = world.node(node)
    if what in ("ended", "stranger"):
        must(probe(asked, tls.bad(who, what == "ended")) == "refused", "bad-certificate-let-in",
             f"{who}'s that is {what}")
        must(tls.rule == "optional" or probe(asked, tls.served.client()) == "refused",
             "let-in-without-a-certificate", f"{asked}")
        return
    if what == "ends":
        tls.issue(who, world.shift_s + 43200 - 4 * 86400, 4)
    beside = "operator" if what == "beside" else None
    with Held(asked, world, who, beside) as held:
        before, session = held.asks(), held.http.sock.session
        closes = change_certificate(run, what, who, held)
        right = "ended" if closes else "ok" if who in tls.lines else "forbidden"
        for each in world.nodes:
            run.until(lambda each=each: probe(each, tls.context(who)) == (
                "refused" if what == "ends" else "ok" if who in tls.lines else "forbidden"),
                f"the certificate of {who} at {each} after {what}")
        after = held.asks()
        # A drained node ends each connection over HTTP after its answer.
        must((held.told_end or after[0] == right) and after[1] == right, f"certificate-{what}",
             f"{who}: {before}, then {after} where {right} is right")
        if closes:
            for each in (session, None):
                must(probe(asked, held.context, each) == "refused", f"certificate-{what}",
                     f"{who}: what is worth nothing is let in")
            must(ends(held.stream), "stream-goes-on", f"of {who}, by a certificate: {what}")
    if what == "ends":
        tls.issue(who)
    if closes:
        world.drop_connections()


def change_certificate(run, what, who, held):
    """True: connections that were opened before end."""
    world, tls = run.world, run.world.tls
    if what == "ends":
        clock(run, 86400)
    elif what == "server":
        tls.issue_server()
        world.hang_up()
        for each in world.nodes:
            run.until(lambda each=each: tls.is_served(each), f"the new certificate of {each}")
    elif what == "again":
        tls.issue(who)
    elif what == "authority":
        tls.exchange_authority()
        world.hang_up_in_vain()
        code = "ok" if who in tls.lines else "forbidden"
        found = held.asks()
        must((held.told_end or found[0] == code) and found[1] == code, "refused-reload-changed",
             f"{who}: {found} where {code} is right")
        world.dress()
        world.hang_up()
    elif what == "line":
        tls.lines ^= {who}
        world.write_tokens()
        world.hang_up()
    else:
        world.exchange_token("operator", False)
    return what in ("authority", "ends")


@operation(lambda rng, plan: {"rate": rng.choice([0, 1, 50, 1000]),
                              "node": rng.randrange(plan.size),
                              "protocol": rng.choice(["http", "resp"])},
           weight=3, cost_s=0.1, at_most=4, covers=[])
def quota(run, rate=0, node=0, protocol="http"):
    """A client gets a quota of ids (0: none). After another one it has no debt, and takes so many
    at once."""
    world = run.world
    run.certain(lambda: world.http(node, "operator", "PUT", "/api/tags/q%2Fx?wait=all"))
    is_new = world.limit("quick", f"ids-per-s={rate}" if rate else "")
    began = time.monotonic()
    given = 0

    def ask():
        if protocol == "resp":
            return world.resp(node, "quick", "LEAFD.NEXT", "q/x", "COUNT", count)
        return world.http(node, "quick", "GET", f"{SEGMENT}q%2Fx?count={count}&timeout_ms=10000")

    count = rate or 1000
    for number in range(4):
        answer = ask()
        right = {"ok", "quota"} if rate and (number or not is_new) else {"ok"}
        expect(answer, right, f"{count} ids of a client with a quota of {rate}")
        given += count if answer.ok else 0
    seconds = time.monotonic() - began
    must(not rate or given <= rate * (seconds + 2), "more-than-the-quota",
         f"{given} ids in {seconds} s with a quota of {rate}")


# --- nodes, backups ---

def draw_node(rng, plan):
    return {"node": rng.randrange(plan.size), "clean": rng.random() < 0.5}


@operation(draw_node, weight=3, cost_s=0.4, at_most=4, covers=[])
def restart(run, node=0, clean=False):
    """Kill a node, or stop it in order, and start it again."""
    run.world.restart(node, clean)
    run.lost()


@operation(lambda rng, plan: {"days": rng.choice([0, 0, 1, 3])}, weight=1, cost_s=1, at_most=1,
           covers=[])
def restart_all(run, days=0):
    """Kill all nodes, and start them, perhaps days later: nothing is handed out of days that are
    over, although the log's time follows by a day in some seconds."""
    run.world.restart_all(days * 86400)
    run.lost()
    if days > 0:
        run.model.days += 1
        run.model.clock_moved = True
        run.model.workers.clear()  # their windows are over, and a node may have taken one
        run.model.least_s = time.time() + run.world.shift_s - 86400  # of a zone to the west
        for row in [row for row in run.model.tags.values() if row.alive and row.shape in DATED]:
            ids(run, row.name)
        run.world.set_clocks(run.world.shift_s)


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "ctl": rng.random() < 0.3},
           weight=5, cost_s=0.05, at_most=4, covers=["GET /api/backup", "BACKUP"])
def backup(run, node=0, ctl=False):
    """Take a backup, to be restored later."""
    # This leafctl reads no backup of a later level, and says so.
    path, answer = run.world.backup(node, ctl and not run.world.next_level)
    expect(answer, {"ok"}, "backup")
    if answer.ok:
        run.backups.append((path, run.model.snapshot()))


@operation(lambda rng, plan: {"node": rng.randrange(plan.size)}, weight=1, cost_s=2, at_most=1,
           covers=[])
def recover(run, node=0, raise_=5000000):
    """All but one node are lost, and that one has everything."""
    run.world.settle()
    answer = run.world.recover(node, raise_)
    must(answer.ok or run.model.clock_moved, "recover-fails", repr(answer))
    if not answer.ok:
        run.lost()
        return
    run.model.restored(run.model.snapshot(), raise_, False, True, run.world.now_ms())
    run.backups.clear()


@operation(lambda rng, plan: {}, weight=1, cost_s=2, at_most=1, covers=[
    "POST /api/cluster/level", "GET /api/cluster"])
def upgrade(run):
    """The leafd of the next level, node by node."""
    if not run.world.next_level:
        run.world.upgrade()
        run.lost()


@operation(lambda rng, plan: {"raise_": rng.choice([100000, 5000000]),
                              "drop_keys": rng.random() < 0.2,
                              **({"by_time": True} if rng.random() < 0.2 else {})},
           weight=5, cost_s=2, at_most=2, covers=[])
def restore(run, raise_=5000000, drop_keys=False, oldest=False, by_time=False):
    """All nodes are lost; a new cluster begins with the last (or the first) backup. by_time: raised
    by what each tag grew in an hour, where that is more."""
    if not run.backups:
        return
    path, snapshot = run.backups[0 if oldest else -1]
    answer = run.world.restore(path, raise_, *(["--drop-keys"] if drop_keys else []),
                               *(["--raise-time", "1h"] if by_time else []))
    must(answer.ok or run.model.clock_moved or by_time and "not known" in answer.text,
         "restore-fails", repr(answer))
    if not answer.ok:
        run.lost()
        return
    run.model.restored(snapshot, raise_, drop_keys, False, run.world.now_ms())
    run.backups.clear()
    run.made = set(run.model.tags) & run.made


# --- members ---

def draw_replaced(rng, plan):
    return {"node": rng.randrange(plan.size), "dead": plan.size > 1 and rng.random() < 0.4,
            "how": rng.choice(["join", "http", "ctl"])}


@operation(draw_replaced, weight=2, cost_s=3, at_most=2, covers=[
    "POST /api/cluster/members", "DELETE /api/cluster/members/", "MEMBERS_ADD", "MEMBERS_REMOVE",
    "MEMBERS_REPLACE"])
def replace_member(run, node=0, dead=False, how="join"):
    """A new node with an empty disk takes the place of one, which lives or is dead."""
    run.world.replace(node, dead, how)
    run.lost()


@operation(lambda rng, plan: {"node": rng.randrange(plan.size),
                              "how": rng.choice(["itself", "http", "ctl"])},
           weight=2, cost_s=1, at_most=2, covers=["PUT /api/cluster/members/", "MEMBERS_ADDRESS"])
def move_member(run, node=0, how="itself"):
    """A node starts at another address, which it says itself, or somebody said before."""
    run.world.move(node, how if run.size > 1 else "itself")
    run.lost()


# --- room ---

FILL = 2000  # tags of the operator's own, with descriptions: enough that a backup of them waits


def filler(number):
    return [{"tag": f"f/{n}", "step": 1 + number % 7, "description": f"{number:03}" + "x" * 200}
            for n in range(FILL)]


@operation(lambda rng, plan: {}, weight=1, cost_s=0.3, at_most=2, covers=[])
def slow_backup(run):
    """Somebody begins a backup of a large state, and does not read it."""
    answer = run.world.http(0, "operator", "POST", "/api/tags?timeout_ms=10000", filler(0))
    expect(answer, {"ok"}, "fill")
    run.world.begin_backup(0)


@operation(lambda rng, plan: {"times": rng.choice([3, 10])}, weight=1, cost_s=3, at_most=1,
           covers=[])
def churn(run, times=5):
    """Many tags change, again and again: that takes room, where nobody reads old pages none."""
    for number in range(times):
        answer = run.world.http(number, "operator", "POST", "/api/tags?timeout_ms=10000",
                                filler(number + 1))
        expect(answer, {"ok"}, "churn")
    run.world.end_backups()
    run.until(lambda: run.world.http(0, "operator", "POST", "/api/tags?timeout_ms=10000",
                                     filler(0)).ok, "room for changes, now that no backup waits")


# --- reading, leading ---

READS = ["/api/cluster", "/api/nodes", "/api/status", "/api/events", "/api/audit",
         "/api/node/segments", "/api/cluster/segments?limit=10", "/api/cluster/level",
         "/api/layouts", "/livez", "/readyz", "/version", "/metrics", "/openapi.json", "/",
         "/cache", "/db", "/decodeSnowflakeId?snowflakeId=1256557484213448722"]
ASKED = [["PING"], ["ECHO", "x"], ["INFO"], ["COMMAND", "COUNT"], ["CONFIG", "GET", "x"],
         ["CLIENT", "ID"], ["SELECT", "0"]]
SHOWN = [["status"], ["top"], ["events"], ["audit"], ["layouts"], ["members"], ["leader"],
         ["level"], ["decode", "1256557484213448722"]]


@operation(lambda rng, plan: {"what": rng.randrange(len(READS) + len(ASKED) + len(SHOWN)),
                              "node": rng.randrange(plan.size)},
           weight=5, covers=[
               *(f"GET {path.split('?')[0]}" for path in READS if path != "/api/cluster"),
               *(words[0] for words in ASKED), "STATUS", "TOP", "EVENTS",
               "AUDIT", "LAYOUTS_LIST", "MEMBERS_LIST", "LEVEL_SHOW", "DECODE"])
def read(run, what, node=0):
    """Something that changes nothing, and is answered at any time."""
    if what < len(READS):
        answer = run.world.http(node, "operator", "GET", READS[what])
        codes = {"ok"} | ({"status-503"} if READS[what] == "/readyz" else set())
        expect(answer, codes, READS[what])
    elif what < len(READS) + len(ASKED):
        expect(run.world.resp(node, "operator", *ASKED[what - len(READS)]), {"ok"}, str(ASKED))
    else:
        words = SHOWN[what - len(READS) - len(ASKED)]
        extra = ["--json"] if words[0] != "decode" else []
        expect(run.world.leafctl(node, "operator", *words, *extra), {"ok"}, str(words))


@operation(lambda rng, plan: {"node": rng.randrange(plan.size)}, weight=1, at_most=4,
           covers=["GET /api/live"])
def watch(run, node=0):
    """A page that stays open until the sequence ends, whatever happens to its node and token."""
    run.world.watch(node, "alice")


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "ctl": rng.random() < 0.3},
           weight=3, cost_s=0.1, at_most=5, covers=["POST /api/cluster/leader", "LEADER"])
def lead(run, node=0, ctl=False):
    """Another node is to lead."""
    number = run.world.node(node).id
    if ctl:
        answer = run.world.leafctl(node, "operator", "leader", number)
    else:
        answer = run.world.http(node, "operator", "POST", "/api/cluster/leader?timeout_ms=10000",
                                {"id": number})
    # Not caught up, or the last change is still under way: both pass.
    expect(answer, {"ok", "not_caught_up", "in_progress", "unreachable", "not_a_voter",
                    "exit 1"},
           f"lead {number}")
    run.lost()
    run.world.settle()


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "ctl": rng.random() < 0.3,
                              "what": rng.choice(["drain", "resume", "resume", "weight"]),
                              "weight": rng.choice([0, 1, 100, 1000, 1001]),
                              "force": rng.random() < 0.2},
           weight=3, cost_s=0.1, at_most=8, covers=[
               "POST /api/nodes/*/drain", "POST /api/nodes/*/resume", "PUT /api/nodes/",
               "MEMBERS_DRAIN", "MEMBERS_RESUME", "MEMBERS_WEIGHT"])
def place(run, node=0, what="drain", weight=100, force=False, ctl=False):
    """A node is to take no new work, or work again, or another share of it. What it is asked for
    it serves all the same."""
    number = run.world.node(node).id
    may_force = force and what != "resume"
    known = run.model.placed
    run.until(lambda: all(known.get(row["id"], {}).items() <= {
        "weight": row["weight"], "drained": row["state"] == "drained"}.items() for row in
        run.certain(lambda: run.world.http(node, "operator", "GET", "/api/nodes")).json["nodes"]),
        f"/api/nodes shows {known}")
    if ctl:
        answer = run.world.leafctl(node, "operator", "members", what, number,
                                   *([weight] if what == "weight" else []),
                                   *(["--force"] if may_force else []))
    else:
        tail = f"{number}" if what == "weight" else f"{number}/{what}"
        answer = run.world.http(node, "operator", "PUT" if what == "weight" else "POST",
                                f"/api/nodes/{tail}{'?force=1' if may_force else ''}",
                                {"weight": weight} if what == "weight" else None)
    if what == "weight" and weight > 1000:
        expect(answer, {"bad_request", "exit 64"}, f"{what} {number}")
    else:
        expect(answer, {"ok", "last_ready", "exit 76"}, f"{what} {number}")
    row = known.setdefault(number, {})
    if answer.ok:
        row.update({"weight": weight} if what == "weight" else {"drained": what == "drain"})
    elif answer.code == "unknown":
        row.pop("weight" if what == "weight" else "drained", None)


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "beside": rng.randrange(plan.size),
                              **draw_protocol(rng, "ctl")},
           weight=2, cost_s=0.2, at_most=4, covers=[
               "GET /api/clients/cuts", "PUT /api/clients/cuts/", "DELETE /api/clients/cuts/",
               "CLIENTS_LIST", "CLIENTS_CUT", "CLIENTS_RESTORE"])
def cut_client(run, node=0, beside=0, protocol="http"):
    """A client is cut on each node, also after another cut, and served again."""
    def ask(method, path, body, *words):
        if protocol == "ctl":
            return run.certain(lambda: run.world.leafctl(node, "operator", "clients", *words,
                                                         *([] if words[0] == "restore" else
                                                           ["--json"])))
        return run.certain(lambda: run.world.http(node, "operator", method,
                                                  f"/api/clients/cuts{path}", body))

    def served(number, code):
        run.until(lambda: run.world.http(number, "eve", "GET", "/api/tags?prefix=e/").code == code,
                  f"{code} for eve")

    expect(ask("PUT", "/eve", {"for_s": 600, "reason": "x"}, "cut", "eve", "--for", "10m",
               "--reason", "x"), {"ok"}, "cuts eve")
    other = "203.0.113.9"  # by leafctl or not: an address that none has here
    expect(ask("PUT", f"/{other}", {"for_s": 600}, "cut", other, "--for", "10m", "--reason", "y"),
           {"ok"}, f"cuts {other}")
    for number in (node, beside):
        served(number, "client_cut")
    run.until(lambda: {item["who"].removesuffix("/32") for item in
                       ask("GET", "", None, "list").json["cuts"]} - {"till"} == {other, "eve"},
              "both cuts are shown")
    expect(ask("DELETE", f"/{other}", None, "restore", other), {"ok", "unknown_cut", "exit 76"},
           f"restores {other}")
    # Where the first answer was lost it is so already.
    expect(ask("DELETE", "/eve", None, "restore", "eve"), {"ok", "unknown_cut", "exit 76"},
           "restores eve")
    for number in range(run.size):  # the next operation may ask any of them
        served(number, "ok")


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "resp": rng.random() < 0.3,
                              "for_s": rng.choice([None, 0, 86400, 604800])},
           weight=3, cost_s=0.05, covers=[])
def long_cut(run, node=0, for_s=None, resp=False):
    """A client that is cut for days stays so, whatever happens to nodes and clocks; it is cut for
    so long, or (0) restored."""
    world, model = run.world, run.model

    def code(number):
        if resp:
            return world.resp(number, "till", "LEAFD.DECODE", 1256557484213448722)
        return world.http(number, "till", "GET", "/api/tags?prefix=t/")

    answer = run.certain(lambda: code(node))
    now_s = world.shift_s
    if model.cut_s is not None:
        right = {"client_cut"} if now_s < model.cut_s - 3600 else {"ok"} if not model.cut_s else {
            "client_cut", "ok"}
        expect(answer, right, f"till, cut until {model.cut_s}, where the clocks say {now_s}")
    if for_s is None:
        return
    body = {"for_s": for_s} if for_s else None
    answer = run.certain(lambda: world.http(node, "operator", "PUT" if for_s else "DELETE",
                                            "/api/clients/cuts/till", body))
    expect(answer, {"ok"} if for_s else {"ok", "unknown_cut"}, f"cuts till for {for_s}")
    model.cut_s = for_s and now_s + for_s
    for number in range(run.size):
        run.until(lambda at=number: code(at).code == ("client_cut" if for_s else "ok"),
                  f"till is cut for {for_s}")


# --- a share of tags ---

def draw_share(rng, plan):
    return {"first": rng.choice([0, 0, 500, 1000, 1500]), "count": rng.choice([1, 20, 600]),
            "text": rng.choice([0, 0, 9, 200]), "as_": rng.choice(["eve"] * 3 + ["operator"]),
            "node": rng.randrange(plan.size), **draw_protocol(rng, "resp")}


@operation(draw_share, weight=4, cost_s=0.05, covers=[])
def share_put(run, first=0, count=1, text=0, as_="eve", node=0, protocol="http"):
    """A client with a small share makes tags, or makes them larger; all or none."""
    share = run.model.share
    if protocol == "resp":
        count, text = 1, 0
    names = [f"e/{number}" for number in range(first, first + count)]
    after = share.put(names, as_, text)
    reason = text // 2
    fields = {"description": "d" * (text - reason), "paused": reason > 0}
    if reason:
        fields["reason"] = "r" * reason
    items = [{"tag": name, **fields} for name in names]
    if protocol == "resp":
        after = share if share.lives(names[0]) else after
        answer = run.world.resp(node, as_, "SETNX", names[0], 0)
    elif count == 1:
        answer = run.world.http(node, as_, "PUT", f"/api/tags/{path_of(names[0])}?timeout_ms=10000",
                                fields)
    else:
        answer = run.world.http(node, as_, "POST", "/api/tags?timeout_ms=10000", items)
    what = f"{as_} puts {count} tags from {names[0]} on with {text} bytes of text"
    if not share.sure:
        return expect(answer, {"ok", "share"}, what)
    expect(answer, {"ok"} if after is not None else {"share"}, what)
    if answer.code == "share" and protocol == "http":
        told = answer.json
        must((told["held"], told["share"]) == (share.held(), Share.MOST), "wrong-share",
             f"{what}: {answer}, where {share.held()} are held")
    elif answer.ok:
        run.model.share = after
    elif answer.code == "unknown":
        share.sure = False
    return None


@operation(lambda rng, plan: {"first": rng.randrange(1600), "count": rng.choice([1, 10, 40]),
                              "as_": rng.choice(["eve", "operator"]),
                              "node": rng.randrange(plan.size)}, weight=3, cost_s=0.05, covers=[])
def share_delete(run, first=0, count=1, as_="eve", node=0):
    """Some of them are deleted: a row of each is left, which counts less."""
    for number in range(first, first + count):
        name = f"e/{number}"
        answer = run.world.http(node, as_, "DELETE",
                                f"/api/tags/{path_of(name)}?timeout_ms=10000")
        right = {"ok" if run.model.share.lives(name) else "unknown_tag"}
        expect(answer, right if run.model.share.sure else {"ok", "unknown_tag"}, f"DELETE {name}")
        if answer.code == "unknown":
            run.model.share.sure = False
        elif answer.ok:
            run.model.share.delete(name)


@operation(lambda rng, plan: {"layout": rng.choice([None, None, "l0", "l1"]),
                              "node": rng.randrange(plan.size)}, weight=4, covers=[])
def share_worker(run, layout=None, node=0):
    """A client that may hold two worker ids of each layout acquires one for a day. One of the
    cluster's own layout counts in the share of a wider one, too."""
    known = run.model.layouts.get(layout)
    body = {"name": "eve", "window_ms": 86400000, **({"layout": layout} if layout else {})}
    held = run.model.eve_workers
    if held is None:
        return
    answer = run.world.http(node, "eve", "POST", "/api/workers", body)
    what = f"eve acquires a worker id of {layout or 'leafd'}, and holds {held}"
    if answer.code in ("newer", "clock_skew"):
        return
    if layout is not None and not (known and known["alive"]):
        expect(answer, {"unknown_layout"}, what)
        return
    wide = known is not None and known["preset"] == "sonyflake"
    if run.model.clock_moved:  # windows may be over
        held.clear()
    freed = run.model.clock_moved or run.model.eve_freed
    full = held.get(False, 0) + wide * held.get(True, 0) >= 2 and not freed
    expect(answer, {"share"} if full else {"ok"} | ({"share", "no_worker_id"} if freed else set()),
           what)
    if answer.ok:
        number = answer.json["worker_id"]
        must(freed or (number >= 1024) == wide, "of-another-share", f"{what}: {answer}")
        run.model.granted(number, answer.json, None, what)
        held[number >= 1024] = held.get(number >= 1024, 0) + 1
    elif answer.code == "unknown":
        run.model.eve_workers = None


# --- what is asked with OPTIONS, names that hide something, imports ---

ASKED_FOR = ["*", "/", "/api/tags", "/api/tags/x", "/api/segment/get/x", "/metrics", "/no/such"]


@operation(lambda rng, plan: {"path": rng.choice(ASKED_FOR), "node": rng.randrange(plan.size)},
           weight=1, covers=[])
def options(run, path="*", node=0):
    """Which methods a path has."""
    answer = run.world.http(node, "operator", "OPTIONS", path)
    expect(answer, {"no_route" if path == "/no/such" else "ok"}, f"OPTIONS {path}")
    must(not answer.ok or answer.status == 204, "wrong-status", f"OPTIONS {path}: {answer.status}")


NO_HEADERS = ["", "PROXY NOTHING\r\n", "PROXY TCP4 1 2\r\n"]


@operation(lambda rng, plan: {"header": rng.choice(NO_HEADERS), "node": rng.randrange(plan.size)},
           weight=1, covers=[])
def proxy_without(run, header="", node=0):
    """A proxy that does not say for whom it asks is not answered."""
    answer = run.world.proxied(node, "operator", "/api/tags", header.encode())
    must(not answer.ok, "answered-without-a-proxys-header", f"{header!r}: {answer}")


HIDDEN = ["h/x%E2%80%8B", "h/x%E2%80%AE", "h/x%07", "h/%EF%BB%BFx"]
LOOKS = ["h/e%CC%81", "h/x%20"]


@operation(lambda rng, plan: {"name": rng.choice(HIDDEN + LOOKS), "node": rng.randrange(plan.size)},
           weight=2, covers=[])
def odd_name(run, name, node=0):
    """A name with what nobody sees is refused; of one that looks like another a new tag warns."""
    path = "/api/tags/" + name.replace("/", "%2F")
    answer = run.world.http(node, "operator", "PUT", path)
    if name in HIDDEN:
        expect(answer, {"bad_tag", "bad_request"}, f"PUT {name}")
        there = run.certain(lambda: run.world.http(node, "operator", "GET", path))
        must(not there.ok, "hidden-name-made", f"{name}: {there}")
        return
    expect(answer, {"ok"}, f"PUT {name}")
    if answer.ok:
        warned = "looks like another one" in answer.json.get("warning", "")
        must(warned == (answer.status == 201), "wrong-warning", f"PUT {name}: {answer}")


IMPORTED = ["i/0", "i/1", "stepped-trend", "stepped-strict", "paused-trend", "paused-monotonic"]


@operation(lambda rng, plan: {"name": rng.choice(IMPORTED), "more": rng.choice([0, 500]),
                              "node": rng.randrange(plan.size)},
           weight=2, cost_s=0.2, at_most=4, covers=["IMPORT_LEAF"])
def import_json(run, name="i/0", more=0, node=0):
    """Leaf's table as JSON: ids go on from its max_id, and none comes twice, also of a tag that has
    an increment or is paused."""
    known = run.model.steps.get(name)
    if name[0] != "i" and (known is None or known[2] != NO_MAX):
        return
    path = f"/api/tags/{path_of(name)}"
    before = run.certain(lambda: run.world.http(node, "operator", "GET", path))
    max_id = (int(before.json["max_id"]) if before.ok else 1000) + more
    file = os.path.join(run.world.directory, "leaf_alloc.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump({"leaf_alloc": [{"biz_tag": name, "max_id": max_id, "step": 100,
                                   "description": None, "update_time": "2026-01-01 00:00:00"}]},
                  out)
    answer = run.world.leafctl(node, "operator", "import", "leaf", file)
    if answer.code == "unknown":
        return
    shown = run.certain(lambda: run.world.http(node, "operator", "GET", path)).json
    if answer.code == "exit 76" and int(shown["max_id"]) > max_id:
        return  # a node that has just started took a segment meanwhile
    expect(answer, {"ok"}, f"import {name} {max_id}")
    must(int(shown["max_id"]) >= max_id, "import-lowers", f"{name}: {shown} where {max_id}")
    got = run.world.http(node, "operator", "GET", f"{SEGMENT}{path_of(name)}?timeout_ms=10000")
    expect(got, {"paused" if name in run.model.paused else "ok"}, f"ids of {name}")
    given = (run.model.stepped if known else run.model.imported).setdefault(name, set())
    if got.ok:
        one = int(got.text)
        least = max_id if more or not before.ok else 0  # else it stays as it is
        must(one >= least and one not in given, "imported-again", f"{name} gave {one}")
        given.add(one)


@operation(lambda rng, plan: {"name": rng.choice(["w0", "w1", "w2", "w3"]),
                              "node": rng.randrange(plan.size), "give": rng.random() < 0.3},
           weight=3, covers=[])
def force_worker(run, name, node=0, give=False):
    """An operator takes a worker id from its owner, or releases it, by force."""
    own = run.model.workers.get(name)
    if own is None or own["fenced"] or not own["held"]:
        return
    soft = {"clock_skew"} if run.model.clock_moved else set()
    number = own["worker_id"]
    if give:
        answer = run.world.http(node, "operator", "DELETE",
                                f"/api/workers/{number}?epoch={own['epoch']}&force=1")
        expect(answer, {"ok", "fenced"} if run.model.clock_moved else {"ok"},
               f"releases {own} by force")
        if answer.ok:
            own["held"] = False
        return
    before = worker_rows(run)
    rows = {row["worker_id"]: row for row in before["workers"]}
    answer = run.world.http(node, "operator", "POST", "/api/workers?force=1",
                            {"name": name, "worker_id": number})
    ahead = own["from_ms"] > before["log_time_ms"] - 1000
    expect(answer, {"ok"} | soft | ({"conflict"} if ahead or run.model.clock_moved else set()),
           f"takes {own} by force")
    if answer.code == "unknown":
        own["fenced"] = True
    if answer.ok:
        must(answer.json["worker_id"] == number, "another-worker-id", f"{own}: {answer}")
        run.model.granted(number, answer.json, rows.get(number), f"takes {own} by force")
        for other, entry in run.model.workers.items():
            if entry["worker_id"] == number and other != name:
                entry["held"] = entry["fenced"] = True
        run.model.workers[name] = {**answer.json, "owner": "operator", "held": True,
                                   "fenced": False}


# --- increments ---

STEPPED_CALLS = ["text", "range", "json", "next", "tinyid", "segment"]


def stepped_ids(run, name, node, call, count, key=None):
    """The ids of an answer in each form, or None."""
    world = run.world
    if call == "next":
        answer = world.resp(node, "operator", "LEAFD.NEXT", name, "COUNT", count,
                            *(["KEY", key] if key else []))
        return answer, answer.numbers
    if call in ("tinyid", "segment"):
        path = "nextIdSimple" if call == "tinyid" else "nextSegmentIdSimple"
        answer = world.http(node, None, "POST" if count % 2 else "GET", f"/tinyid/id/{path}?"
                            f"bizType={name}&token={world.secrets['operator']}&batchSize={count}")
        words = list(map(int, answer.text.split(","))) if answer.ok and answer.text else None
        if words is None or call == "tinyid":
            return answer, words
        current, _, last, delta, remainder = words
        first = current + 1 + (remainder - current - 1) % delta
        return answer, list(range(first, last + 1, delta))
    options = f"count={count}&timeout_ms=10000"
    options += f"&format={call}&stepped=1" if call != "text" else ""
    answer = world.http(node, "operator", "GET", f"{SEGMENT}{name}?{options}", None,
                        {"Idempotency-Key": key} if key else None)
    if not answer.ok:
        return answer, None
    if call == "text":
        return answer, list(map(int, answer.text.split()))
    ranges = [tuple(map(int, line.split())) for line in answer.text.splitlines()] \
        if call == "range" else [(int(r["first"]), int(r["last"]), r["increment"])
                                 for r in answer.json["ranges"]]
    return answer, [n for first, last, by in ranges for n in range(first, last + 1, by)]


@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "other": rng.randrange(plan.size),
                              "mode": rng.choice(MODES), "by": rng.choice([1, 2, 3, 10, 1000]),
                              "at": rng.randrange(1000), "call": rng.choice(STEPPED_CALLS),
                              "count": rng.choice([1, 4, 30]),
                              "room": rng.choice([None, None, 0, 3, 50])},
           weight=5, covers=["GET /tinyid/id/", "POST /tinyid/id/"])
def stepped(run, node, other, mode, by, at, call, count, room=None):
    """A tag gets an increment and an offset, and room for so many ids; all nodes hand out numbers
    of these, each once, and for a key the same as before."""
    world = run.world
    name = f"stepped-{mode}"
    fields = {"mode": mode, "step": 20, "increment": by, "offset": at % by, "max": NO_MAX}
    given = run.model.stepped.setdefault(name, set())
    key = f"k{len(given)}" if mode != "trend" and call in ("text", "json", "next") else None
    kept = None
    if name in run.model.steps:
        shown = run.certain(lambda: world.http(node, "operator", "GET", f"/api/tags/{name}")).json
        found = (shown.get("increment", 1), shown.get("offset", 0), int(shown.get("max", NO_MAX)))
        right = run.model.steps[name]
        must(found == (*right[:2], right[2] or found[2]), "stepped-forgotten",
             f"{shown} where {right} was set")
        if key:
            got, kept = stepped_ids(run, name, other, call, count, key)
            must(not given & set(kept or []), "stepped-again", f"{name}: {key} {got}")
            given |= set(kept or [])
        if room is not None:
            shown = run.certain(lambda: world.http(node, "operator", "GET",
                                                   f"/api/tags/{name}")).json
            fields["max"] = int(shown["max_id"]) + room * by
    answer = run.certain(lambda: world.http(node, "operator", "PUT", f"/api/tags/{name}?wait=all&"
                                            "timeout_ms=10000", fields))
    if answer.code == "newer" or answer.code == "bad_request" and room is not None:
        return  # a node took a segment meanwhile
    expect(answer, {"ok", "not_everywhere"}, f"PUT {name} {fields}")
    run.model.steps[name] = (by, at % by, fields["max"])
    if kept:
        got, again = stepped_ids(run, name, node, call, count, key)
        must(again in (None, kept), "key-gave-others", f"{name}: {key}: {got} after {kept}")
    for number in (node, other):
        got, ids = stepped_ids(run, name, number, call, count)
        if not ids:
            continue  # nobody heard of them
        must(not given & set(ids) and len(set(ids)) == len(ids), "stepped-again",
             f"{name}: {call} of node {number}: {sorted(given & set(ids))[:9]} of {got}")
        given |= set(ids)
        must(answer.code != "ok" or {n % by for n in ids} == {at % by} and max(ids) < (
            fields["max"]), "stepped-wrong",
             f"{name}: {fields}, and {call} of node {number}: {got}")


# --- pauses, and segments by time ---

@operation(lambda rng, plan: {"node": rng.randrange(plan.size), "other": rng.randrange(plan.size),
                              "mode": rng.choice(MODES), "calls": rng.choices(STEPPED_CALLS, k=3),
                              "cover": rng.choice([None, 0, 1, 600]), "count": rng.choice([1, 30]),
                              "leave": rng.random() < 0.3, **draw_protocol(rng, "ctl")},
           weight=5, covers=["TAGS_PAUSE", "TAGS_RESUME"])
def pausing(run, node, other, mode, calls, cover, count, leave=False, protocol="http"):
    """A tag is paused, and no node that has followed hands out an id of it, also later (leave);
    after the pause all do, and none comes twice. Meanwhile the tag may get a cover_s, and keeps the
    pause."""
    world = run.world
    name = f"paused-{mode}"
    path = f"/api/tags/{name}?wait=all&timeout_ms=10000"

    def put(fields):
        return run.certain(lambda: world.http(node, "operator", "PUT", path, fields))

    def switch(what, fields):
        if protocol == "http":
            return put(fields)
        return run.certain(lambda: world.leafctl(node, "operator", "tags", what, name,
                                                 "--wait-all", "--json"))

    if name in run.model.paused:
        got, ids = stepped_ids(run, name, node, calls[0], count)
        must(not ids, "ids-of-a-paused-tag", f"{name}, since long: {calls[0]} of {node}: {got}")
        run.model.paused.discard(name)
    made = put({"mode": mode, "step": 20, "cover_s": None if cover is None else 0})
    if made.code == "newer":
        return
    expect(made, {"ok", "not_everywhere"}, f"PUT {name}")
    run.model.steps[name] = (1, 0, NO_MAX)
    answer = switch("pause", {"paused": True, "reason": "model"})
    expect(answer, {"ok", "not_everywhere"}, f"pauses {name}")
    for number, call in zip((node, other), calls):
        got, ids = stepped_ids(run, name, number, call, count)
        if answer.code == "ok":
            must(not ids, "ids-of-a-paused-tag", f"{name}: {call} of node {number}: {got}")
        run.model.stepped.setdefault(name, set()).update(ids or [])
    if cover is not None:
        answer = put({"cover_s": cover})
        expect(answer, {"ok", "not_everywhere"} if mode == "trend" or not cover else
               {"bad_request"}, f"PUT {name} cover_s={cover}")
        must(not answer.json or answer.code != "ok" or answer.json.get("paused"), "pause-lost",
             f"{name}: {answer}")
    if leave and answer.code == "ok":
        run.model.stepped.setdefault(name, set())
        run.model.paused.add(name)
        return
    answer = switch("resume", {"paused": False})
    expect(answer, {"ok", "not_everywhere"}, f"resumes {name}")
    given = run.model.stepped.setdefault(name, set())
    for number in (node, other):
        got, ids = stepped_ids(run, name, number, calls[2], count)
        must(answer.code != "ok" or got.code != "paused", "still-paused", f"{name}: {got}")
        if not ids:
            continue  # nobody heard of them
        must(not given & set(ids) and len(set(ids)) == len(ids), "paused-again",
             f"{name}: {calls[2]} of node {number}: {sorted(given & set(ids))[:9]} of {got}")
        given |= set(ids)


# What needs the tokens file; and where it matters who asks.
OF_TOKENS = ["reload", "certificate", "quota", "cut_client", "long_cut", "list_tags", "share_put",
             "share_delete", "share_worker"]
OF_OWNERS = ["acquire", "renew", "release"]

NOT_DRAWN = {
    "CHECK": "its exit code is an opinion on the set-up: test_leafctl.py",
    "RESTORE": "runs leafd restore, which is drawn",
    "RECOVER": "runs leafd recover, which is drawn",
    "LEVEL_RAISE": "as POST /api/cluster/level, which upgrade uses",
    "IMPORT_TINYID": "what a file's row becomes is test_import_unit.py's; then as IMPORT_LEAF",
    "IMPORT_COSID": "as IMPORT_TINYID",
    "IMPORT_SQL": "it needs a database: test_import_database.py; then as IMPORT_LEAF",
    "IMPORT_CSV": "as IMPORT_TINYID",
    "TOKEN_NEW": "asks no cluster",
    "POST /decodeSnowflakeId": "as GET",
    "QUIT": "ends the connection; test_resp.py",
}
