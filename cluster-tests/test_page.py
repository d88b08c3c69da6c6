"""The page at `/`, without a browser: who gets it, what it may do, and that it is whole.

cluster-tests/test_page_browser.py looks at it in a browser.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest

from client import Connection, tag_path
from cluster import FAST
from ports import take_port
from test_listeners import Tokens, listeners_fixture  # noqa: F401, pylint: disable=unused-import
from wait import wait_until

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


def brightness(color):
    """As WCAG 2 has it (relative luminance) of #rrggbb: 0 to 1."""
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
                        for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_each_mark_can_be_read(shared):
    """In both themes the text of a chip has WCAG's contrast of 4.5 to its background."""
    page = page_of(shared.nodes[0].http("GET", "/", headers={"Host": "127.0.0.1"}))
    kinds = re.search(r"const KIND_INK = \{(.*?)\}", page, re.DOTALL)[1]
    inks = set(re.findall(r'"([a-z0-9]+)"', kinds))
    assert "leader" in inks
    classes = re.findall(r"\.chip\.[a-z]+ \{ background: var\(--([a-z]+)\);"
                         r"(?: color: var\(--([a-z]+)\);)? \}", page)
    assert len(classes) == len(re.findall(r"\.chip\.", page))
    marks = {(ink, "card") for ink in inks} | {(ink, text or "card") for ink, text in classes}
    for theme in (":root", r':root\[data-theme="dark"\]'):
        blocks = re.findall(r"(?:^|\s)" + theme + r" \{(.*?)\}", page, re.DOTALL)
        colors = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", " ".join(blocks)))
        for ink, text in marks:
            dark, light = sorted((brightness(colors[ink]), brightness(colors[text])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (theme, ink, text)


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


COMMANDS = """
globalThis.location = JSON.parse(process.argv[2]);
%s
const { status, you, token, tag } = JSON.parse(process.argv[3]);
S.you = you;
S.token = token;
console.log(JSON.stringify(firstCommands(status, tag)));
"""


def commands_of(page, at, status, tag, token=""):
    """The lines that the page shows, by its own script: what each is for, and the line."""
    script = re.search("<script>(.*?)</script>", page, re.DOTALL)[1].strip()
    assert script.endswith("\nmain();")
    place = {"protocol": "http:", "hostname": at[0], "port": str(at[1])}
    given = {"status": status, "you": status.get("you"), "token": token, "tag": tag}
    done = subprocess.run(
        ["node", "-", json.dumps(place), json.dumps(given)], check=True, text=True,
        capture_output=True, input=COMMANDS % script.removesuffix("main();"))
    return dict(json.loads(done.stdout))


def run_in_shell(line):
    """By bash, whose words are what the page writes; what it prints."""
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


needs_node = pytest.mark.skipif(not (shutil.which("node") and shutil.which("curl")),
                                reason="needs node and curl")


@needs_node
def test_the_first_commands_are_those_of_this_cluster(make_cluster):
    """They run as they are shown, whatever a tag is called."""
    node = make_cluster(1, {**FAST, "resp-listen": f"127.0.0.1:{take_port()}"}).nodes[0]
    page = page_of(node.http("GET", "/", headers={"Host": "127.0.0.1"}))
    wait_until(lambda: node.get_json("/api/status")["members"][0]["http_address"], 30,
               "the node's address is known")
    status = node.get_json("/api/status")
    assert status["resp_address"] == node.settings["resp-listen"]
    made = commands_of(page, node.address, status, None)
    assert list(made) == ["make a tag", "take an id as of Redis", "see the cluster"]
    assert json.loads(run_in_shell(made["make a tag"]))["tag"] == "order"
    server = f"http://{node.http_address}"
    assert made["see the cluster"] == f"leafctl --server {server} status"
    for tag in ("order", "a/b c", "$(id)`id`'\"\\!*", "-h", "\u00e9{1,2}[3]"):
        assert node.http("PUT", f"/api/tags/{tag_path(tag)}", {}).status in (200, 201)
        lines = commands_of(page, node.address, status, tag)
        assert run_in_shell(lines["take an id"]) == "1", (tag, lines)
        words = run_in_shell("redis-cli() { printf '%s\\0' \"$@\"; }; " +
                             lines["take an id as of Redis"])
        host, port = node.settings["resp-listen"].split(":")
        assert words.split("\0")[:-1] == ["-h", host, "-p", port, "INCR", tag]


@needs_node
def test_the_first_commands_with_tokens_and_tls(shared):
    """The token is not in them; addresses in brackets, and of a node that does not know its own."""
    page = page_of(shared.nodes[0].http("GET", "/", headers={"Host": "127.0.0.1"}))
    status = {"node_id": 2, "members": [{"id": 2, "http_address": "[2001:db8::1]:8080"}],
              "certificates": [{"what": "http.tls-dir"}], "resp_address": "[2001:db8::1]:6379",
              "you": {"roles": ["ids", "read"], "prefixes": ["shop/"]}}
    lines = commands_of(page, ("ids.example", ""), status, None, "a-secret")
    assert lines == {
        "make a tag": 'curl -X PUT -H "Authorization: Bearer $TOKEN" '
                      "-H 'Content-Type: application/json' -d '{}' "
                      "http://ids.example:80/api/tags/shop%2Forder",
        "take an id as of Redis": 'REDISCLI_AUTH="$TOKEN" redis-cli --tls -h 2001:db8::1 -p 6379 '
                                  "INCR shop/order",
        "see the cluster": 'LEAFCTL_TOKEN="$TOKEN" leafctl --server http://ids.example:80 status'}
    status["resp_address"] = None
    assert list(commands_of(page, ("ids.example", 1), status, "a")) == [
        "take an id", "see the cluster"]
    assert commands_of(page, ("ids.example", 1), status, "a")["take an id"] == (
        "curl $'https://[2001:db8::1]:8080/api/segment/get/a'")
    status["members"][0]["http_address"] = "0.0.0.0:8080"
    status["you"]["roles"] = ["read"]
    assert commands_of(page, ("ids.example", 1), status, "a")["take an id"] == (
        'curl -H "Authorization: Bearer $TOKEN" https://ids.example:8080/api/segment/get/a')
    status["members"] = []
    assert list(commands_of(page, ("ids.example", 1), status, "a")) == ["see the cluster"]


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
