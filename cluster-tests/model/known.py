"""Faults that are known, and not mended yet: whoever mends one deletes its row.

Each has the sequence that shows it, which is asserted to fail still, with its kind; and what a
random sequence leaves out meanwhile, so that it can look behind the fault.
"""

from model.reference import DATED, NO_MAX, SECRET


class Known:
    """kind: of the Violation. avoid(run, name, words): is the operation to be left out? A kind that
    nothing avoids ends the sequence, which then counts as a known fault."""

    def __init__(self, why, kind, replay, avoid=lambda run, name, words: False):
        self.why, self.kind, self.replay, self.avoid = why, kind, replay, avoid


def row_of(run, words):
    return run.tag(words["tag"])


def takes_more_than_left(run, name, words):
    if name != "ids":
        return False
    row = row_of(run, words)
    count = words.get("count", 1)
    return (row.alive and row.mode == "trend" and row.max != NO_MAX and count > 1 and
            (row.left_from is None or row.available() < count))


def asks_with_the_key_of_another(run, name, words):
    if name != "ids" or "key" not in words:
        return False
    entry = run.model.keys.get((words["tag"], words["key"]))
    return entry is not None and entry["owner"] != words.get("as_", "operator")


def lowers_a_deleted_tag(run, name, words):
    return name == "put" and words.get("what") == "low" and not row_of(run, words).alive


def copies_a_dated_tag(run, name, words):
    return name == "copy" and row_of(run, words).shape in DATED


def copies_a_tag_that_ends_soon(run, name, words):
    row = row_of(run, words) if name == "copy" else None
    return row is not None and row.max < 10**6 + max(row.given, default=0) + 10**5


def asks_a_dated_tag_behind_a_restore(run, name, words):
    row = row_of(run, words) if name in ("ids", "put") else None
    return row is not None and row.shape in DATED and row.restored and row.grew


def changes_the_key_behind_a_restore(run, name, words):
    row = row_of(run, words) if name == "put" and words.get("what") == "key" else None
    return row is not None and row.restored and row.grew


def makes_a_secret_tag_again(run, name, words):
    return name == "put" and row_of(run, words).shape in SECRET and (
        words["tag"] in run.model.lost)


def changes_much_beside_a_backup(run, name, words):
    return name == "churn" and run.world.slow_backups


def touches_the_worker_id_of_another(run, name, words):
    if name not in ("acquire", "renew", "release"):
        return False
    entry = run.model.workers.get(words["name"])
    return entry is not None and entry["owner"] != words.get("as_", "alice")


def acquires_where_lower_ones_are_free(run, name, words):
    if name != "acquire" or words["name"] in run.model.workers:
        return False
    return run.model.clock_moved or any(not entry["held"] or entry["fenced"]
                                        for entry in run.model.workers.values())


KNOWN = {
    "count-above-what-is-left": Known(
        "a request for more than is left below max is refused, and burns all that was left",
        "exhausted-too-soon-trend",
        """
{"nodes": 1, "tags": {"a/0": {"max": 30}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 40}]
["ids", {"tag": "a/0"}]
""", takes_more_than_left),
    "key-of-two-tokens": Known(
        "two tokens with the same Idempotency-Key get the same ids",
        "key-of-another",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict"}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "as_": "operator", "key": "k0"}]
["ids", {"tag": "a/0", "as_": "alice", "key": "k0"}]
""", asks_with_the_key_of_another),
    "max-id-of-a-deleted-tag": Known(
        "PUT with a max_id that is lower is refused for a living tag, and taken for a deleted one",
        "lowered-on-deleted",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict"}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 5}]
["delete", {"tag": "a/0"}]
["put", {"tag": "a/0", "what": "low"}]
""", lowers_a_deleted_tag),
    "dump-of-a-dated-tag": Known(
        "a page of the list with a dated tag cannot be posted to another cluster",
        "dump-refused-dated",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "D{year}{month}{day}-{id:6}"}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0"}]
["copy", {"tag": "a/0"}]
""", copies_a_dated_tag),
    "dump-of-a-tag-that-ends-soon": Known(
        "nor one with a tag that has fewer than a million ids left below its max",
        "dump-refused-needs_force",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "max": 30}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0"}]
["copy", {"tag": "a/0"}]
""", copies_a_tag_that_ends_soon),
    "date-and-restore": Known(
        "a period that began after the backup begins at 1 again, inside the raise",
        "again-dated-restored",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "D{year}{month}{day}-{id:6}"}}}
["put", {"tag": "a/0"}]
["backup", {}]
["ids", {"tag": "a/0", "count": 3}]
["restore", {"raise_": 1000}]
["ids", {"tag": "a/0"}]
""", asks_a_dated_tag_behind_a_restore),
    "key-and-restore": Known(
        "a key that is younger than the backup: its numbers come again, with the next change",
        "again-keyed-restored",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "K{key}-{secret:6}"}}}
["put", {"tag": "a/0"}]
["backup", {}]
["put", {"tag": "a/0", "what": "key"}]
["ids", {"tag": "a/0"}]
["restore", {}]
["put", {"tag": "a/0", "what": "key"}]
["ids", {"tag": "a/0"}]
""", changes_the_key_behind_a_restore),
    "secret-tag-younger-than-the-backup": Known(
        "made again with a max_id above all that was handed out it has another key, and the texts "
        "of the one before",
        "again-secret-remade",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "{secret:6}"}}}
["backup", {}]
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 10000}]
["restore", {}]
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 10000}]
""", makes_a_secret_tag_again),
    "room-and-backup": Known(
        "pages that a slow backup keeps count as room: the node ends",
        "node-ended-74",
        """
{"nodes": 1, "tags": {}, "map": "16MiB"}
["slow_backup", {}]
["churn", {"times": 100}]
""", changes_much_beside_a_backup),
    "worker-id-renewed-by-another": Known(
        "any token with the role workers renews the worker id of another",
        "worker-renewed-by-another",
        """
{"nodes": 1, "tags": {}}
["acquire", {"name": "w0", "as_": "alice"}]
["renew", {"name": "w0", "as_": "bob"}]
""", touches_the_worker_id_of_another),
    "worker-id-released-by-another": Known(
        "and releases it, so that its times can be granted again",
        "worker-released-by-another",
        """
{"nodes": 1, "tags": {}}
["acquire", {"name": "w0", "as_": "alice"}]
["release", {"name": "w0", "as_": "bob", "early": true}]
""", touches_the_worker_id_of_another),
    "worker-id-taken-by-another": Known(
        "and takes it by its name",
        "worker-taken-by-another",
        """
{"nodes": 1, "tags": {}}
["acquire", {"name": "w0", "as_": "alice"}]
["acquire", {"name": "w0", "as_": "bob"}]
""", touches_the_worker_id_of_another),
    "lowest-free-worker-id": Known(
        "a worker id that nobody ever had is granted before a lower one that is free",
        "not-the-lowest-worker-id",
        """
{"nodes": 1, "tags": {}}
["acquire", {"name": "w0"}]
["release", {"name": "w0"}]
["acquire", {"name": "w1"}]
""", acquires_where_lower_ones_are_free),
}
