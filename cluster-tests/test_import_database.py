"""leafctl import straight from MariaDB, PostgreSQL and Redis, and from what MariaDB's own tools
write; skipped where none is installed (scripts/setup databases)."""

import os
import re
import shlex
import subprocess

import pytest

import databases
import leafctl
from leaf import TABLE
from leafctl import Leafctl
from node import ROOT
from test_import_unit import DUMP, TINYID, FakeCluster, expected_tags, read

maria = databases.needs("mariadbd", "mariadb", "mariadb-install-db")


@pytest.fixture(scope="module")
def database():
    """Leaf's table with rows of every kind, and TinyID's, CosId's and others'."""
    server = databases.MariaDB()
    try:
        with open(DUMP, encoding="utf-8") as file:
            server.run("CREATE DATABASE leaf CHARACTER SET utf8mb4; USE leaf;" + file.read())
        server.run("CREATE DATABASE tiny; USE tiny;"
                   + TINYID % "(1,'a',1,1,100000,1,0,1),(2,'b',1,200001,1000,1,0,9)"
                   + "ALTER TABLE tiny_id_info ADD update_time timestamp NOT NULL"
                     " DEFAULT '2010-01-01 00:00:00';"
                     "CREATE TABLE cosid (name varchar(100) PRIMARY KEY, last_max_id bigint"
                     " unsigned NOT NULL, last_fetch_time bigint unsigned NOT NULL);"
                     "INSERT INTO cosid VALUES ('ns.order', 500, UNIX_TIMESTAMP() - 3600);")
        server.run("CREATE USER reader@localhost IDENTIFIED BY 'se cret';"
                   "GRANT SELECT ON leaf.* TO reader@localhost;")
        yield server
    finally:
        server.end()


def options(database, name="leaf", user="root"):
    return ["--mysql", database.address(name, user), "--settle", "0"]


@pytest.fixture
def fake():
    cluster = FakeCluster()
    yield cluster
    cluster.shutdown()
    cluster.server_close()


@maria
def test_leaf_into_a_real_cluster(database, make_cluster, tmp_path):
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    dry = ctl("import", "leaf", *options(database), "--dry-run", "--force")
    assert "315 tags to make" in dry.out and "315 rows, 0 errors" in dry.err, dry
    done = ctl("import", "leaf", *options(database), "--force")
    assert "imported: 315 tags made" in done.out, done
    listed = cluster.nodes[2].get_json("/api/tags?limit=1000")["tags"]
    # NULL and the word NULL look alike in what the client prints.
    wanted = {name: (a, b, "" if text == "NULL" else text)
              for name, (a, b, text) in expected_tags().items()}
    assert {row["tag"]: (int(row["max_id"]), row["step"], row["description"])
            for row in listed} == wanted
    again = ctl("import", "leaf", *options(database), "--force")
    assert "0 tags made, 0 changed, 315 were there" in again.out


@maria
def test_tinyid(database, fake, tmp_path):
    done = Leafctl(tmp_path, fake.url())("import", "tinyid", *options(database, "tiny"))
    assert "imported: 2 tags made" in done.out
    assert {name: int(row["max_id"]) for name, row in fake.tags.items()} == {"a": 2, "b": 200002}


@maria
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
    database.run("UPDATE busy.leaf_alloc SET update_time = NOW() - INTERVAL 61 SECOND;")
    done = ctl("import", "leaf", *options(database, "busy"))
    assert "1 changed" in done.out and fake.tags["dash--"]["max_id"] == "18"


@maria
@pytest.mark.parametrize("name, arguments, why", [
    ("nothing", [], "Unknown database 'nothing'; nothing was imported"),
    ("leaf", ["--table", "nothing"], "Table 'leaf.nothing' doesn't exist"),
    ("leaf", ["--table", "a`b"], "no quote and no backslash"),
    ("leaf", ["--table", "aa_other"], "Unknown column 't.biz_tag'"),
])
def test_what_cannot_be_read(database, tmp_path, name, arguments, why):
    done = Leafctl(tmp_path, "127.0.0.1:1")("import", "leaf", *options(database, name), *arguments,
                                            code=65)
    assert why in done.err and done.out == "", done


@maria
def test_passwords(database, fake, tmp_path):
    """Of the tool's own configuration; none is shown to other users."""
    ctl = Leafctl(tmp_path, fake.url())
    words = ["import", "leaf", *options(database, user="reader"), "--dry-run", "--force"]
    assert "Access denied" in ctl(*words, code=65).err
    (tmp_path / ".my.cnf").write_text("[client]\npassword='se cret'\n")
    assert ctl(*words).out
    (tmp_path / ".my.cnf").unlink()
    ctl.env["MYSQL_PWD"] = "se cret"
    assert ctl(*words).out


def test_a_tool_that_is_not_there(tmp_path):
    ctl = Leafctl(tmp_path, "127.0.0.1:1")
    ctl.env["PATH"] = str(tmp_path)
    for words, why in ((["leaf", "--mysql", "/leaf"], "no mariadb is here: install mariadb-client"),
                       (["sql", "--postgres", "/a"], "no psql is here: install postgresql-client"),
                       (["sql", "--redis", "h", "--pattern", "*"],
                        "no redis-cli is here: install redis-tools")):
        assert why in ctl("import", *words, code=65).err
    tool = tmp_path / "mysql"  # the older name
    tool.write_text("#!/bin/sh\necho 'it is asked' >&2\nexit 3\n")
    tool.chmod(0o755)
    assert "it is asked" in ctl("import", "leaf", "--mysql", "/leaf", code=65).err


def test_redis_that_is_slow(fake, tmp_path):
    """Its tool adds a line to each answer that took half a second."""
    ctl = Leafctl(tmp_path, fake.url())
    tool = tmp_path / "redis-cli"
    tool.write_text("""#!/bin/sh
while read -r word _; do
    case $word in
        SCAN) printf '1) "0"\\n2) 1) "id:a"\\n   2) "id:b"\\n   3) "id:c"\\n(0.61s)\\n' ;;
        GET) printf '"7"\\n(10.52s)\\n' ;;
    esac
done
""")
    tool.chmod(0o755)
    ctl.env["PATH"] = f"{tmp_path}:{ctl.env['PATH']}"
    ctl("import", "sql", "--redis", "h", "--pattern", "*", "--settle", "0")
    assert imported(fake) == {"id:a": 8, "id:b": 8, "id:c": 8}


@maria
def test_what_its_own_tools_write_is_read(database):
    """mariadb-dump, and the client's columns between tabs."""
    dumped = subprocess.run(["mariadb-dump", "--no-defaults", f"--socket={database.path('socket')}",
                             "-uroot", "leaf", "leaf_alloc"], capture_output=True, check=True,
                            timeout=60)
    assert read(dumped.stdout)[:2] == ("sql", expected_tags())
    columns = subprocess.run(database.client("leaf", "-e", "SELECT * FROM leaf_alloc"),
                             capture_output=True, check=True, timeout=60).stdout
    form, tags, _ = read(columns)
    # NULL and the word NULL look alike there.
    wanted = {name: (a, b, "" if text == "NULL" else text)
              for name, (a, b, text) in expected_tags().items()}
    assert form == "tsv" and tags == wanted


def imported(fake):
    return {name: int(row["max_id"]) for name, row in fake.tags.items()}


@maria
def test_cosid(database, fake, tmp_path):
    ctl = Leafctl(tmp_path, fake.url())
    assert "1 tags made" in ctl("import", "cosid", *options(database, "tiny")).out
    assert fake.tags["ns.order"] == {"tag": "ns.order", "max_id": "501"}
    database.run("UPDATE tiny.cosid SET last_fetch_time = UNIX_TIMESTAMP();")
    assert "changed in the last minute" in ctl("import", "cosid", *options(database, "tiny"),
                                               code=76).err
    ctl("import", "cosid", "--mysql", database.address("tiny"), "--ahead", "auto", "--guard")
    assert fake.tags["ns.order"]["max_id"] == "10000501"
    refused = database.run("UPDATE tiny.cosid SET last_max_id = 10000501;", check=False)
    assert "leafd has the ids from here on" in refused.stderr


@maria
def test_auto_increment(database, fake, tmp_path):
    """Of all tables, of one, and of a column by a query."""
    database.run("CREATE DATABASE app; USE app;"
                 "CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, x int);"
                 "CREATE TABLE users (id int AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 700;"
                 "CREATE TABLE plain (x int); INSERT INTO plain VALUES (41);"
                 "INSERT INTO orders (x) VALUES (1), (2), (3); DELETE FROM orders WHERE id = 3;")
    ctl = Leafctl(tmp_path, fake.url())
    ctl("import", "sql", *options(database, "app"), "--table", "users")
    assert imported(fake) == {"users": 700}
    ctl("import", "sql", *options(database, "app"))
    assert imported(fake) == {"users": 700, "orders": 4}
    ctl("import", "sql", *options(database, "app"), "--query",
        "SELECT 'plain' AS tag, MAX(x) + 1 AS max_id, 50 AS step FROM plain")
    assert fake.tags["plain"] == {"tag": "plain", "max_id": "42", "step": 50}
    for words, why in ((["--query", "SELECT 1"], "the names of the columns was expected: tag"),
                       (["--query", "SELECT 'a' AS tag, NULL AS max_id"],
                        'row 1, "a": max_id is NULL, not a number'),
                       (["--query", "SELEC"], "mariadb: ERROR 1064"),
                       (["--table", "plain"], "no table or sequence of this name counts")):
        done = ctl("import", "sql", *options(database, "app"), *words, code=65)
        assert why in done.err and "nothing was imported" in done.err, done
    more = ctl("import", "sql", *options(database, "app"), "--ahead", "1000")
    assert "no guard is known" in more.err and imported(fake)["orders"] == 1004, more
    assert "0 changed, 2 were there" in ctl("import", "sql", *options(database, "app"), "--ahead",
                                            "1000").out


@pytest.fixture(scope="module")
def postgres_server():
    server = databases.Postgres()
    try:
        server.run("CREATE ROLE reader LOGIN;")
        yield server
    finally:
        server.end()


@pytest.fixture
def postgres(postgres_server):
    """Without anything that other tests have made."""
    postgres_server.run('DROP SCHEMA IF EXISTS s, "a$do$", "a$of$", public CASCADE;'
                        "CREATE SCHEMA public;"
                        "GRANT USAGE ON SCHEMA public TO PUBLIC;")
    return postgres_server


@databases.needs("postgres", "initdb", "psql")
def test_sequences(postgres, fake, tmp_path):
    """Also side by side: MAXVALUE is the guard."""
    postgres.run("CREATE SEQUENCE never START 7; CREATE SCHEMA s; CREATE SEQUENCE s.\"B c\";"
                 "CREATE TABLE t (id serial);"
                 "SELECT nextval('s.\"B c\"'), nextval('s.\"B c\"');")
    ctl = Leafctl(tmp_path, fake.url())
    words = ["import", "sql", "--postgres", postgres.address()]
    assert "3 tags made" in ctl(*words, "--settle", "0").out
    assert imported(fake) == {"never": 7, "s.B c": 3, "t_id_seq": 1}
    fake.tags.clear()
    told = ctl(*words, "--table", "s.B c", "--ahead", "1000")
    assert 'ALTER SEQUENCE s."B c" MAXVALUE 1002;' in told.out and imported(fake) == {"s.B c": 1003}
    fake.tags.clear()
    ctl(*words, "--ahead", "1000", "--guard")
    assert imported(fake) == {"never": 1007, "s.B c": 1003, "t_id_seq": 1001}
    assert "3 were there" in ctl(*words, "--ahead", "1000", "--guard").out
    refused = postgres.run("SELECT nextval('t_id_seq') FROM generate_series(1, 1001);", check=False)
    assert "reached maximum value of sequence" in refused.stderr
    assert postgres.run("SELECT last_value FROM t_id_seq;").stdout == "1000\n"
    assert "the old system is quiet" in ctl(*words, "--finish", "--settle", "0").out
    ctl(*words, "--finish", "--settle", "0", "--remove-guard")
    assert postgres.run("SELECT nextval('t_id_seq');").stdout == "1001\n"


@databases.needs("postgres", "initdb", "psql")
def test_two_imports_of_a_sequence(postgres, fake, tmp_path):
    """The lower mark stays: leafd may have given the ids above it."""
    postgres.run("CREATE SEQUENCE r; SELECT nextval('r');")
    tool = tmp_path / "psql"  # the other import's guard comes between this one's looks
    tool.write_text(f"""#!/bin/sh
given=$(cat)
case "$given" in *MAXVALUE*)
    echo 'ALTER SEQUENCE r MAXVALUE 500;' | {databases.found("psql")} "$@"
esac
echo "$given" | {databases.found("psql")} "$@"
""")
    tool.chmod(0o755)
    ctl = Leafctl(tmp_path, fake.url())
    ctl.env["PATH"] = f"{tmp_path}:{ctl.env['PATH']}"
    ctl("import", "sql", "--postgres", postgres.address(), "--ahead", "1000", "--guard")
    assert imported(fake) == {"r": 1002}
    assert postgres.run("SELECT max_value FROM pg_sequences;").stdout == "500\n"


@databases.needs("postgres", "initdb", "psql")
@pytest.mark.parametrize("made, user, why", [
    ("CREATE SEQUENCE wrong CYCLE", "postgres", '"that of a sequence with CYCLE"'),
    ("CREATE SEQUENCE wrong INCREMENT -1", "postgres", 'delta is "-1"'),
    ("CREATE SEQUENCE wrong INCREMENT 50", "postgres", "leafd hands out every number"),
    ("CREATE SEQUENCE wrong", "reader", '"not for this user to read"'),
    ('CREATE SCHEMA "a$do$"; CREATE SEQUENCE "a$do$".wrong', "postgres",
     '"that of a sequence with $do$ or $of$ in its name"'),
    ('CREATE SCHEMA "a$of$"; CREATE SEQUENCE "a$of$".wrong', "postgres",
     '"that of a sequence with $do$ or $of$ in its name"'),
    ("SELECT 1", "postgres", "no table or sequence of this name counts"),
    ("SELECT 1", "nobody", 'role "nobody" does not exist'),
])
def test_sequences_that_are_refused(postgres, fake, tmp_path, made, user, why):
    postgres.run(f"{made};")
    done = Leafctl(tmp_path, fake.url())("import", "sql", "--postgres", postgres.address(user),
                                         "--table", "wrong", code=65)
    assert why in done.err and fake.tags == {}, done


@pytest.fixture(scope="module")
def redis():
    server = databases.Redis()
    try:
        yield server
    finally:
        server.end()


@databases.needs("redis-server", "redis-cli")
def test_redis(redis, fake, tmp_path):
    redis.run("FLUSHALL\nSET id:order 41\nINCR id:order\nSET \"id:a\\\"b\" 7\n"
              "SET \"id:订\" 9\nSET other 1\n")
    redis.run("EVAL \"for i = 1, 12000 do redis.call('SET', 'many:' .. i, i) end\" 0\n")
    ctl = Leafctl(tmp_path, fake.url())
    words = ["import", "sql", "--redis", redis.address(), "--settle", "0"]
    ctl(*words, "--pattern", "id:*")
    assert imported(fake) == {"id:order": 43, 'id:a"b': 8, "id:订": 10}
    assert "12000 tags to make" in ctl(*words, "--pattern", "many:*", "--dry-run").out
    redis.run("SET id:text abc\nLPUSH id:list 1\nSET id:less -5\n")
    done = ctl(*words, "--pattern", "id:*", code=65)
    for why in ('"id:text": value is "abc"', '"id:list": value is "(error) WRONGTYPE',
                '"id:less": value is "-5"'):
        assert why in done.err, done
    assert "no key matches" in ctl(*words, "--pattern", "none*", code=65).err
    redis.run("ACL SETUSER default on >secret\n")
    assert "NOAUTH" in ctl(*words, "--pattern", "other", code=65).err
    ctl.env["REDISCLI_AUTH"] = "secret"
    ctl(*words, "--pattern", "other")
    assert imported(fake)["other"] == 2
    redis.run("AUTH secret\nACL SETUSER default nopass\n")
    done = ctl("import", "sql", "--redis", "127.0.0.1:1", "--pattern", "*", code=65)
    assert "Connection refused" in done.err


@maria
@databases.needs("postgres", "initdb", "psql", "redis-server", "redis-cli")
@pytest.mark.bound(120)
def test_the_examples_of_the_documents(database, postgres, redis, make_cluster, tmp_path):
    """docs/migrate.md shows what is printed, over databases as it describes them."""
    database.run(f"CREATE DATABASE docs; USE docs; {TABLE}"
                 "INSERT INTO leaf_alloc VALUES ('order', 14001, 2000, '', '2020-01-01'),"
                 "('leaf-segment-test', 1, 2000, '', '2020-01-01'),"
                 "('com.example.invoice', 880001, 1000, '', '2020-01-01');")
    postgres.run("CREATE SEQUENCE orders_id_seq; SELECT setval('orders_id_seq', 5000);")
    redis.run("FLUSHALL\nSET id:order 42\nSET id:invoice 6\n")
    places = {"root@10.0.0.5/leaf": database.address("docs"),
              "postgres@10.0.0.6/shop": postgres.address(), "10.0.0.7:6379": redis.address()}
    ctl = leafctl.of(make_cluster(1), tmp_path)
    with open(os.path.join(ROOT, "docs", "migrate.md"), encoding="utf-8") as file:
        shown = re.findall(r"^\$ leafctl (import .*)\n((?:(?!\$ |```).*\n)*)", file.read(), re.M)
    assert len(shown) == 4
    for words, wanted in shown:
        words = shlex.split(words)
        done = ctl(*[places.get(word, word) for word in words])
        said = done.err + done.out
        for name, place in places.items():
            said = said.replace(place, name)
        age = re.compile(r"\d+ seconds ago")
        said, wanted = age.sub("", said), age.sub("", wanted)
        shortened = wanted.removeprefix("...\n")  # its last lines
        assert said == wanted or shortened != wanted and said.endswith(shortened), done


@pytest.mark.parametrize("words, why", [
    ([], "name one of --mysql, --postgres and --redis"),
    (["--mysql", "/a", "--redis", "h"], "name one of"),
    (["--redis", "h"], "--redis needs --pattern"),
    (["--mysql", "/a", "--pattern", "*"], "--redis needs --pattern"),
    (["--mysql", "/a", "--table", ""], "--table is empty"),
    (["--mysql", "/a", "--table", "\udcff"], "--table is empty or not UTF-8"),
    (["--redis", "h", "--pattern", "*", "--table", "a"], "take none"),
    (["--mysql", "/a", "--ahead", "5", "--guard"], "--guard: only a table of Leaf"),
])
def test_what_sql_does_not_take(tmp_path, words, why):
    assert why in Leafctl(tmp_path, "127.0.0.1:1")("import", "sql", *words, code=64).err
