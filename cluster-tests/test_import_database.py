"""leafctl import straight from a MariaDB, and from what its own tools write; skipped where none is
installed (scripts/setup mariadb)."""

import subprocess

import pytest

import leafctl
import mariadb
from leafctl import Leafctl
from test_import_unit import DUMP, TINYID, FakeCluster, expected_tags, read

pytestmark = pytest.mark.skipif(not mariadb.is_here(), reason="no MariaDB: scripts/setup mariadb")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Leaf's table with rows of every kind, and TinyID's."""
    server = mariadb.MariaDB(tmp_path_factory.mktemp("mariadb"))
    try:
        with open(DUMP, encoding="utf-8") as file:
            server.run("CREATE DATABASE leaf CHARACTER SET utf8mb4;")
            server.run(file.read(), "leaf")
        server.run("CREATE DATABASE tiny;")
        server.run(TINYID % "(1,'a',1,1,100000,1,0,1),(2,'b',1,200001,1000,1,0,9)", "tiny")
        server.run("CREATE USER reader@localhost IDENTIFIED BY 'se cret';"
                   "GRANT SELECT ON leaf.* TO reader@localhost;")
        yield server
    finally:
        server.end()


def options(database, name="leaf", user="root"):
    return ["--mysql-socket", database.socket, "--mysql-database", name, "--mysql-user", user]


@pytest.fixture
def fake():
    cluster = FakeCluster()
    yield cluster
    cluster.shutdown()
    cluster.server_close()


def test_leaf_into_a_real_cluster(database, make_cluster, tmp_path):
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    dry = ctl("import", "leaf", *options(database), "--dry-run", "--force")
    assert "315 tags to make" in dry.out and "315 rows, 0 errors" in dry.err, dry
    done = ctl("import", "leaf", *options(database), "--force")
    assert "imported: 315 tags made" in done.out, done
    listed = cluster.nodes[2].get_json("/api/tags?limit=1000")["tags"]
    assert {row["tag"]: (int(row["max_id"]), row["step"], row["description"])
            for row in listed} == expected_tags()
    again = ctl("import", "leaf", *options(database), "--force")
    assert "0 tags made, 0 changed, 315 were there" in again.out


def test_tinyid(database, fake, tmp_path):
    done = Leafctl(tmp_path, fake.url())("import", "tinyid", *options(database, "tiny"))
    assert "imported: 2 tags made" in done.out
    assert {name: int(row["max_id"]) for name, row in fake.tags.items()} == {"a": 2, "b": 200002}


def test_a_leaf_that_still_runs_is_noticed(database, fake, tmp_path):
    """A number that moves while the tags are sent: ids would come twice."""
    database.run("CREATE DATABASE busy;"
                 "CREATE TABLE busy.leaf_alloc AS SELECT * FROM leaf.leaf_alloc"
                 " WHERE biz_tag = 'dash--';")
    taken = fake.put

    def put(rows):
        database.run("UPDATE busy.leaf_alloc SET max_id = max_id + step;")
        return taken(rows)

    fake.put = put
    ctl = Leafctl(tmp_path, fake.url())
    done = ctl("import", "leaf", *options(database, "busy"), code=76)
    assert "still in use: tag 'dash--' continued from 8 to 18" in done.err, done
    assert "stop its servers first" in done.err and "import again" in done.err
    fake.put = taken
    done = ctl("import", "leaf", *options(database, "busy"))
    assert "1 changed" in done.out and fake.tags["dash--"]["max_id"] == "18"


@pytest.mark.parametrize("arguments, code, why", [
    (["--mysql-database", "nothing"], 65, "Unknown database"),
    (["--mysql-database", "leaf", "--table", "nothing"], 65, "doesn't exist"),
    (["--mysql-database", "leaf", "--table", "a`b"], 65, "no backquote"),
    (["--mysql-database", "leaf", "--mysql", "127.0.0.1:1"], 64, "alone"),
    ([], 64, "--mysql-database is missing"),
    (["--mysql-database", "leaf", "file"], 64, "name a FILE"),
])
def test_what_cannot_be_read(database, tmp_path, arguments, code, why):
    done = Leafctl(tmp_path, "127.0.0.1:1")("import", "leaf", "--mysql-socket", database.socket,
                                            "--mysql-user", "root", *arguments, code=code)
    assert why in done.err and done.out == "", done


def test_passwords(database, fake, tmp_path):
    ctl = Leafctl(tmp_path, fake.url())
    words = ["import", "leaf", *options(database, user="reader"), "--dry-run", "--force"]
    assert "Access denied" in ctl(*words, code=65).err
    secret = tmp_path / "password"
    secret.write_text("se cret\n")
    secret.chmod(0o644)
    assert "others may read" in ctl(*words, "--mysql-password-file", secret, code=64).err
    secret.chmod(0o600)
    assert ctl(*words, "--mysql-password-file", secret).out
    assert Leafctl(tmp_path, fake.url(), MYSQL_PASSWORD="se cret")(*words).out


def test_what_its_own_tools_write_is_read(database):
    """mariadb-dump, and the client's columns between tabs."""
    dumped = subprocess.run(["mariadb-dump", "--no-defaults", f"--socket={database.socket}",
                             "-uroot", "leaf", "leaf_alloc"], capture_output=True, check=True,
                            timeout=60)
    assert read(dumped.stdout)[:2] == ("sql", expected_tags())
    columns = subprocess.run(["mariadb", "--no-defaults", f"--socket={database.socket}", "-uroot",
                              "-B", "--default-character-set=utf8mb4", "leaf", "-e",
                              "SELECT * FROM leaf_alloc"], capture_output=True, check=True,
                             timeout=60).stdout
    form, tags, _ = read(columns)
    # NULL and the word NULL look alike there.
    wanted = {name: (a, b, "" if text == "NULL" else text)
              for name, (a, b, text) in expected_tags().items()}
    assert form == "tsv" and tags == wanted
