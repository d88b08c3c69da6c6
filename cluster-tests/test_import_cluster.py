"""Leaf's table taken over into a real cluster: every tag goes on exactly at its row's max_id."""

import json
import os
import random
import re

import pytest

import leafctl
from client import tag_path
from node import ROOT
from test_import_unit import DUMP, expected_tags

HEAD = """-- MySQL dump 10.13  Distrib 5.7.44, for Linux (x86_64)
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `leaf_alloc`;
CREATE TABLE `leaf_alloc` (
  `biz_tag` varchar(128) NOT NULL DEFAULT '',
  `max_id` bigint(20) NOT NULL DEFAULT '1',
  `step` int(11) NOT NULL,
  `description` varchar(256) DEFAULT NULL,
  `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`biz_tag`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `leaf_alloc` WRITE;
"""
TAIL = """UNLOCK TABLES;
-- Dump completed on 2026-11-20 10:00:00
"""


def quoted(text):
    return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def dump(rows):
    """The rows as mysqldump writes them."""
    values = ",".join(
        f"({quoted(tag)},{max_id},{step},{quoted(text)},'2026-11-19 09:59:59')"
        for tag, max_id, step, text in rows
    )
    return f"{HEAD}INSERT INTO `leaf_alloc` VALUES {values};\n{TAIL}"


def sample_rows(count):
    source = random.Random(5)
    rows = [
        ("leaf-segment-test", 1, 2000, "Test leaf Segment Mode Get Id"),
        ("order.pay", 123_456_789_012, 1000, None),
        ("a/b c", 42, 10, "it's (a); \"test\", with \\ and -- in it"),
        ("订单", 9_007_199_254_740_993, 5000, "größer als 2^53"),
        ("near-the-end", (1 << 63) - 1 - 5, 3, "five ids are left"),
    ]
    rows += [
        (f"tag.{n}", source.randrange(1, 1 << 50), source.randrange(1, 10_000), f"row {n}")
        for n in range(count - len(rows))
    ]
    return rows


def run_import(cluster, home, path, *options):
    return leafctl.of(cluster, home)("import", "leaf", path, *options, code=None, timeout=120)


def next_id(node, tag):
    answer = node.get(f"/api/segment/get/{tag_path(tag)}")
    assert answer.status == 200, f"{node} {tag}: {answer}"
    return int(answer.body)


@pytest.mark.parametrize("count", [50, 12_000])
def test_every_tag_goes_on_at_its_max_id(make_cluster, tmp_path, count):
    cluster = make_cluster()
    rows = sample_rows(count)
    path = str(tmp_path / "leaf_alloc.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(dump(rows))

    tried = run_import(cluster, tmp_path, path, "--dry-run", "--force")
    assert tried.code == 0, tried
    assert cluster.nodes[0].get_json("/api/tags")["tags"] == []

    # Two rows are so far that the numbers might be wrong: nothing goes without --force.
    refused = run_import(cluster, tmp_path, path)
    assert refused.code == 76 and "near-the-end" in refused.err, refused
    assert cluster.nodes[0].get_json("/api/tags")["tags"] == []

    done = run_import(cluster, tmp_path, path, "--force")
    assert done.code == 0, done
    asked = rows if count < 1000 else rows[:5] + random.Random(6).sample(rows[5:], 300)
    for number, (tag, max_id, step, text) in enumerate(asked):
        node = cluster.nodes[number % 3]
        row = node.get_json(f"/api/tags/{tag_path(tag)}")
        assert (int(row["max_id"]), row["step"], row["description"]) == (max_id, step, text or "")
        assert next_id(node, tag) == max_id

    # A second run would repeat ids: it is refused, and nothing changes.
    again = run_import(cluster, tmp_path, path, "--force")
    assert again.code == 76, again
    for number, (tag, max_id, _, _) in enumerate(asked[:50]):
        assert next_id(cluster.nodes[number % 3], tag) > max_id


def test_json_of_a_table(shared, tag, tmp_path):
    """As DBeaver exports it; again it is refused, since ids would repeat."""
    path = tmp_path / "leaf_alloc.json"
    rows = [{"biz_tag": f"{tag}.{n}", "max_id": 2**53 + 1 + n, "step": 100, "description": None,
             "update_time": "2026-11-20T09:59:59.000Z"} for n in range(3)]
    path.write_text(json.dumps({"leaf_alloc": rows}, indent=2), encoding="utf-8")
    done = run_import(shared, tmp_path, path, "--force")
    assert done.code == 0 and "3 tags made" in done.out, done
    for row, node in zip(rows, shared.nodes):
        assert next_id(node, row["biz_tag"]) == row["max_id"]
    again = run_import(shared, tmp_path, path, "--force")
    assert again.code == 76, again


def test_a_real_dump(make_cluster, tmp_path):
    """What mariadb-dump wrote, with names and texts of every kind (fixtures/leaf_alloc.sql)."""
    cluster = make_cluster()
    done = run_import(cluster, tmp_path, DUMP, "--force")
    assert done.code == 0, done
    tags = expected_tags()
    listed = cluster.nodes[2].get_json("/api/tags?limit=1000")["tags"]
    assert {
        row["tag"]: (int(row["max_id"]), row["step"], row["description"]) for row in listed
    } == tags
    for number, (tag, (max_id, _, _)) in enumerate(tags.items()):
        node = cluster.nodes[number % 3]
        if max_id == (1 << 63) - 1:
            answer = node.get(f"/api/segment/get/{tag_path(tag)}")
            assert (answer.status, answer.code) == (409, "exhausted")
        else:
            assert next_id(node, tag) == max_id


def test_the_example_of_the_documents(make_cluster, tmp_path):
    """docs/leaf.md shows what is printed."""
    with open(os.path.join(ROOT, "docs", "leaf.md"), encoding="utf-8") as file:
        shown = re.search(r"^\$ leafctl [^\n]* import leaf leaf_alloc.sql\n(.*?)^```", file.read(),
                          re.M | re.S)[1]
    rows = [("order", 14001, 2000, "orders"), ("leaf-segment-test", 1, 2000, None),
            ("com.example.invoice", 880001, 1000, None)]
    (tmp_path / "leaf_alloc.sql").write_text(dump(rows))
    path = str(tmp_path / "leaf_alloc.sql")
    done = run_import(make_cluster(1), tmp_path, path)
    assert (done.err + done.out).replace(path, "leaf_alloc.sql") == shown, done
