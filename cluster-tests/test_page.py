"""The page at `/`, without a browser: who gets it, what it may do, and that it is whole.

cluster-tests/test_page_browser.py looks at it in a browser.
"""

import base64
import hashlib
import re

import pytest

from client import Connection
from test_listeners import Tokens, listeners_fixture  # noqa: F401, pylint: disable=unused-import

HEADERS = {
    "content-type": "text/html;charset=UTF-8",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def page_of(answer):
    assert answer.status == 200, answer
    return answer.body.decode()


def hash_of(page, tag):
    text = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    assert len(text) == 1, f"the page has {len(text)} {tag}"
    return "'sha256-" + base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode() + "'"


# Shows attack-browser.
def test_page_and_its_policy(shared):
    """The same at /, /cache and /db; nothing but its own style and script may run."""
    node = shared.nodes[0]
    answer = node.http("GET", "/", headers={"Host": "127.0.0.1"})
    page = page_of(answer)
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    for name, value in HEADERS.items():
        assert answer.headers[name] == value, name
    policy = dict(part.strip().split(" ", 1)
                  for part in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "style-src": hash_of(page, "style"),
        "script-src": hash_of(page, "script"), "connect-src": "'self'", "img-src": "data:",
        "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'"}
    for path in ("/cache", "/db"):
        assert page_of(node.http("GET", path, headers={"Host": "127.0.0.1"})) == page
    head = node.http("HEAD", "/", headers={"Host": "127.0.0.1"})
    assert (head.status, head.headers["content-length"]) == (200, str(len(answer.body)))


def test_nothing_from_outside_and_no_markup_from_texts(shared):
    """No foreign address, no inline handler or style, and no way from a text to markup."""
    page = page_of(shared.nodes[0].http("GET", "/", headers={"Host": "127.0.0.1"}))
    plain = page.replace("http://www.w3.org/2000/svg", "")
    for mark in ("http://", "https://", "@import", "url(", "innerHTML", "outerHTML", "eval(",
                 "insertAdjacentHTML", "document.write", "new Function", ".setHTML", "srcdoc",
                 "localStorage", "document.cookie", "@STYLE@", "@SCRIPT@"):
        assert mark not in plain, mark
    assert not re.search(r"<[a-z]+ [^>]*\b(on[a-z]+|style)=", page)
    assert "<!--" not in page and page.count("<script") == page.count("</script") == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods(shared, method):
    answer = shared.nodes[0].http(method, "/", headers={"Host": "127.0.0.1"})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_who_gets_it(listeners):
    """All, without a token: it shows nothing. At the operators' listener alone, by its own host."""
    assert listeners.admin("GET", "/").status == 200
    assert listeners.admin("GET", "/db", "reader").status == 200
    answer = listeners.ids("GET", "/")
    assert (answer.status, answer.code) == (404, "other_door")
    for headers, status in (({"Host": "evil.example"}, 421),
                            ({"Origin": "http://evil.example"}, 403),
                            ({"Authorization": "Bearer " + "A" * 43}, 401)):
        assert listeners.admin("GET", "/", headers=headers).status == status
    assert listeners.admin("GET", "/?x=1").status == 400


def test_what_it_asks_needs_the_role(listeners):
    """Status, events and the live stream are for the role read, by this node's host."""
    for path in ("/api/status", "/api/events", "/api/live"):
        answer = listeners.admin("GET", path)
        assert (answer.status, answer.code) == (401, "unauthorized"), path
        for headers, status in (({"Host": "evil.example"}, 421),
                                ({"Origin": "http://evil.example"}, 403)):
            assert listeners.admin("GET", path, "reader", headers=headers).status == status, path
        assert listeners.ids("GET", path, "reader").status == 404


def test_a_viewer_goes_with_its_token(listeners):
    """Tokens that are read again end the streams of those who may not watch any more."""
    def viewer(who):
        connection = Connection(listeners.admin_address)
        token = listeners.tokens.tokens[who]
        connection.send(b"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                        b"Authorization: Bearer " + token.encode() + b"\r\n\r\n")
        while b"event: status" not in connection.buffer:
            connection.fill()
        return connection

    with viewer("reader") as gone, viewer("root") as stays:
        del listeners.tokens.lines["reader"]
        listeners.tokens.write()
        listeners.reload()
        while not gone.buffer.endswith(b"\r\n0\r\n\r\n"):
            gone.fill()
        stays.buffer = b""
        while b"event: status" not in stays.buffer:
            stays.fill()


def test_you(listeners):
    """The page learns what it may offer; a tenant's prefixes are its own."""
    seen = listeners.admin("GET", "/api/status", "reader").json()["you"]
    assert seen == {"name": "reader", "roles": ["read", "metrics"], "prefixes": []}
    seen = listeners.admin("GET", "/api/status", "shop").json()["you"]
    assert seen == {"name": "shop", "roles": ["ids", "read", "tags"],
                    "prefixes": ["shop/", "caf\u00e9/"]}


# Shows attack-tenant.
def test_a_tenant_sees_no_other_tag(listeners):
    """Nothing that is for all viewers names a tag: neither status nor events."""
    secret = "secret-of-another"
    assert listeners.admin("PUT", f"/api/tags/{secret}", "root", {}).status == 201
    assert listeners.ids("GET", f"/api/segment/get/{secret}", "root").status == 200
    listeners.reload()
    for path in ("/api/status", "/api/events?limit=512"):
        answer = listeners.admin("GET", path, "shop")
        assert answer.status == 200 and secret not in answer.body.decode(), path
    for path in ("/api/tags", "/api/node/segments", f"/api/tags/{secret}"):
        assert listeners.admin("GET", path, "shop").status == 403, path


# Shows attack-browser.
def test_hostile_names_stay_texts(shared):
    """What a client chose comes as JSON, of a type that no browser takes for a page."""
    name = "%3C%2Fscript%3E%3Cimg%20src=x%20onerror=alert(1)%3E"
    text = "</script><script>alert(1)</script>\u202e"
    node = shared.leader()
    assert node.http("PUT", f"/api/tags/{name}?", {"description": text}).status in (200, 201)
    answer = node.get(f"/api/tags/{name}")
    assert answer.headers["content-type"] == "application/json;charset=UTF-8"
    assert answer.json()["description"] == text
