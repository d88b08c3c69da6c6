"""leafctl import: what it reads, what it refuses, and what it sends to a cluster.

fixtures/leaf_alloc.sql is a dump of a whole database as mariadb-dump 10.11 wrote it: leaf_alloc
with 315 rows, tables beside it, a trigger and a procedure whose texts look like rows. The cluster
is a small HTTP server here.
"""

import http.server
import json
import os
import random
import re
import subprocess
import threading
import urllib.parse

import pytest

from leafctl import Leafctl, environment, leafctl_path
from node import ROOT

DUMP = os.path.join(ROOT, "cluster-tests", "fixtures", "leaf_alloc.sql")

# Most files here name no columns.
ORDER = ["--columns", "biz_tag,max_id,step,description,update_time"]

HAND_MADE = {
    "leaf-segment-test": (1, 2000, "Test leaf Segment Mode Get Id"),
    "o'brien": (4001, 2000, 'it\'s a "quoted" name'),
    "back\\slash": (77, 100, "C:\\temp\\%d \\_ \\N"),
    "percent%_": (12, 100, "a%b_c"),
    "订单": (2**63 - 1, 1000000, "订单号，按天"),
    "emoji-😀": (123456789012, 50000, "😀 smile"),
    "comma,semi;paren)": (5, 1, "),('x',1,2,3);"),
    "no-description": (1001, 1000, ""),
    "empty-description": (2001, 1000, ""),
    "NULL": (3001, 1000, "NULL"),
    "multi-line": (4001, 1000, "first\nsecond\r\n\tthird"),
    "control": (6001, 1000, "nul: sub:\x1a bs:\b"),
    "com.example.order/item": (7001, 1000, "-- no comment /* either */ # nor this"),
    "fresh": (0, 100, "never used"),
    "dash--": (8, 10, "`backquote`"),
}


def expected_tags():
    """What the dump holds."""
    tags = dict(HAND_MADE)
    for n in range(1, 301):
        text = "" if n % 7 == 0 else f"service '{n}', owner \"team\\{n % 9}\""
        tags[f"svc-{n:03}.id"] = (n * 1000 + 1, 1000 + n, text)
    return tags


def dump():
    with open(DUMP, "rb") as file:
        return file.read()


def run_print(data, form=None, source="leaf", *options):
    """leafctl import --print of a file's bytes: (exit code, tags, lines of stderr)."""
    named = ["--format", form] if form else []
    named += ORDER if source == "leaf" and "--columns" not in options else []
    done = subprocess.run([leafctl_path(), "import", source, "-", "--print", *named, *options],
                          input=data.encode() if isinstance(data, str) else data,
                          capture_output=True, env=environment("/nowhere"), timeout=30, check=False)
    tags = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, tags, done.stderr.decode().splitlines()


def of_kind(lines, kind):
    start = f"leafctl: {kind}: "
    return [line[len(start):] for line in lines if line.startswith(start)]


def read(data, form=None):
    """(format, {name: (max_id, step, description)}, warnings) of a file without errors."""
    code, tags, lines = run_print(data, form)
    assert code == 0, lines
    found = re.search(r"^leafctl: -: (\S+), \d+ rows", "\n".join(lines), re.M)[1]
    return found, {tag["tag"]: (int(tag["max_id"]), tag["step"], tag.get("description", ""))
                   for tag in tags}, of_kind(lines, "warning")


def errors_of(data, form=None, source="leaf"):
    """All errors of a file of which some rows are wrong."""
    code, tags, lines = run_print(data, form, source)
    assert code == 65 and tags == [] and "nothing was imported" in lines[-1], lines
    return of_kind(lines, "error")


def refused(data, form=None):
    """Why a file makes no sense."""
    code, tags, lines = run_print(data, form)
    assert code == 65 and tags == [] and len(lines) == 1, lines
    return lines[0]


def test_dump_every_row():
    form, tags, warnings = read(dump())
    assert form == "sql"
    assert tags == expected_tags()
    assert sorted(warning.split("'")[1] for warning in warnings) == ["control", "fresh", "订单"]


def test_dump_rows_on_one_line():
    """MySQL's own mysqldump writes all rows of an INSERT on one line."""
    _, tags, _ = read(dump().replace(b"),\n(", b"),("))
    assert tags == expected_tags()


@pytest.mark.parametrize("statement", [
    "INSERT INTO `leaf_alloc` VALUES ('a',7,100,'d','2020-01-01 00:00:00');",
    "insert ignore into leaf_alloc values ('a',7,100,'d',current_timestamp());",
    "INSERT  IGNORE INTO `leaf`.`leaf_alloc` VALUES ('a',7,100,'d',NULL);",
    "REPLACE INTO `leaf_alloc` VALUES ('a',7,100,'d',now(6));",
    "INSERT INTO leaf_alloc(biz_tag, max_id, step, description) VALUES('a', 7, 100, 'd');",
    "INSERT INTO `leaf_alloc` (`step`,`description`,`biz_tag`,`max_id`) VALUES (100,'d','a',7);",
    "INSERT INTO leaf_alloc (biz_tag,max_id,step,description)\n"
    "VALUES (_utf8mb4'a',7,100,_binary 'd');",
    "INSERT INTO leaf_alloc (biz_tag,max_id,step,description) VALUES (0x61,'7',100,x'64');",
    "INSERT INTO leaf_alloc (biz_tag,max_id,step,description) VALUES (_binary 0x61,+7,100,\"d\")\n"
    "ON DUPLICATE KEY UPDATE max_id = VALUES(max_id);",
    "CREATE TABLE `leaf_alloc` (`description` varchar(256), `step` int(11) COMMENT 'x,y(',\n"
    "`max_id` bigint(20), `biz_tag` varchar(128), PRIMARY KEY (`biz_tag`), KEY `k` (`step`));\n"
    "INSERT INTO `leaf_alloc` VALUES ('d',100,7,'a');",
])
def test_sql_forms(statement):
    assert read(statement)[1] == {"a": (7, 100, "d")}


def test_sql_escapes():
    text = r"""INSERT INTO leaf_alloc VALUES ('q''\'\"',1,1,'\0\b\n\r\t\Z\\\%\_\x',NULL),
        ("d""'",2,1,NULL,NULL);"""
    assert read(text)[1] == {
        "q''\"": (1, 1, "\b\n\r\t\x1a\\\\%\\_x"),
        "d\"'": (2, 1, ""),
    }


def test_sql_comments_and_other_statements():
    text = """-- INSERT INTO leaf_alloc VALUES ('c1',1,1,NULL,NULL);
        # INSERT INTO leaf_alloc VALUES ('c2',1,1,NULL,NULL);
        /* INSERT INTO leaf_alloc VALUES ('c3',1,1,NULL,NULL); */
        INSERT INTO other VALUES ('INSERT INTO leaf_alloc VALUES (''c4'',1,1,NULL,NULL);');
        DELIMITER ;;
        CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW
        BEGIN INSERT INTO leaf_alloc VALUES ('c5',1,1,NULL,NULL); END;;
        DELIMITER ;
        LOCK TABLES leaf_alloc WRITE;;
        INSERT INTO leaf_alloc /* why */ VALUES ('a',1,1,NULL,NULL) -- so
        ;"""
    assert list(read(text)[1]) == ["a"]
    # As MySQL reads it: a blank or the end follows the two dashes of a comment.
    row = "INSERT INTO leaf_alloc VALUES ('a',1,1,NULL,NULL);"
    for end in "--", "--\t; x", "\n-- x":
        assert list(read(row + end)[1]) == ["a"], end
    said = errors_of("INSERT INTO leaf_alloc VALUES ('a',1--5\n,1,NULL,NULL);")
    assert "an expression" in said[0], said


@pytest.mark.parametrize("form", ["tsv", "outfile", "csv"])
def test_separated_like_mysql(form):
    """The same rows as mysql -B and INTO OUTFILE write them."""
    rows = {
        "tsv": "step\tbiz_tag\tmax_id\tdescription\n"
               "100\ta\\\\b\t7\tl1\\nl\\t2\n5\tNULL\t8\tNULL\n",
        "outfile": "a\\\\b\t7\t100\tl1\\\nl\\\t2\t2020-01-01 00:00:00\nNULL\t8\t5\t\\N\n",
        "csv": '"a\\\\b",7,100,"l1\\\nl\\t2","2020-01-01 00:00:00"\n"NULL",8,5,\\N\n',
    }
    got, tags, _ = read(rows[form])
    assert got == form
    assert tags == {"a\\b": (7, 100, "l1\nl\t2"), "NULL": (8, 5, "")}


@pytest.mark.parametrize("text, tags", [
    ('biz_tag,max_id,step\na,1,2\n', {"a": (1, 2, "")}),
    ('a,1,2,"say ""hi"", you"\r\nb,3,4,\r\n', {"a": (1, 2, 'say "hi", you'), "b": (3, 4, "")}),
    ('"a",1,2,"say \\"hi\\""\n', {"a": (1, 2, 'say "hi"')}),
    ('"a\\b",1,2,"x ""y"" z"\n', {"a\\b": (1, 2, 'x "y" z')}),
    ('"a",1,2,"C:\\"\n', {"a": (1, 2, "C:\\")}),
    ('Description, STEP ,biz_tag,max_id\n"two\nlines",2,a,1', {"a": (1, 2, "two\nlines")}),
    ('\ufeffbiz_tag,max_id,step\n\n订单,1,2\n', {"订单": (1, 2, "")}),
])
def test_csv_dialects(text, tags):
    form, got, _ = read(text)
    assert form == "csv"
    assert got == tags


def test_csv_ambiguous_backslash():
    text = "a\\c,1,2,x\n"
    assert "csv-doubled" in refused(text)
    assert list(read(text, "csv-doubled")[1]) == ["a\\c"]
    assert list(read(text, "csv-backslash")[1]) == ["ac"]


@pytest.mark.parametrize("data, why", [
    (b"", "empty"),
    (b"\xff\xfeb\x00", "UTF-16"),
    (b"hello\n", "neither a dump"),
    (b'a,1,2\n"b,1,2\n', "line 2: a quote"),
    (b'a,1,2\n"b"c,1,2\n', "line 2: a quote"),
    (b"INSERT INTO leaf_alloc VALUES ('a',1,1,'',NULL),\n", "cut off"),
    (b"INSERT INTO leaf_alloc VALUES ('a',1,1,'',NULL)", "cut off"),
    (b"INSERT INTO leaf_alloc VALUES ('a',1,1", "cut off"),
    (b"INSERT INTO leaf_alloc VALUES ('a',1,1,'off", "line 1: what ' opens"),
    (b"INSERT INTO t VALUES (1);\n", "no rows of a table leaf_alloc (tables with rows: t)"),
    (b"SET NAMES gbk;\nINSERT INTO leaf_alloc VALUES ('\x8e\x5c',1,1,'',NULL);\n", "gbk"),
    (b"/*!40101 SET NAMES latin1 */;\nINSERT INTO leaf_alloc VALUES ('\xe4',1,1,'',NULL);\n",
     "latin1"),
    (b"CREATE TABLE leaf_alloc (a int, b int);\n", "no column biz_tag"),
])
def test_files_that_make_no_sense(data, why):
    assert why in refused(data)


@pytest.mark.parametrize("data, why", [
    (b"\x1f\x8b\x08\0\0", "compressed by gzip"),
    (b"PK\x03\x04\x14\0", "zip archive"),
    (b"\x28\xb5\x2f\xfd\x24", "zstd"),
    (b"\xfd7zXZ\0", "by xz"),
    (b"sep=;\nbiz_tag;max_id;step\na;1;2\n", "sep= line"),
    (b"biz_tag;max_id;step\na;1;2\n", "separated by semicolons"),
    (b'/**\n Export to JSON plugin for PHPMyAdmin\n */\n// leaf.leaf_alloc\n[{"biz_tag":"a"}]',
     "old phpMyAdmins"),
    (b"--\n-- PostgreSQL database dump\n--\nCOPY leaf_alloc FROM stdin;\na\\c\t1\t2\n",
     "a dump of PostgreSQL"),
    (b"INSERT INTO \"leaf_alloc\" VALUES ('a\\c',1,2,NULL,NULL);\n", "a name in double quotes"),
    (b"USE `a`;\nINSERT INTO leaf_alloc VALUES ('x',1,2,'',NULL);\n"
     b"USE `b`;\nINSERT INTO leaf_alloc VALUES ('x',9,2,'',NULL);\n", "second database"),
    (b"INSERT INTO a.leaf_alloc VALUES ('x',1,2,'',NULL);\n"
     b"INSERT INTO b.leaf_alloc VALUES ('y',9,2,'',NULL);\n", "second database"),
])
def test_files_of_other_tools(data, why):
    assert why in refused(data)


ROW = '{"biz_tag":"订\\u5355","max_id":9007199254740993,"step":100,"description":"d\\n"}'
STRINGS = '{"id":1.5,"MAX_ID":"9007199254740993","Biz_Tag":"订单","step":"100","description":"d\\n"}'
NO_TEXT = '{"biz_tag":"订单","max_id":9007199254740993,"step":100,"description":null}'
HEADER = '{"type":"header","comment":"Export to JSON plugin"},{"type":"database","name":"leaf"},'
PART = '{"type":"table","name":"%s","database":"leaf","data":[%s]}'


@pytest.mark.parametrize("text", [
    ROW,
    STRINGS,
    f"\ufeff \r\n {ROW}\t\n",
    f"[{ROW}]",
    f"\n[\n  {STRINGS}\n]\n",
    f"[]{ROW}[]",
    f"[{HEADER}{PART % ('other', '{}')},\n{PART % ('leaf_alloc', STRINGS)}]\n",
    f'{{"leaf_alloc": [{ROW}]}}',
    f'{{"select * from `leaf`.LEAF_ALLOC;": [{ROW}]}}',
    f'{{"hasData":true,"rows":[{ROW}],"warnings":[],"warningsCount":0}}',
    f'{{"RECORDS":[{ROW}]}}',
    f'{{"table":"leaf_alloc","rows":[{ROW}]}}',
    json.dumps(json.loads(ROW), indent=4),
])
def test_json_forms(text):
    """An array, objects one behind the other, and what tools put around them (json.h)."""
    for form in None, "json":
        assert read(text, form)[:2] == ("json", {"订单": (9007199254740993, 100, "d\n")})


def test_json_of_many_rows():
    wanted = {f"t{n}": (2**63 - 1 - n, 1 + n, "") for n in range(3000)}
    lines = [json.dumps({"biz_tag": name, "max_id": max_id, "step": step, "update_time": "x"})
             for name, (max_id, step, _) in wanted.items()]
    for text in "\n".join(lines), f"[{','.join(lines)}]", f'{{"leaf_alloc":[{",".join(lines)}]}}':
        assert read(text)[1] == wanted
    assert read(NO_TEXT)[1] == {"订单": (9007199254740993, 100, "")}


def json_row(name='"a"', max_id="1", step="1", more=""):
    return f'[{{"biz_tag":"x","max_id":1,"step":1}},\n{{"biz_tag":{name},"max_id":{max_id},' \
           f'"step":{step}{more}}}]'


@pytest.mark.parametrize("data, why", [
    (json_row(name='""'), 'line 2: biz_tag "" has 0 bytes'),
    (json_row(name="null"), "0 bytes"),
    (json_row(name="5"), "line 2: biz_tag is a number, not a string"),
    (json_row(name="true"), "biz_tag is true or false"),
    (json_row(name='["a"]'), "biz_tag is an object or an array"),
    (json_row(name='"a\\u0000"'), "U+0000 at character 2"),
    (json_row(name='"a\\u200b"'), "U+200B at character 2"),
    (json_row(name='"x"'), "line 2: tag 'x' is already in line 1"),
    (json_row(max_id="-1"), 'max_id is "-1"'),
    (json_row(max_id='"-1"'), 'max_id is "-1"'),
    (json_row(max_id='"1.5"'), 'max_id is "1.5"'),
    (json_row(max_id='"9223372036854775808"'), 'max_id is "9223372036854775808"'),
    (json_row(max_id='""'), 'max_id is ""'),
    (json_row(max_id="1.0"), "max_id is a number with a fraction or an exponent"),
    (json_row(max_id="1e3"), "max_id is a number with a fraction or an exponent"),
    (json_row(max_id="null"), "max_id is NULL"),
    (json_row(step="0"), 'step is "0"'),
    (json_row(step="1000000001"), 'step is "1000000001"'),
    (json_row(more=',"description":7'), "description is a number, not a string"),
    (json_row(more=',"STEP":7'), "the column step twice"),
    ('{"biz_tag":"a","step":1}', "line 1: without the column max_id"),
    ('\n{"id":1}\n', "line 2: without the column biz_tag"),
    (f"[{PART % ('leaf_alloc', ROW + ',7')}]", "line 1, row 2: a row that is not an object"),
])
def test_json_rows_that_are_wrong(data, why):
    errors = errors_of(data)
    assert len(errors) == 1 and why in errors[0], errors


@pytest.mark.parametrize("data, why", [
    (json_row(max_id=str(2**63)), "line 2: \"too big integer near '9223372036854775808'\""),
    (json_row(max_id=str(-2**64)), "line 2: \"too big negative integer"),
    (json_row(more=',"step":1'), "duplicate object key"),
    (json_row(name='"\\ud800"'), "line 2"),
    (json_row(name='"\\xff"').encode("latin1").replace(b"\\xff", b"\xff"), "line 2"),
    (json_row()[:-1], "line 2: the array is cut off"),
    (json_row()[:-2], "line 2"),
    (json_row() + "]", "line 2: neither an object"),
    ('[{"biz_tag":"a"},]', "line 1: neither an object"),
    ('[{"biz_tag":"a"}{}]', "a comma or ] was expected"),
    ('["biz_tag"]', "neither an object nor an array of objects"),
    (f"[[{ROW}]]", "neither an object nor an array of objects"),
    ("[]", "no rows of a table leaf_alloc"),
    (f"[{HEADER}{PART % ('other', ROW)}]", "no rows of a table leaf_alloc"),
    (f"[{PART % ('leaf_alloc', ROW)},{PART % ('leaf_alloc', ROW)}]", "a second database"),
    ('[{"type":"table","name":"leaf_alloc"}]', "no table with a name and data"),
    ('[{"type":"view","name":"leaf_alloc","data":[]}]', "no table with a name and data"),
    (f'{{"leaf_alloc_old":[{ROW}]}}', 'rows of "leaf_alloc_old", not of leaf_alloc: --table'),
    (f'{{"my-leaf_alloc":[{ROW}]}}', 'rows of "my-leaf_alloc"'),
    (f'{{"table":"old","rows":[{ROW}]}}', 'rows of "old", not of leaf_alloc'),
])
def test_json_that_makes_no_sense(data, why):
    assert why in refused(data)


def test_json_by_another_name():
    for data in f'{{"ids":[{ROW}]}}', f"[{PART % ('ids', ROW)}]":
        code, tags, lines = run_print(data, None, "leaf", *ORDER, "--table", "ids")
        assert code == 0 and tags[0]["max_id"] == "9007199254740993", lines
    row = {"biz_type": "a", "max_id": 7, "step": 3, "delta": 1, "remainder": 0, "version": 4}
    code, tags, lines = run_print(json.dumps([row]), None, "tinyid")
    assert code == 0 and tags == [{"tag": "a", "max_id": "8", "step": 3}], lines
    code, _, lines = run_print(json.dumps([dict(row, delta=2)]), None, "tinyid")
    assert code == 65 and "leafd hands out every number" in "".join(lines)


@pytest.mark.parametrize("data", [f'{{"ab":[{ROW}]}}', f"[{ROW}]",
                                  "INSERT INTO leaf_alloc VALUES ('x',9,2,'',NULL);\n"])
def test_a_table_without_a_name(data):
    code, tags, lines = run_print(data, None, "leaf", "--table", "")
    assert code == 64 and tags == [] and "--table is empty or not UTF-8" in "".join(lines), lines


def test_one_of_two_databases_has_the_table():
    text = ("USE `a`;\nINSERT INTO other VALUES (1);\nUSE `b`;\n"
            "INSERT INTO leaf_alloc VALUES ('x',9,2,'',NULL);\n")
    assert read(text)[1] == {"x": (9, 2, "")}


def test_names_that_a_dump_has_lost():
    errors = errors_of("a?,1,2\n??,1,2\n")
    assert len(errors) == 1 and "line 2" in errors[0] and "utf8mb4" in errors[0]


UNNAMED = ["order,2000,5001,orders\n", "order\t2000\t5001\torders\t2026-11-20 12:00:00\n",
           "INSERT INTO leaf_alloc VALUES ('order',2000,5001,'orders',NULL);\n"]


@pytest.mark.parametrize("data", UNNAMED)
def test_columns_that_nobody_names(data):
    """A step that is taken for max_id repeats ids: only names, or the user's word, tell."""
    run = subprocess.run([leafctl_path(), "import", "leaf", "-", "--print"], input=data.encode(),
                         capture_output=True, env=environment("/nowhere"), timeout=20, check=False)
    assert run.returncode == 65 and run.stdout == b"" and b"--columns" in run.stderr, run
    given = ("--columns", "biz_tag,step,max_id,description,update_time")
    code, tags, lines = run_print(data, None, "leaf", *given)
    assert code == 0 and (tags[0]["max_id"], tags[0]["step"]) == ("5001", 2000), lines
    # No step is that large.
    certain = data.replace("2000", "20000000001").encode()
    run = subprocess.run([leafctl_path(), "import", "leaf", "-", "--print"], input=certain,
                         capture_output=True, env=environment("/nowhere"), timeout=20, check=False)
    assert run.returncode == 0 and json.loads(run.stdout)["max_id"] == "20000000001", run


@pytest.mark.parametrize("columns", ["", "biz_tag,max_id", "a,b,c", ",".join("abcdefghijklmno")])
def test_columns_that_are_none(columns):
    code, _, lines = run_print("a,1,2\n", None, "leaf", "--columns", columns)
    assert code == 64 and "lacks a column" in lines[0], lines


def sql_row(name="'a'", max_id="1", step="1"):
    return f"INSERT INTO leaf_alloc VALUES\n('x',1,1,NULL,NULL),\n({name},{max_id},{step},'',NULL);"


@pytest.mark.parametrize("data, why", [
    (sql_row(name="''"), "line 3, row 2: biz_tag \"\" has 0 bytes"),
    (sql_row(name="'" + "a" * 129 + "'"), "129 bytes"),
    (sql_row(name="'" + "订" * 43 + "'"), "129 bytes"),
    (sql_row(name=r"'a\nb'"), "control character"),
    (sql_row(name="'a\u0085'"), "control character"),
    (sql_row(name="'a\u202eb'"), '"a\\u{202e}b": U+202E at character 2'),
    (sql_row(name="'ab\u200b'"), "U+200B at character 3"),
    (sql_row(name="0xff"), "not UTF-8"),
    (sql_row(name="NULL"), "0 bytes"),
    (sql_row(name="'x'"), "tag 'x' is already in line 2, row 1"),
    (sql_row(max_id="-1"), 'max_id is "-1"'),
    (sql_row(max_id=str(2**63)), 'max_id is "9223372036854775808"'),
    (sql_row(max_id="1.5"), 'max_id is "1.5"'),
    (sql_row(max_id="NULL"), 'max_id is NULL'),
    (sql_row(max_id="DEFAULT"), 'max_id: no literal value: "DEFAULT"'),
    (sql_row(max_id="1+1"), "max_id: an expression"),
    (sql_row(max_id="(1)"), 'max_id: no literal value: "("'),
    (sql_row(max_id=""), "max_id: a value is missing"),
    (sql_row(step="0"), 'step is "0"'),
    (sql_row(step="1000000001"), 'step is "1000000001"'),
    (sql_row(step="1,2"), "line 3, row 2: 6 values for 5 columns"),
    ("INSERT INTO leaf_alloc (biz_tag, step) VALUES ('a', 1);", "without the column max_id"),
    ("INSERT INTO leaf_alloc SELECT * FROM old;", "without VALUES"),
    ("a,1\n", "line 1: 2 values for 5 columns"),
    ("a,1,2\nb,one,2\n", 'line 2: max_id is "one"'),
    ("biz_tag\tmax_id\tstep\na\t1\n", "line 2: 2 values for 3 columns"),
])
def test_rows_that_are_wrong(data, why):
    errors = errors_of(data)
    assert len(errors) == 1
    assert why in errors[0]


def test_all_errors_at_once():
    errors = errors_of("a,1,0\nb,1,1\nc,x,1\nb,2,2\n")
    assert [error.split(":")[0] for error in errors] == ["line 1", "line 3", "line 4"]


def test_limits_are_allowed():
    name = "n" * 128
    rows = f"{name},{2**63 - 1},{10**9},{'d' * 256}\nzero,0,1\n"
    assert read(rows)[1] == {name: (2**63 - 1, 10**9, "d" * 256), "zero": (0, 1, "")}


def test_a_dump_without_its_last_line_is_warned_of():
    whole = b"-- MySQL dump 10.13\nINSERT INTO leaf_alloc VALUES ('a',1,1,'',NULL);\n"
    _, tags, warnings = read(whole)
    assert list(tags) == ["a"] and len(warnings) == 1 and "Dump completed" in warnings[0]
    assert read(whole + b"-- Dump completed on 2026-11-20\n")[2] == []
    assert read(whole.replace(b"-- MySQL dump", b"-- by hand:"))[2] == []


def test_warnings():
    _, tags, warnings = read("Order,1,1\norder ,1,1\nfar,1,1," + "订" * 100 + "\n")
    assert len(warnings) == 3
    assert "'order ' looks like another one: a blank at its end" in warnings[0]
    assert "the description was cut" in warnings[1]
    assert "'Order' and 'order '" in warnings[2]
    assert tags["far"][2] == "订" * 85


class FakeCluster(http.server.ThreadingHTTPServer):
    """GET and POST /api/tags of a cluster, as docs/http-api.md has them."""

    def __init__(self, max_ids=()):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.tags = {name: {"tag": name, "max_id": str(value)}
                     for name, value in dict(max_ids).items()}
        self.posts = []
        self.failures = []  # (status, code) of the next POSTs
        self.thread = threading.Thread(target=self.serve_forever, args=[0.02], daemon=True)
        self.thread.start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, rows):
        self.posts.append(rows)
        if self.failures and (failure := self.failures.pop(0)):
            return failure
        if any(int(row["max_id"]) < int(self.tags.get(row["tag"], row)["max_id"]) for row in rows):
            return 409, "would_repeat"
        self.tags.update({row["tag"]: row for row in rows})
        return 200, "ok"


class FakeHandler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        after = query.get("after", [""])[0]
        names = sorted(name for name in self.server.tags if name > after)
        page = names[: int(query["limit"][0])]
        self.answer(200, {"tags": [self.server.tags[name] for name in page],
                          "next": page[-1] if len(page) < len(names) else None})

    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, code = self.server.put(rows)
        self.answer(status, {"code": code, "message": f"told so: {code}"})

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    clusters = []

    def make(max_ids=()):
        clusters.append(FakeCluster(max_ids))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.shutdown()
        cluster.server_close()


def run_import(cluster, tmp_path, data, *options, source="leaf"):
    """(exit code, all output)."""
    path = tmp_path / "file"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    url = cluster if isinstance(cluster, str) else cluster.url()
    named = ORDER if source == "leaf" else []
    done = Leafctl(tmp_path, url)("import", source, path, *named, *options, code=None)
    return done.code, done.out + done.err


def test_import_whole_dump(fake, tmp_path):
    cluster = fake({"svc-001.id": 5, "elsewhere": 9})
    code, text = run_import(cluster, tmp_path, dump(), "--force")
    assert code == 0, text
    assert "imported: 314 tags made, 1 changed, 0 were there, 0 left alone" in text
    assert len(cluster.posts) == 2
    wanted = expected_tags()
    assert set(cluster.tags) == set(wanted) | {"elsewhere"}
    for name, (max_id, step, description) in wanted.items():
        row = cluster.tags[name]
        assert (row["max_id"], row["step"], row.get("description", "")) == (
            str(max_id), step, description)


def test_import_again_changes_nothing(fake, tmp_path):
    cluster = fake()
    assert run_import(cluster, tmp_path, dump(), "--force")[0] == 0
    before = dict(cluster.tags)
    sent = len(cluster.posts)
    assert run_import(cluster, tmp_path, dump(), "--force")[0] == 0
    assert cluster.tags == before and len(cluster.posts) == sent


def test_import_refuses_to_repeat(fake, tmp_path):
    cluster = fake({"a": 50})
    code, text = run_import(cluster, tmp_path, "a,49,1\nb,1,1\n")
    assert code == 76
    assert "line 1: tag 'a' is at 50 in the cluster, beyond 49 here" in text
    assert "nothing was imported" in text
    assert cluster.posts == []
    code, text = run_import(cluster, tmp_path, "a,49,1\nb,1,1\n", "--skip-ahead")
    assert code == 0, text
    assert [row["tag"] for row in cluster.posts[0]] == ["b"]
    assert cluster.tags["a"]["max_id"] == "50"


def test_import_sees_would_repeat_of_the_server(fake, tmp_path):
    """A deleted tag is in no list, but the server knows its mark."""
    cluster = fake()
    cluster.failures = [(409, "would_repeat")]
    code, text = run_import(cluster, tmp_path, "a,1,1\n")
    assert code == 76
    assert "told so: would_repeat" in text and "nothing was imported" in text


def test_import_dry_run(fake, tmp_path):
    cluster = fake({"a": 1})
    code, text = run_import(cluster, tmp_path, "a,2,1\nb,1,1\n", "--dry-run")
    assert code == 0
    assert "1 tags to make, 1 to change, 0 are there, 0 left alone; nothing was sent" in text
    assert cluster.posts == []


def test_import_bad_file_sends_nothing(fake, tmp_path):
    cluster = fake()
    code, text = run_import(cluster, tmp_path, "a,1,1\nb,1,0\n")
    assert code == 65
    assert 'error: line 2: step is "0"' in text and "nothing was imported" in text
    assert cluster.posts == []


def test_import_tries_again_when_asked_to(fake, tmp_path):
    cluster = fake()
    cluster.failures = [(503, "no_leader"), (429, "overloaded")]
    assert run_import(cluster, tmp_path, "a,1,1\n")[0] == 0
    assert len(cluster.posts) == 3


def test_import_many_says_what_was_done(fake, tmp_path):
    """More than one call takes: a failure in between is told, and running again completes it."""
    cluster = fake()
    cluster.failures = [None, (500, "broken")]
    rows = "".join(f"t{n:05},1,1\n" for n in range(10_001))
    code, text = run_import(cluster, tmp_path, rows)
    assert code == 75
    assert "10000 tags were imported; of the next 1 it is not known" in text
    cluster.tags["t00000"] = {"tag": "t00000", "max_id": "77"}  # in use meanwhile
    code, text = run_import(cluster, tmp_path, rows, "--skip-ahead")
    assert code == 0, text
    assert len(cluster.tags) == 10_001
    assert cluster.tags["t00000"]["max_id"] == "77"


def test_import_notices_a_tag_that_is_not_there(fake, tmp_path):
    cluster = fake()
    cluster.failures = [(200, "a lie")]
    code, text = run_import(cluster, tmp_path, "a,1,1\n")
    assert code == 70
    assert "not as it was sent: tag 'a'" in text


def test_import_without_a_cluster(fake, tmp_path):
    cluster = fake()
    url = cluster.url()
    cluster.shutdown()
    cluster.server_close()
    code, text = run_import(url, tmp_path, "a,1,1\n")
    assert code == 69 and "no server answers" in text
    assert run_import(url, tmp_path, "a,1,1\n", "--dry-run")[0] == 0


# --- what a file cannot show ---


def dated(update_time, last=""):
    """A dump whose row changed then, and which was made at the time of its last line."""
    return ("-- MySQL dump 10.13\nINSERT INTO leaf_alloc VALUES "
            f"('a',7,1,'','2026-11-01 09:00:00'),('b',7,1,'',{update_time});\n{last}\n")


@pytest.mark.parametrize("update_time, seconds", [
    ("'2026-11-20 09:59:59'", 1),
    ("'2026-11-20 10:00:00'", 0),
    ("'2026-11-20 09:59:01'", 59),
    ("'2026-11-20 01:59:30'", 30),  # the dump's clock is in another zone
    ("'2026-11-20 15:44:50'", 10),
    ("'2026-11-20 09:59:00'", None),
    ("'2026-11-19 09:59:59'", None),
    ("NULL", None),
    ("now()", None),
    ("'soon'", None),
])
def test_a_dump_of_a_leaf_that_ran(fake, tmp_path, update_time, seconds):
    """The newest row and the dump's own time say so; then only the user's word counts."""
    data = dated(update_time, "-- Dump completed on 2026-11-20 10:00:00")
    cluster = fake()
    code, text = run_import(cluster, tmp_path, data)
    if seconds is None:
        assert code == 0 and "a file cannot show whether Leaf still runs" in text, text
        return
    assert code == 76 and cluster.posts == [], text
    assert f"a row has changed {seconds} seconds before the file was made" in text
    code, text = run_import(cluster, tmp_path, data, "--stopped")
    assert code == 0 and "cannot show" not in text and len(cluster.posts) == 1, text


def test_a_table_of_a_leaf_that_ran(fake, tmp_path):
    """Without a line of its own the file's time counts."""
    data = "biz_tag\tmax_id\tstep\tupdate_time\na\t7\t1\t2026-11-20 09:59:30\n"
    path = tmp_path / "file"
    path.write_text(data)
    os.utime(path, (1795168800, 1795168800))  # 2026-11-20 10:00:00
    cluster = fake()
    done = Leafctl(tmp_path, cluster.url())("import", "leaf", path, code=76)
    assert "a row has changed 30 seconds before" in done.err and cluster.posts == []
    os.utime(path, (1795168800 + 86400, 1795168800 + 86400))
    Leafctl(tmp_path, cluster.url())("import", "leaf", path)
    assert len(cluster.posts) == 1


def test_csv_of_any_counters(fake, tmp_path):
    cluster = fake()
    code, text = run_import(cluster, tmp_path, "tag,max_id\nb,5\na,7\n", source="csv")
    assert code == 0, text
    assert cluster.posts == [[{"tag": "a", "max_id": "7"}, {"tag": "b", "max_id": "5"}]]
    code, text = run_import(cluster, tmp_path, "a,7,100\n", source="csv")
    assert code == 65 and "--columns tag,max_id,step" in text, text
    code, text = run_import(cluster, tmp_path, "tag,max_id,step\na,9,0\n", source="csv")
    assert code == 65 and 'line 2: step is "0"' in text


# --- TinyID ---

TINYID = """CREATE TABLE `tiny_id_info` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT, `biz_type` varchar(63) NOT NULL DEFAULT '',
  `begin_id` bigint(20) NOT NULL DEFAULT '0', `max_id` bigint(20) NOT NULL DEFAULT '0',
  `step` int(11) DEFAULT '0', `delta` int(11) NOT NULL DEFAULT '1',
  `remainder` int(11) NOT NULL DEFAULT '0', `version` bigint(20) NOT NULL DEFAULT '0',
  PRIMARY KEY (`id`), UNIQUE KEY `uniq_biz_type` (`biz_type`)) ENGINE=InnoDB;
INSERT INTO `tiny_id_info` VALUES %s;
"""


def test_tinyid_goes_on_above_max_id():
    """TinyID has handed out max_id itself; Leaf has not."""
    code, tags, lines = run_print(
        TINYID % "(1,'a',1,1,100000,1,0,1),(2,'b',1,200001,1000,1,0,9),(3,'z',0,0,5,1,0,0)",
        source="tinyid")
    assert code == 0, lines
    assert [(tag["tag"], int(tag["max_id"]), tag["step"]) for tag in tags] == [
        ("a", 2, 100000), ("b", 200002, 1000), ("z", 1, 5)]
    assert all("description" not in tag for tag in tags)  # what there is stays
    code, tags, lines = run_print(TINYID % f"(1,'a',1,{2**63 - 1},5,1,0,0)", source="tinyid")
    assert int(tags[0]["max_id"]) == 2**63 - 1 and "exhausted" in lines[1]


@pytest.mark.parametrize("row, why", [
    ("(1,'a',1,9,10,2,1,0)", "delta is 2 and remainder 1: its ids are the numbers that leave 1 "
                             "when divided by 2, and leafd hands out every number"),
    ("(1,'a',1,9,10,0,0,0)", 'delta is "0", not a number from 1'),
    ("(1,'a',1,9,10,-1,0,0)", 'delta is "-1"'),
    ("(1,'a',1,9,NULL,1,0,0)", "step is NULL"),
    ("(1,'a',1,9,0,1,0,0)", 'step is "0"'),
    ("(1,'a',1,-9,10,1,0,0)", 'max_id is "-9"'),
    ("(1,'a',1,9,10,1,0,0),(2,'a',1,9,10,1,0,0)", "tag 'a' is already in line 7, row 1"),
])
def test_tinyid_rows_that_are_wrong(row, why):
    errors = errors_of(TINYID % row, source="tinyid")
    assert len(errors) == 1 and why in errors[0], errors


def test_tinyid_with_its_increment(fake, tmp_path):
    """The tag has the numbers of one database alone; another increment in the cluster is a change.
    """
    rows = TINYID % "(1,'a',1,101,100,3,2,0),(2,'b',1,7,200,1,0,0)"
    cluster = fake()
    kept = (cluster, tmp_path, rows, "--keep-increment")
    code, text = run_import(*kept, source="tinyid")
    assert code == 0, text
    a = {"tag": "a", "max_id": "102", "step": 100, "increment": 3, "offset": 2}
    assert cluster.posts == [[a, {"tag": "b", "max_id": "8", "step": 200}]]
    assert "2 were there" in run_import(*kept, source="tinyid")[1]
    del cluster.tags["a"]["increment"]
    run_import(*kept, source="tinyid")
    assert cluster.posts[1:] == [[a]]
    wrong = TINYID % "(1,'a',1,101,100,3,3,0)"
    code, text = run_import(cluster, tmp_path, wrong, "--keep-increment", source="tinyid")
    assert code == 65 and 'remainder is "3", not a number from 0 to 2' in text


def test_tinyid_of_several_databases():
    """Every number, above the largest max_id of them all."""
    rows = TINYID % "(1,'a',1,100001,100,2,1,0),(2,'a',1,300000,200,2,0,0)"
    code, tags, lines = run_print(rows, None, "tinyid", "--every-number")
    assert code == 0 and len(tags) == 1, lines
    assert (int(tags[0]["max_id"]), tags[0]["step"]) == (300001, 200)


def test_a_table_of_the_other_kind_is_no_table():
    assert "no rows of a table leaf_alloc (tables with rows: tiny_id_info)" in refused(
        TINYID % "(1,'a',1,1,1,1,0,0)")


# --- what was written is read ---

LETTERS = "ab'\"\\`,;()%_-#/* \tµ订😀N0"


def quote_sql(text):
    """A string as mysqldump writes it."""
    for char, escaped in ("\\", "\\\\"), ("'", "\\'"), ('"', '\\"'), ("\0", "\\0"), ("\n", "\\n"):
        text = text.replace(char, escaped)
    return f"'{text}'"


def tabs(text):
    """As INTO OUTFILE writes it."""
    for char, escaped in ("\\", "\\\\"), ("\t", "\\\t"), ("\n", "\\\n"):
        text = text.replace(char, escaped)
    return text


def test_what_was_written_is_read():
    """Any rows, as a dump and as columns with tabs."""
    for seed in range(60):
        source = random.Random(seed)
        rows = {}
        for _ in range(source.randrange(1, 20)):
            name = "".join(source.choice(LETTERS) for _ in range(source.randrange(1, 20)))
            if "\t" not in name:
                text = "".join(source.choice(LETTERS + "\n") for _ in range(source.randrange(30)))
                rows[name] = (source.randrange(2**63), source.randrange(1, 10**9), text)
        if not rows:
            continue
        values = ",".join(f"({quote_sql(name)},{max_id},{step},{quote_sql(text)},NULL)"
                          for name, (max_id, step, text) in rows.items())
        lines = "".join(f"{tabs(name)}\t{max_id}\t{step}\t{tabs(text)}\n"
                        for name, (max_id, step, text) in rows.items())
        assert read(f"INSERT INTO `leaf_alloc` VALUES {values};\n", "sql")[1] == rows, seed
        assert read(lines, "outfile")[1] == rows, seed
