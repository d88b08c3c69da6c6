"""GET /openapi.json: a node takes the options of the document with its bounds and no others, and
what it answers is what the document's schemas allow. That it has all routes, and no more, is
http/api/tests/test_api.c's.
"""

import glob
import itertools
import json
import os
import re

import pytest

from test_listeners import Tokens, listeners_fixture  # noqa: F401, pylint: disable=unused-import
from wait import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "http/api/openapi.json")
DOCS = os.path.join(ROOT, "docs/http-api.md")


def read_source():
    with open(SOURCE, encoding="utf-8") as file:
        return json.load(file)


DOCUMENT = read_source()
OPERATIONS = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]


def resolve(value):
    """What a reference of the document points to, or the value itself."""
    if "$ref" not in value:
        return value
    found = DOCUMENT
    for part in value["$ref"].split("/")[1:]:
        found = found[part]
    return found


def parameters(path, method, place):
    every = (resolve(p) for p in DOCUMENT["paths"][path][method].get("parameters", []))
    return {p["name"]: p for p in every if p["in"] == place}


def names_in_source():
    """Every option or field that a handler could know."""
    names = set()
    for file in glob.glob(os.path.join(ROOT, "http/api/*.[ch]")):
        with open(file, encoding="utf-8") as source:
            names.update(re.findall(r'(?:\.name = |OPTION_FLAG\()"([A-Za-z_]+)"', source.read()))
    return names


def target(path):
    return re.sub(r"\{\w+\}", "1", path)


def asked(node, path, method, query):
    """The answer to a request with this query, and a body where the route takes one."""
    for name, option in parameters(path, method, "query").items():
        if option.get("required") and not query.startswith(name + "="):
            # What `as` has is text alone.
            value = "text" if name == "format" else option.get("example", 1)
            query += f"&{name}={value}"
    body = {} if "requestBody" in DOCUMENT["paths"][path][method] else None
    return node.http(method.upper(), f"{target(path)}?{query}", body=body)


def test_both_listeners_serve_it_to_all(listeners):
    for listener in (listeners.ids, listeners.admin):
        answer = listener("GET", "/openapi.json")
        assert answer.status == 200 and answer.json() == DOCUMENT
        assert answer.headers["content-type"] == "application/json;charset=UTF-8"
        assert listener("POST", "/openapi.json").status == 405


# They ignore options that they do not know, as Leaf does (docs/leaf.md).
LEAF_PATHS = {"/api/segment/get/{tag}", "/api/snowflake/get/{key}", "/decodeSnowflakeId",
              "/tinyid/id/{call}"}


def test_options_are_those_of_the_document(shared):
    """Each name that any handler knows, at each route: refused as unknown, or else documented."""
    node = shared.nodes[0]
    names = names_in_source()
    assert {"count", "force", "wait", "verbose", "consistency", "timeout_ms"} <= names
    for (path, method), name in itertools.product(OPERATIONS, names | {"nonsense"}):
        if method == "head":
            continue  # as get: it has no message
        known = parameters(path, method, "query")
        schema = known[name]["schema"] if name in known else {}
        if name in known and schema["type"] == "string" and "enum" not in schema:
            continue  # takes any text
        answer = asked(node, path, method, f"{name}=%40")
        if path in LEAF_PATHS and name not in known:
            assert answer.status != 415 and not re.search(rf'"{name}\b', answer.text), (
                path, name, answer)
            continue
        assert answer.status == 400, (path, method, name, answer)
        unknown = "unknown query option" in answer.text or "takes no" in answer.text
        assert unknown == (name not in known), (path, method, name, answer.text)


def test_names_differ_by_more_than_their_case():
    """Generated clients make a file, or a type, of each component, field and operation."""
    for names in (
            [name for kind in DOCUMENT["components"].values() for name in kind],
            [DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS],
            *[kind.get("properties", {}) for kind in DOCUMENT["components"]["schemas"].values()],
    ):
        plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
        assert len(set(plain)) == len(plain), sorted(names)


def test_ids_are_strings_by_default():
    """A client made from the document says format=json, whose ids are strings."""
    for path in ("/api/segment/get/{tag}", "/api/snowflake/get/{key}"):
        for method in ("get", "post"):
            option = parameters(path, method, "query")["format"]
            assert option["required"] and option["schema"]["default"] == "json"
            content = DOCUMENT["paths"][path][method]["responses"]["200"]["content"]
            assert next(iter(content)) == "application/json"
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, value in schema.get("properties", {}).items():
            if field in ("first", "last", "max_id", "max"):
                kind = resolve(value)["type"]
                assert kind == "string" or "string" in kind, (name, field)


@pytest.mark.parametrize("path, method", OPERATIONS)
def test_bounds_of_numbers_and_words(shared, path, method):
    """One beyond each bound is refused with the rule. The bound itself is taken wherever asking
    does nothing."""
    node = shared.nodes[0]
    if method == "head":
        pytest.skip("as get")
    for name, option in parameters(path, method, "query").items():
        schema = option["schema"]
        if schema["type"] == "integer":
            bad = [schema["minimum"] - 1] + ([schema["maximum"] + 1] if "maximum" in schema else [])
            good = [schema["minimum"]] + ([schema["maximum"]] if "maximum" in schema else [])
        else:
            good = schema.get("enum", [option.get("example", "x")])
            bad = ["other"] if "enum" in schema else []
        for value in bad:
            answer = asked(node, path, method, f"{name}={value}")
            assert (answer.status, answer.code) in ((400, "bad_request"), (400, "bad_count"))
            assert f'{name}="{value}"' in answer.text.replace("\\", ""), answer
            if "maximum" in schema:
                assert f"from {schema['minimum']} to {schema['maximum']}" in answer.text, answer
        if method == "get" and path != "/api/backup":
            for value in good:
                answer = asked(node, path, method, f"{name}={value}")
                assert answer.status != 400, (value, answer)


def test_names_in_a_path_have_their_bounds(shared):
    node = shared.nodes[0]
    seen = 0
    for path, method in OPERATIONS:
        for name, option in parameters(path, method, "path").items():
            schema = option["schema"]
            if schema["type"] != "integer" or method == "head":
                continue
            seen += 1
            for value in (schema["minimum"] - 1, schema["maximum"] + 1):
                answer = node.http(method.upper(), path.replace("{" + name + "}", str(value)))
                assert answer.status == 400, answer
                assert f"from {schema['minimum']} to {schema['maximum']}" in answer.text, answer
    assert seen == 7


def test_errors_are_those_of_the_contract():
    """The codes are those of the tables in http-api.md; each route names some of them."""
    with open(DOCS, encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r"^\| [45]\d\d \| (.*?) \|", text, re.MULTILINE)
    codes = {code for row in rows for code in re.findall(r"`(\w+)`", row)}
    listed = set(DOCUMENT["components"]["schemas"]["Error"]["properties"]["code"]["enum"])
    assert codes <= listed, codes - listed
    assert all(f"`{code}`" in text for code in listed)
    for path, method in OPERATIONS:
        assert set(DOCUMENT["paths"][path][method]["x-errors"]) <= listed


def test_roles_and_listeners_are_those_of_the_contract():
    with open(DOCS, encoding="utf-8") as file:
        health = re.search(r"^\| `health` \| (.*) \|$", file.read(), re.MULTILINE).group(1)
    paths = {path for path, method in OPERATIONS
             if DOCUMENT["paths"][path][method]["x-role"] == "health"}
    assert paths == set(re.findall(r"`(/\w+(?:\.json)?)`", health))


class Validator:
    """Holds answers against the document."""

    def __init__(self):
        jsonschema = pytest.importorskip("jsonschema")
        self.kind = jsonschema.Draft202012Validator
        self.seen = set()

    def check_schema(self):
        for schema in DOCUMENT["components"]["schemas"].values():
            self.kind.check_schema(schema)

    def check(self, path, method, answer):
        responses = DOCUMENT["paths"][path][method]["responses"]
        status = str(answer.status)
        response = responses[status if status in responses else status[0] + "XX"]
        content = resolve(response).get("content", {})
        self.seen.add((path, method, status))
        if method == "head" or not content:
            assert not answer.body, answer
            return
        kind = answer.headers["content-type"].split(";")[0]
        assert kind in content, (path, kind)
        schema = dict(content[kind]["schema"], components=DOCUMENT["components"])
        value = answer.json() if kind == "application/json" else answer.text
        faults = [f"{list(fault.absolute_path)}: {fault.message}"
                  for fault in self.kind(schema).iter_errors(value)]
        assert not faults, (path, method, status, faults, answer.text[:2000])


def test_answers_are_as_the_schemas_say(shared, tag):
    """Of every route but those that change the members, and the endless one."""
    node = shared.nodes[0]
    validator = Validator()
    validator.check_schema()

    def ask(path, method, query="", body=None, **names):
        where = path
        for name, value in names.items():
            where = where.replace("{" + name + "}", str(value))
        answer = node.http(method.upper(), where + query, body=body)
        validator.check(path, method, answer)
        return answer

    one = "/api/tags/{tag}"
    decode = "/api/segment/decode/{tag}"
    assert ask(decode, "get", "?text=x", tag="no" + tag).code == "unknown_tag"
    assert ask(one, "put", "", {"shape": "I-{id:6}{luhn}"}, tag=tag + ".s").status == 201
    text = ask("/api/segment/get/{tag}", "get", tag=tag + ".s").text
    assert ask(decode, "get", f"?text={text}", tag=tag + ".s").json()["id"] == "1"
    assert ask(decode, "get", "?text=x", tag=tag + ".s").code == "bad_id"
    fields = {"step": 1000, "description": "ä", "max": 10**9}
    assert ask(one, "put", "?wait=all", fields, tag=tag).status == 201
    assert ask(one, "put", "", {"max_id": "77"}, tag=tag).status == 200
    assert ask(one, "put", "", {"max_id": 1}, tag=tag).code == "would_repeat"
    assert ask(one, "put", "", {"step": 0}, tag=tag).status == 400
    items = [{"tag": tag}, {"tag": tag + ".x", "mode": "strict"}]
    assert ask("/api/tags", "post", "", items).status == 200
    for method, count, kind in itertools.product(("get", "post"), ("", "&count=3"),
                                                 ("text", "range", "json")):
        for path, name in (("/api/segment/get/{tag}", "tag"), ("/api/snowflake/get/{key}", "key")):
            assert ask(path, method, f"?format={kind}{count}", **{name: tag}).status == 200
    ident = ask("/api/snowflake/get/{key}", "get", key="k").text
    assert ask("/api/snowflake/decode/{id}", "get", id=ident).status == 200
    uuid = ask("/api/snowflake/get/{key}", "get", "?as=uuid", key="k").text.strip()
    assert ask("/api/snowflake/decode/{id}", "get", id=uuid).status == 200
    for value in (ident, "x", "-1"):
        assert ask("/decodeSnowflakeId", "get", f"?snowflakeId={value}").status == 200
    for query in ("", "?verbose", "?consistency=local", "?limit=1"):
        for path, method in OPERATIONS:
            if method in ("get", "head") and "{" not in path and path not in (
                    "/api/live", "/api/backup"):
                ask(path, method, query)
    assert ask(one, "get", tag=tag).status == 200
    assert ask(one, "get", tag="no" + tag).code == "unknown_tag"
    for call, method in itertools.product(("nextId", "nextIdSimple", "nextSegmentId"),
                                          ("get", "post")):
        for name in (tag, "no" + tag):
            assert ask("/tinyid/id/{call}", method, f"?bizType={name}", call=call).status == 200
    wait_until(lambda: ask(one, "put", "", {"increment": 3, "offset": 1}, tag=tag).status == 200,
               30, "the level is 3")
    for form in ("range", "json"):
        assert ask("/api/segment/get/{tag}", "get", f"?format={form}", tag=tag).code == "stepped"
        assert ask("/api/segment/get/{tag}", "get", f"?format={form}&stepped=1", tag=tag).status \
            == 200
    assert ask(one, "get", tag=tag).json()["increment"] == 3
    grant = ask("/api/workers", "post", body={"name": tag, "window_ms": 1000})
    assert grant.status == 201
    worker, epoch = grant.json()["worker_id"], grant.json()["epoch"]
    path = "/api/workers/{id}"
    assert ask(path, "put", "", {"epoch": epoch}, id=worker).status == 200
    assert ask(path, "put", "", {"epoch": epoch + 1}, id=worker).code == "fenced"
    assert ask(path, "delete", f"?epoch={epoch}", id=worker).status == 204
    path = "/api/layouts/{name}"
    assert ask(path, "get", name="none").code == "unknown_layout"
    assert ask(path, "put", "", {"preset": "sonyflake"}, name="openapi").status == 200
    wait_until(lambda: ask(path, "get", name="openapi").status == 200, 10, "it is known")
    ident = ask("/api/snowflake/get/{key}", "get", "?layout=openapi", key="k").text
    assert ask("/api/snowflake/decode/{id}", "get", "?layout=openapi", id=ident).status == 200
    assert ask("/api/snowflake/at", "get", "?layout=openapi&time=1795172638123").status == 200
    assert ask("/api/snowflake/at", "get", "?time=2026-11-20T11:03:58Z&format=json").status == 200
    assert ask(path, "delete", name="openapi").status == 204
    assert ask("/api/workers/pools", "put", "", {"pools": "openapi=800-801"}).status == 200
    assert ask("/api/workers/pools", "get").json() == {"pools": "openapi=800-801"}
    assert ask("/api/workers/pools", "put", "", {"pools": ""}).status == 200
    leader = node.cluster_status()["leader_id"]
    assert ask("/api/cluster/leader", "post", body={"id": leader}).status == 200
    assert ask("/api/cluster/level", "post", body={"level": 5}).status in (200, 409)
    for path in ("/api/nodes/{id}/drain", "/api/nodes/{id}/resume"):
        assert ask(path, "post", id=999).code == "unknown_member"
    assert ask("/api/nodes/{id}", "put", body={"weight": 7}, id=999).code == "unknown_member"
    assert ask("/api/cluster/members/{id}", "delete", id=999).code == "unknown_member"
    path = "/api/clients/cuts/{who}"
    assert ask(path, "put", body={"for_s": 60}, who="127.0.0.1").code == "cuts_asker"
    assert "warning" in ask(path, "put", body={"for_s": 60}, who="openapi").json()
    wait_until(lambda: ask("/api/clients/cuts", "get").json()["cuts"], 30, "it is known")
    assert ask(path, "delete", who="openapi").status == 204
    assert ask(path, "delete", who="openapi").code == "unknown_cut"
    assert ask(one, "delete", tag=tag + ".x").status == 204
    wanted = {(path, method) for path, method in OPERATIONS if path not in (
        "/api/live", "/api/backup", "/api/cluster/members")}
    left = wanted - {(path, method) for path, method, _ in validator.seen}
    assert left == {
        ("/api/segment/decode/{tag}", "head"), ("/api/tags/{tag}", "head"),
        ("/api/snowflake/decode/{id}", "post"), ("/decodeSnowflakeId", "post"),
        ("/api/cluster/members/{id}", "put"), ("/api/layouts/{name}", "head")}
