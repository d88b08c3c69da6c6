"""leafctl import --ahead: Leaf and leafd hand out ids at the same time, over a real MariaDB, and no
id comes twice; and the stop that is refused while Leaf runs."""

import contextlib
import json
import re
import subprocess

import pytest

import databases
import leafctl
from checker import History
from leaf import TABLE, LeafClient, LeafServer, pymysql
from load import Load
from node import take
from wait import wait_until

pytestmark = [databases.needs("mariadbd", "mariadb", "mariadb-install-db"),
              pytest.mark.skipif(not pymysql, reason="no pymysql: scripts/setup databases")]

STEP = 500
TAGS = ("order", "订单 'x'")
GUARDS = "SELECT trigger_name FROM information_schema.triggers WHERE trigger_name LIKE '%guard%'"


@pytest.fixture(scope="module")
def server():
    server = databases.MariaDB()
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def database(server):
    """Leaf's table, new, with two tags; they have not been changed for a day."""
    server.run(f"CREATE OR REPLACE DATABASE leaf CHARACTER SET utf8mb4; USE leaf; {TABLE}")
    for tag in TAGS:
        text = tag.replace("'", "''")
        server.run(f"INSERT INTO leaf.leaf_alloc VALUES ('{text}', 14001, {STEP}, 'd',"
                   "NOW() - INTERVAL 1 DAY);")
    return server


def leave_alone(database):
    """As if a minute had gone by since Leaf's last statement."""
    database.run("UPDATE leaf.leaf_alloc SET update_time = NOW() - INTERVAL 61 SECOND;")


def max_id(database, tag):
    out = database.run("SELECT max_id FROM leaf.leaf_alloc WHERE biz_tag = '%s';"
                       % tag.replace("'", "''")).stdout
    return int(out.split()[1])


def marks(database):
    """{tag: mark} of the guard; nothing where there is none."""
    out = database.run("SELECT biz_tag, max_id FROM leaf.leaf_alloc_guard;", check=False).stdout
    return {line.split("\t")[0]: int(line.split("\t")[1]) for line in out.splitlines()[1:]}


def firsts(cluster):
    """{tag: where it would continue} in the cluster; nobody has asked it yet."""
    return {row["tag"]: int(row["max_id"])
            for row in cluster.nodes[0].get_json("/api/tags")["tags"]}


@pytest.fixture
def leaf_clients(database):
    """Four clients at two servers of Leaf, which take ids."""
    history = History()
    servers = [LeafServer(database.path("socket")) for _ in range(2)]
    clients = [LeafClient(history, servers[n % 2], n, TAGS[n // 2]) for n in range(4)]
    for client in clients:
        client.start()
    try:
        wait_until(lambda: all(client.track.count > 100 for client in clients), 60, "Leaf's ids")
        yield clients
    finally:
        for one in servers + clients:
            one.closing.set()
        for server in servers:
            server.close()


@pytest.mark.bound(240)
def test_leaf_under_full_load(database, leaf_clients, make_cluster, tmp_path):
    """Clients move one by one, database and nodes are killed, no id comes twice and no client sees
    an error."""
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    history = leaf_clients[0].history
    words = ["import", "leaf", "--mysql", database.address("leaf"), "--ahead", "1000000"]

    # Whatever a run that is broken off leaves behind, no tag is there without its mark below it.
    codes = []
    for number in range(10):
        run = ctl.popen(*words, "--guard", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.02 * number)
        database.kill()
        database.start()
        _, said = run.communicate(timeout=60)
        codes.append(run.returncode)
        assert run.returncode in (0, 65, 76), said
        held = marks(database)
        assert all(held[tag] < first for tag, first in firsts(cluster).items()), (held, codes)
    ctl(*words, "--guard")
    assert 65 in codes, "no kill met a run"
    again = ctl(*words, "--guard")
    assert "0 tags made, 0 changed, 2 were there" in again.out, again
    held = marks(database)
    assert firsts(cluster) == {tag: mark + 1 for tag, mark in held.items()} and len(held) == 2
    assert marks(database) == held

    finish = ["import", "leaf", "--mysql", database.address("leaf"), "--finish", "--settle", "0"]
    loads = []
    for number, client in enumerate(leaf_clients):
        assert "changed in the last minute" in ctl(*finish, code=76).err
        client.stop()
        load = Load(history, client.tag)
        load.add(cluster.nodes[number % 3], count=10, wire_format="range", rate=3000.0)
        loads.append(load.__enter__())
        wait_until(lambda l=load: l.taken() > 500, 60, "ids of leafd")
        if number % 2 == 0:
            database.kill()
            database.start()
        else:
            node = cluster.nodes[(number + 1) % 3]
            node.kill9()
            node.start()
            node.wait_ready()
            cluster.wait_leader()
        load.check_running()
    for load in loads:
        load.stop()
        load.check_running()
    assert history.check() > 5000
    for tag in TAGS:
        assert max_id(database, tag) <= held[tag]

    leave_alone(database)
    quiet = ctl(*finish)
    assert re.search(r"Leaf is quiet: 2 tags, the last change \d+ seconds ago", quiet.out), quiet
    assert "--remove-guard" in quiet.out and marks(database) == held
    assert "the guard is removed" in ctl(*finish, "--remove-guard").out
    assert marks(database) == {} and database.run(GUARDS).stdout == ""


@pytest.mark.bound(120)
def test_the_guard_refuses_what_leafd_has(database, leaf_clients, make_cluster, tmp_path):
    """Leaf is let run into its mark: it stops there, with an error, and no id comes twice."""
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    history = leaf_clients[0].history
    ctl("import", "leaf", "--mysql", database.address("leaf"), "--ahead", "20000", "--guard")
    held = marks(database)
    wait_until(lambda: all(client.refused for client in leaf_clients), 60, "the guard")
    for tag in TAGS:
        assert held[tag] - STEP < max_id(database, tag) <= held[tag]
        assert history.highest(tag) < held[tag] < firsts(cluster)[tag]
        load = Load(history, tag)
        load.add(cluster.nodes[1], count=100, wire_format="range")
        with load:
            wait_until(lambda l=load: l.taken() > 1000, 60, "ids of leafd")
        load.finish()
    # Neither a row that is made anew nor one that is raised by hand passes it.
    for text in (f"UPDATE leaf_alloc SET max_id = {held['order'] + 1} WHERE biz_tag = 'order'",
                 f"REPLACE INTO leaf_alloc VALUES ('order', {held['order'] + 1}, 1, '', NOW())"):
        refused = database.run(f"USE leaf; {text};", check=False)
        assert "leafd has the ids from here on" in refused.stderr, refused


def test_the_guard_by_hand(database, make_cluster, tmp_path):
    """Without --guard it is printed before a tag is there; whoever runs it gets the same."""
    cluster = make_cluster(1)
    ctl = leafctl.of(cluster, tmp_path)
    words = ["import", "leaf", "--mysql", database.address("leaf"), "--ahead", "auto"]
    plan = ctl(*words, "--dry-run")
    assert "order: next id 10014001, step 500, Leaf is at 14001" in plan.out, plan
    assert firsts(cluster) == {} and marks(database) == {}
    text = json.loads(ctl(*words, "--dry-run", "--json").out.splitlines()[1])["guard"]
    assert text in plan.out and "CREATE TRIGGER `leaf_alloc_guard_update`" in text
    done = ctl(*words)
    assert "no guard: Leaf can come to leafd's first ids" in done.err, done
    assert set(firsts(cluster).values()) == {10014001} and marks(database) == {}
    statements = done.out.split("imported:")[0]
    database.run("USE leaf; " + statements)
    assert set(marks(database).values()) == {10014000}
    assert len(database.run(GUARDS).stdout.split()) == 3
    again = ctl(*words)
    assert "no guard" not in again.err and "2 were there" in again.out, again
    assert len(ctl(*words, "--dry-run", "--json").out.splitlines()) == 1
    # The guard is looked at, not believed.
    database.run("USE leaf; DROP TRIGGER leaf_alloc_guard_insert;")
    assert "BEFORE INSERT" in ctl(*words).out
    ctl(*words, "--guard")
    assert len(database.run(GUARDS).stdout.split()) == 3


def test_ahead_is_refused(database, make_cluster, tmp_path):
    """Where a second run cannot know what the first one did, and where a mark is passed."""
    cluster = make_cluster(1)
    ctl = leafctl.of(cluster, tmp_path)
    words = ["import", "leaf", "--mysql", database.address("leaf"), "--ahead", "1000"]
    ctl(*words)
    done = ctl(*words, "--guard", code=76)
    assert "no mark: tag 'order' is at 15001 in the cluster already" in done.err, done
    assert marks(database) == {}
    # Leaf has come to leafd's ids meanwhile: the tag is raised above it, never lowered.
    database.run("UPDATE leaf.leaf_alloc SET max_id = 99999 WHERE biz_tag = 'order';")
    assert "1 changed, 1 were there" in ctl(*words).out
    assert firsts(cluster)["order"] == 100999
    database.run("USE leaf; CREATE TABLE leaf_alloc_guard LIKE leaf_alloc;"
                 "INSERT INTO leaf_alloc_guard VALUES ('order', 500, 1, '', NOW());")
    done = ctl(*words, "--guard", code=65)
    assert 'row 1, "order": max_id is 99999, above its mark 500' in done.err, done
    database.run(f"UPDATE leaf.leaf_alloc SET max_id = {2**63 - 500} WHERE biz_tag <> 'order';")
    assert "no room for 1000 ids ahead" in ctl(*words, code=65).err
    done = ctl("import", "leaf", "--mysql", database.address("leaf"), "--finish", code=65)


def test_ahead_of_tags_that_are_there(database, make_cluster, tmp_path):
    """One that Leaf has come near to stays as it is, which is told; so does a run that is repeated.
    --force takes what the cluster takes by force alone, of tags with a max or a date, too."""
    cluster = make_cluster(1)
    cluster.create_tag("order", max_id=14501)
    cluster.create_tag(TAGS[1], shape="{secret:6}")
    ctl = leafctl.of(cluster, tmp_path)
    words = ["import", "leaf", "--mysql", database.address("leaf"), "--ahead", "1000"]
    assert "needs force: row 2" in ctl(*words, code=76).err
    done = ctl(*words, "--force")
    assert "no mark: tag 'order' is at 14501 in the cluster already, 500 above Leaf" in done.err
    assert "0 tags made, 1 changed, 1 were there" in done.out, done
    assert firsts(cluster) == {"order": 14501, TAGS[1]: 15001}
    assert "0 changed, 2 were there" in ctl(*words).out
    cluster.create_tag("dated", mode="strict", shape="{year}-{id:6}")
    take(cluster.nodes[0], "dated?as=number")
    at = firsts(cluster)["dated"]
    database.run(f"INSERT INTO leaf.leaf_alloc VALUES ('dated', {at}, 1, 'd',"
                 "NOW() - INTERVAL 1 DAY);")
    assert "needs force: row 1" in ctl(*words, code=76).err
    ctl(*words, "--force")
    assert firsts(cluster)["dated"] == at + 1000


def test_ahead_of_a_tag_that_was_deleted(database, make_cluster, tmp_path):
    """It stood above the mark that is set meanwhile: made by hand, it continues there."""
    cluster = make_cluster(1)
    cluster.create_tag("order", max_id=20001)
    assert cluster.nodes[0].http("DELETE", "/api/tags/order").status == 204
    ctl = leafctl.of(cluster, tmp_path)
    words = ["import", "leaf", "--mysql", database.address("leaf"), "--ahead", "1000", "--guard"]
    for _ in range(2):
        done = ctl(*words, code=76)
        assert "nothing was imported" in done.err and firsts(cluster) == {}, done
        assert "'leafctl tags put TAG' makes it again, above all its ids" in done.err, done
    ctl("tags", "put", "order")
    assert "1 tags made, 0 changed, 1 were there" in ctl(*words).out
    assert firsts(cluster) == {"order": 20001, TAGS[1]: 15001}
    assert marks(database) == {"order": 15000, TAGS[1]: 15000}


def test_a_user_without_the_right_to_guard(database, make_cluster, tmp_path):
    cluster = make_cluster(1)
    database.run("CREATE OR REPLACE USER reader@localhost; GRANT SELECT ON leaf.* TO "
                 "reader@localhost;")
    done = leafctl.of(cluster, tmp_path)("import", "leaf", "--mysql",
                                         database.address("leaf", "reader"), "--ahead", "auto",
                                         "--guard", code=65)
    assert "no guard: mariadb: ERROR 1142" in done.err and "nothing was imported" in done.err, done
    assert firsts(cluster) == {}


@pytest.mark.bound(120)
def test_a_stop_that_is_none(database, leaf_clients, make_cluster, tmp_path):
    """A row that is younger than a minute, or moves between two looks: nothing is sent."""
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    history = leaf_clients[0].history
    words = ["import", "leaf", "--mysql", database.address("leaf")]
    done = ctl(*words, code=76)
    assert "still in use: tag 'order' came to " in done.err and "--ahead" in done.err, done
    # A table whose times nobody keeps: only the second look shows it.
    database.run("ALTER TABLE leaf.leaf_alloc MODIFY update_time timestamp NOT NULL "
                 "DEFAULT '2020-01-01';")
    leave_alone(database)
    done = ctl(*words, "--settle", "2", code=76)
    assert "still in use: tag 'order' continued from " in done.err, done
    assert firsts(cluster) == {}
    for client in leaf_clients:
        client.stop()
    done = ctl(*words, "--settle", "1")
    assert "2 tags made" in done.out, done
    for tag in TAGS:
        load = Load(history, tag)
        load.add(cluster.nodes[2], count=100, wire_format="range")
        with load:
            wait_until(lambda l=load: l.taken() > 1000, 60, "ids of leafd")
        load.finish()


def test_what_does_not_go_together(tmp_path):
    ctl = leafctl.Leafctl(tmp_path, "127.0.0.1:1")
    (tmp_path / "file").write_text("a,1,1\n")
    for words, why in ((["file", "--ahead", "5"], "need a database"),
                       (["file", "--finish"], "need a database"),
                       (["--mysql", "/leaf", "--guard"], "--guard goes with --ahead"),
                       (["--mysql", "/leaf", "--ahead", "0"], 'ahead (or auto): "0"'),
                       (["--mysql", "/leaf", "--ahead", "5", "--finish"], "--ahead not with"),
                       (["--mysql", "/leaf", "--remove-guard"], "--remove-guard with --finish"),
                       (["--mysql", "/leaf", "--settle", "4000"], "settle"),
                       (["--mysql", "root:x@/leaf"], "no password belongs"),
                       (["--mysql", "host"], '"host" names no database'),
                       ([], "name a FILE")):
        done = ctl("import", "leaf", *words, code=None)
        assert done.code in (64, 65) and why in done.err, (words, done)
