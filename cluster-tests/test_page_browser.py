"""The page at `/` in a browser: each view, a leader that is killed while it is watched, texts that
want to be markup, a token, a change of a tag, and what a screen reader and a keyboard find.

`make page-test` installs the browser and runs this; elsewhere it is skipped. Screenshots go to
build/page.
"""

import os
import threading

import pytest

from client import Connection, get_bytes, tag_path
from cluster import FAST, Cluster
from test_listeners import Tokens, listeners_fixture  # noqa: F401, pylint: disable=unused-import

if not os.environ.get("LEAFD_PAGE_TEST"):
    pytest.skip("needs a browser: make page-test", allow_module_level=True)

from page_browser import AXE, Browser  # noqa: E402, pylint: disable=wrong-import-position

HOSTILE = "<img src=x onerror=document.title=1>"
HOSTILE_TEXT = "</script><script>document.title='broken'</script><b>bold</b>"
TAGS = {
    "order/invoice": {"step": 1000, "description": "numbers on invoices"},
    "order/shipment": {"step": 2000, "description": ""},
    "payment.intent": {"step": 1000, "description": ""},
    "user": {"step": 5000, "description": "users of all shops"},
    "ledger": {"mode": "strict", "description": "without gaps"},
    "invoice/text": {"shape": "I{key}-{secret36:8}", "description": ""},
    "js-safe": {"max": "9007199254740991", "description": ""},
    "odd": {"increment": 2, "offset": 1, "description": ""},
    HOSTILE: {"description": HOSTILE_TEXT},
}
RATES = {"order/invoice": 3000, "user": 800, "payment.intent": 60}

pytestmark = pytest.mark.bound(120)


class Takers:
    """Clients that take ids all the time, so that there is something to see."""

    def __init__(self, node):
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(node, tag, rate), daemon=True)
                        for tag, rate in RATES.items()]
        for thread in self.threads:
            thread.start()

    def run(self, node, tag, rate):
        try:
            with Connection(node.address) as connection:
                while not self.stopping.wait(0.05):
                    connection.send(get_bytes(
                        f"/api/segment/get/{tag_path(tag)}?count={rate // 20}"))
                    connection.read_response()
        except OSError:
            pass  # the node is killed by a test

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture(scope="module", name="world")
def world_fixture(binary, tmp_path_factory):  # pylint: disable=unused-argument
    cluster = Cluster(tmp_path_factory.mktemp("page"), 3, FAST)
    for node, zone in zip(cluster.nodes, "abc"):
        node.settings["zone"] = f"zone-{zone}"
    takers = None
    try:
        cluster.start()
        for tag, fields in TAGS.items():
            cluster.create_tag(tag, **fields)
        layout = cluster.leader().http("PUT", "/api/layouts/sony", {"preset": "sonyflake"})
        assert layout.status == 200, layout
        cluster.watched = cluster.followers()[0]
        cluster.other = cluster.followers()[1]
        assert cluster.other.http("GET", "/api/segment/get/order%2Finvoice").status == 200
        takers = Takers(cluster.watched)
        for i in range(3):
            body = {"name": f"billing-{i}", "address": f"10.0.0.{i}",
                    "window_ms": 120000 * (i + 1)}
            assert cluster.watched.http("POST", "/api/workers", body).status == 201
        yield cluster
    finally:
        if takers:
            takers.end()
        cluster.end()


@pytest.fixture(scope="module", name="browser")
def browser_fixture(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser") / "profile")
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def light(browser):
    browser.device(1280, 900)
    browser.problems()


def whole(browser):
    """The console has no error, and axe-core finds nothing serious."""
    assert browser.problems() == []
    if os.path.exists(AXE):
        assert browser.axe() == []


def test_cluster(browser, world):
    browser.open(world.watched)
    browser.says("The next failure costs nothing")
    browser.says("you look from here")
    browser.until(lambda: len(browser.find(".picture .box")) == 3, "three nodes")
    browser.until(lambda: len(browser.find(".picture .box.leads")) == 1, "who leads")
    browser.until(lambda: not browser.find(".picture .link.gone"), "links to all")
    browser.says("live")
    lines = browser.until(lambda: [code.text for code in browser.find(".command code")], "commands")
    assert lines == [
        f"curl http://{world.watched.http_address}/api/segment/get/invoice%2Ftext",
        f"leafctl --server http://{world.watched.http_address} status"]
    browser.click(".command button")
    browser.until(lambda: browser.one("#said").get_property("textContent").startswith(
        ("copied", "selected")), "it is copied")
    assert "from zone" not in browser.text()  # the leader knows what ids cost from each
    browser.open(world.leader())
    browser.says("from zone")
    whole(browser)


def test_tags_with_their_buffers(browser, world):
    browser.open(world.watched, "/#tags")
    browser.says("order/invoice")
    rows = browser.find("tbody tr")
    assert len(rows) == len(TAGS)
    browser.until(lambda: browser.find("td.buffers .slot.left"), "a buffer in use")
    browser.until(lambda: len(browser.find(".spark-line")) == len(RATES), "rates")
    browser.one("#prefix").send_keys("order/")
    browser.until(lambda: len(browser.find("tbody tr")) == 2, "what begins with order/")
    whole(browser)
    # Each node has a line of its own, and what the watched one shows is what all hold.
    shows_all_nodes(browser, world)
    browser.click("button.tag")
    browser.until(lambda: "buffers of each node" in browser.one("main").text.lower(), "one tag")
    shows_all_nodes(browser, world)


def test_a_shape_and_its_key(browser, world):
    browser.open(world.watched, "/#tags/invoice%2Ftext")
    browser.says("texts: I{key}-{secret36:8}, by key 0 now")
    whole(browser)


def test_the_numbers_of_an_increment(browser, world):
    browser.open(world.watched, "/#tags/odd")
    browser.says("1, 3, …: id mod 2 = 1")
    browser.says("1: no node has an id from here on")


def shows_all_nodes(browser, world):
    names = {f"node {node.id}" for node in world.nodes}
    browser.until(lambda: names <= {line.text for line in browser.find(".holder span")},
                  "a line of each node")
    browser.until(lambda: any(line.text.startswith(f"node {world.other.id}")
                              and line.find_elements("css selector", ".left")
                              for line in browser.find(".holder")), "what another node holds")


def test_pages_of_leaf(browser, world):
    """/cache begins with the tags in use here, /db with all."""
    browser.open(world.watched, "/cache")
    browser.until(lambda: len(browser.find("tbody tr")) == len(RATES), "tags in use")
    assert browser.one("#which").get_property("value") == "use"
    browser.open(world.watched, "/db")
    browser.until(lambda: len(browser.find("tbody tr")) == len(TAGS), "all tags")


def test_many_tags_come_page_by_page(browser, world):
    many = [{"tag": f"many/{i:05}", "step": 10} for i in range(60)]
    assert world.watched.http("POST", "/api/tags", many).status == 200
    try:
        browser.open(world.watched, "/#tags")
        browser.one("#prefix").send_keys("many/")
        browser.says("many/00024")
        browser.until(lambda: len(browser.find("tbody tr")) == 25, "the first page")
        for page, (first, count) in enumerate([("many/00025", 25), ("many/00050", 10)]):
            browser.click(".pages button", 1)
            browser.says(first)
            browser.until(lambda n=count: len(browser.find("tbody tr")) == n, f"page {page + 2}")
        assert not browser.find(".pages button")[1].is_enabled()
        browser.click(".pages button")
        browser.says("many/00025")
    finally:
        for tag in many:
            world.watched.http("DELETE", f"/api/tags/{tag_path(tag['tag'])}")


def test_hostile_texts_stay_texts(browser, world):
    """Names and descriptions that are markup are shown as what they are."""
    browser.open(world.watched, "/#tags")
    browser.says(HOSTILE)
    title = browser.driver.title
    names = browser.until(lambda: [b.text for b in browser.find("button.tag")], "the tags")
    browser.click("button.tag", names.index(HOSTILE))
    browser.says(HOSTILE_TEXT)
    assert browser.driver.title == title
    for selector in ("main img", "main b b", "dd b", "dd script", "td img", "h2 img"):
        assert not browser.find(selector), selector
    whole(browser)


def change(browser, field, value, say):
    browser.click(f"#field option[value={field}]")
    box = browser.one("#value")
    box.clear()
    box.send_keys(value)
    browser.until(lambda: say in browser.one("#hint").text, say)


def test_a_change_is_seen_before_it_is_made(browser, world):
    """Step and max_id: a preview, a question, the change, and the audit."""
    node = world.watched
    browser.open(node, "/#tags/order%2Fshipment")
    change(browser, "step", "4000", "from 2,000 to 4,000 ids")
    browser.click("form button.main")
    browser.click("#yes")
    browser.says("Done; the audit has it.")
    assert node.get_json("/api/tags/order%2Fshipment")["step"] == 4000
    refused = {"0": "From 1 to", "1000001": "Not above max_step", "x": "whole number"}
    for value, why in refused.items():
        change(browser, "step", value, why)
        assert not browser.one("form button.main").is_enabled()
    change(browser, "max_id", "1", "would hand out ids again")
    change(browser, "max_id", "9223372036854775807", "more than 2^48")
    change(browser, "max_id", "50000", "It cannot be taken back.")
    browser.shot("change")
    browser.click("form button.main")
    whole(browser)
    browser.click("#confirm .pages button")  # No
    browser.until(lambda: not browser.find("#confirm"), "the question goes")
    assert node.get_json("/api/tags/order%2Fshipment")["max_id"] == "1"
    browser.click("form button.main")
    browser.click("#yes")
    browser.says("Done; the audit has it.")
    assert node.get_json("/api/tags/order%2Fshipment")["max_id"] == "50000"
    asked = [entry.get("asked") for entry in node.get_json("/api/audit?limit=1000")["entries"]]
    assert '{"max_id":"50000"}' in asked


def test_workers_and_decoder(browser, world):
    browser.open(world.watched, "/#workers")
    browser.says("billing-2")
    browser.until(lambda: len(browser.find("svg.axis rect")) == 6, "who holds which")
    whole(browser)
    browser.shot("workers")
    browser.open(world.watched, "/#decode")
    browser.one("#id").send_keys("1256557484213448722")
    browser.says("2020-05-02T12:13:44.602Z")
    text = browser.one("dl").text
    assert "619" in text and "18" in text
    browser.one("#id").send_keys("0")
    browser.says("An id is")
    browser.until(lambda: browser.find("tbody tr"), "layouts by name")
    cells = [cell.text for cell in browser.find("tbody td")]
    assert cells[:4] == ["sony", "39 time, 8 sequence, 16 worker", "10 ms", "2014-09-01"], cells
    assert cells[5] == "in use", cells
    whole(browser)


def test_keyboard_alone(browser, world):
    """Tab reaches everything in order, and Enter opens a view and a tag."""
    from selenium.webdriver.common.keys import Keys

    browser.open(world.watched)
    browser.says("live")
    active = browser.driver.switch_to
    body = browser.one("body")
    seen = []
    for _ in range(8):
        body.send_keys(Keys.TAB) if not seen else active.active_element.send_keys(Keys.TAB)
        seen.append(active.active_element.text)
    assert seen[0].startswith("Skip") and seen[2:7] == ["Cluster", "Tags", "Workers", "Decode",
                                                        "Events"], seen
    browser.one("#nav-tags").send_keys(Keys.ENTER)
    browser.says("Search by the beginning")
    browser.until(lambda: browser.find("button.tag"), "tags")
    browser.one("button.tag").send_keys(Keys.ENTER)
    browser.says("Change it")


def test_token_and_roles(browser, listeners):
    """It asks for a token when the node does, keeps it in this tab, and offers what it may do."""
    assert listeners.admin("PUT", "/api/tags/shop%2Forder", "root", {}).status == 201

    def open_page():
        browser.driver.get("about:blank")
        browser.driver.get(f"http://127.0.0.1:{listeners.admin_address[1]}/")

    open_page()
    browser.says("This node asks for a token")
    whole_but_401(browser)
    browser.one("#token").send_keys("A" * 43)
    browser.click("#token-dialog button")
    browser.says("does not know the token")
    browser.one("#token").send_keys(listeners.tokens.tokens["reader"])
    browser.click("#token-dialog button")
    browser.says("the only voter")
    browser.says("reader")
    browser.driver.get(f"http://127.0.0.1:{listeners.admin_address[1]}/#tags/shop%2Forder")
    browser.says("Read only: this needs the role tags, and reader has read, metrics.")
    assert browser.driver.execute_script("return localStorage.length + document.cookie.length") == 0
    browser.driver.execute_script(
        f"sessionStorage.setItem('leafd-token', '{listeners.tokens.tokens['shop']}')")
    browser.driver.refresh()
    browser.says("Change it")
    browser.until(lambda: browser.find("#value"), "a form for who may change")


def whole_but_401(browser):
    assert [p for p in browser.problems() if " 401 " not in p] == []
    if os.path.exists(AXE):
        assert browser.axe() == []


def take_screenshots(browser, node, suffix):
    """Of each view, in the light, in the dark and on a phone."""
    from selenium.webdriver.common.by import By

    for mode, device in (("light", {"width": 1280, "height": 900}),
                         ("dark", {"width": 1280, "height": 900, "dark": True}),
                         ("phone", {"width": 390, "height": 844, "scale": 2.0, "mobile": True})):
        browser.device(**device)
        for view, words in (("cluster", "you look from here"), ("tags", "order/invoice"),
                            ("events", "leads in term")):
            browser.open(node, f"/#{view}")
            browser.says(words)
            wide = browser.driver.execute_script(
                "return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{view} is {wide} px too wide in {mode}"
            assert browser.driver.find_element(By.TAG_NAME, "h1").text == "leafd"
            whole(browser)
            browser.shot(f"{view}-{mode}{suffix}")


def test_in_the_dark_and_on_a_phone(browser, world):
    take_screenshots(browser, world.watched, "")


def test_a_leader_that_is_killed_while_it_is_watched(browser, world):
    """Within seconds: a banner that says what to do, who leads now, what it costs; and its end."""
    node = world.watched
    leader = world.leader()
    assert leader is not node
    browser.open(node)
    browser.says("The next failure costs nothing")
    leader.kill9()
    browser.says(f"node {leader.id} (127.0.0.1:")
    browser.says("cannot be reached from node")
    browser.says("The next failure stops all changes")
    browser.until(lambda: len(browser.find(".picture .box.gone")) == 1, "a node that is gone")
    new = world.wait_leader()
    browser.until(lambda: f"node {new.id}\nleads" in browser.text(), "the new leader")
    browser.says("election")
    whole(browser)
    browser.shot("leader-killed")
    take_screenshots(browser, node, "-killed")
    browser.device(1280, 900)
    browser.open(node, "/#tags/user")
    browser.until(lambda: f"node {leader.id}\ncannot be reached" in
                  [line.text for line in browser.find(".holder")], "a node without buffers")
    browser.open(node)
    leader.start().wait_ready()
    browser.says("The next failure costs nothing", timeout=30)
    browser.until(lambda: not browser.find(".banner"), "the banner goes")


def test_the_watched_node_dies(browser, world):
    """The page says since when it shows what was, and goes on when the node is back."""
    node = world.watched
    browser.open(node)
    browser.says("live")
    node.kill9()
    browser.says("no answer since")
    node.start().wait_ready()
    browser.until(lambda: "no answer since" not in browser.text(), "it goes on", 30)
