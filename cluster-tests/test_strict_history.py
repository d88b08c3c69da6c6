"""The recorder of histories and check-history: what is wrong is found, what is right passes."""

import os
import random
import re
import threading

import pytest

from strict_history import Recorder, check, run_checker

RIGHT = """\
tag\tt\tstrict\t1
tag\tseg ments/ä\ttrend
op\tt\tc1\t10\t20\t1\t5
op\tt\tc2\t12\t25\t6\t1\tkey
op\tt\tc3\t22\t-\t-\t3
op\tt\tc1\t30\t40\t10\t1
op\tt\tc2\t50\t60\t6\t1\tkey
op\tt\tc3\t40\t50\t11\t2
op\tseg ments/ä\tc1\t10\t20\t2000\t10
op\tseg ments/ä\tc1\t30\t40\t1\t10
"""


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_a_right_history_passes(tmp_path):
    verdict = check(write(tmp_path / "h", RIGHT))
    assert verdict == (8, 29, 1, 2, 0)


@pytest.mark.parametrize(
    "line,kind",
    [
        ("op\tt\tc9\t26\t60\t11\t1", "not_once"),
        ("op\tseg ments/ä\tc9\t26\t60\t2009\t3", "not_once"),
        ("op\tt\tc9\t12\t60\t13\t1\tkey", "other_ids"),
        ("op\tt\tc9\t41\t60\t7\t3", "not_strict"),
        ("op\tt\tc9\t1\t60\t0\t1", "below_start"),
        ("op\tt\tc9\t41\t60\t14\t1", "gap"),
    ],
)
# Shows lesson-bench.
def test_each_violation_is_found(tmp_path, line, kind):
    with pytest.raises(AssertionError, match=rf"(?s)ended with 1.*{kind}: tag .*\b1 {kind} \("):
        check(write(tmp_path / "h", f"{RIGHT}{line}\n"))


MONOTONIC = """\
tag\tt\tmonotonic\t1
op\tt\tc1\t10\t20\t1\t3
op\tt\tc2\t21\t30\t900\t2\tkey
op\tt\tc2\t40\t50\t900\t2\tkey
"""


def test_a_monotonic_tag_may_have_gaps(tmp_path):
    assert check(write(tmp_path / "h", MONOTONIC)) == (3, 5, 0, 1, 0)


@pytest.mark.parametrize(
    "line,kind",
    [
        ("op\tt\tc9\t31\t60\t800\t1", "not_strict"),
        ("op\tt\tc9\t31\t60\t800\t1\tother", "not_strict"),
        ("op\tt\tc9\t5\t60\t2\t1", "not_once"),
        ("op\tt\tc9\t60\t70\t902\t2\tkey", "other_ids"),
        ("op\tt\tc9\t1\t60\t0\t1", "below_start"),
    ],
)
def test_each_violation_of_a_monotonic_tag_is_found(tmp_path, line, kind):
    with pytest.raises(AssertionError, match=rf"(?s)ended with 1.*{kind}: tag .*\b1 {kind} \("):
        check(write(tmp_path / "h", f"{MONOTONIC}{line}\n"))


def test_nothing_is_said_of_concurrent_requests(tmp_path):
    # Sent when the reply with 10 was received, not after it: 7..9 may be late.
    check(write(tmp_path / "h", RIGHT + "op\tt\tc9\t40\t60\t7\t3\n"))


@pytest.mark.parametrize(
    "text,said",
    [
        (RIGHT + "op\tt\tc1\t10\t20\n", r"h:11: an operation has"),
        (RIGHT[:-1], r"h:10: the last line has no end"),
        (RIGHT + "op\tu\tc1\t10\t20\t1\t1\n", r'no tag line says what tag "u" is'),
        ("tag\tt\tstrict\n", r"there are no operations"),
        ("", r"there are no operations"),
    ],
)
def test_a_malformed_file_is_no_pass(tmp_path, text, said):
    with pytest.raises(AssertionError, match=rf"(?s)ended with 64.*{said}"):
        check(write(tmp_path / "h", text))


@pytest.mark.parametrize(
    "arguments",
    [["--violations"], ["--violations", "x"], ["--violations", "4294967296"], ["--steps", "-1"],
     ["--steps"], ["--unknown", "1"]],
)
def test_a_wrong_command_line_is_told(arguments):
    run = run_checker(*arguments)
    assert run.returncode == 64 and run.stderr.startswith("usage: check-history")


def test_a_file_that_is_not_there(tmp_path):
    run = run_checker(tmp_path / "none")
    assert run.returncode == 66 and "No such file" in run.stderr


def test_files_are_checked_together(tmp_path):
    lines = RIGHT.splitlines(keepends=True)
    for number, line in enumerate(lines):
        write(tmp_path / str(number), line)
    assert check(tmp_path).operations == 8
    write(tmp_path / "more", "op\tt\tc9\t41\t60\t7\t3\n")
    with pytest.raises(AssertionError, match="not_strict"):
        check(tmp_path)


def test_as_many_violations_are_told_as_wanted(tmp_path):
    wrong = RIGHT + "op\tt\tc9\t26\t60\t11\t1\n" * 30
    path = write(tmp_path / "h", wrong)
    for arguments, told in ([], 20), (["--violations", 3], 3), (["--violations", 0], 0):
        run = run_checker(*arguments, path)
        assert run.returncode == 1
        assert len(re.findall(r"^not_once: ", run.stdout, re.M)) == told
        assert re.search(r"30 violations: 30 not_once \(1 of unknown outcome", run.stdout)


UNDECIDED = """\
tag\tt\tstrict\t1
op\tt\tc1\t1\t-\t-\t3
op\tt\tc2\t2\t-\t-\t4
op\tt\tc3\t1\t30\t8\t1
"""


def test_a_gap_that_is_not_decided_is_no_plain_pass(tmp_path):
    path = write(tmp_path / "h", UNDECIDED)
    assert check(path) == (3, 1, 2, 1, 0)
    run = run_checker("--steps", 0, path)
    assert run.returncode == 2
    assert run.stdout.startswith('not_decided: tag "t": 7 ids, 1..7, are missing below 8 of ')
    assert run.stdout.endswith(
        "\ncheck-history: 3 operations, 1 ids, nothing found, 1 gaps not decided "
        "(2 of unknown outcome, 1 tags)\n"
    )
    assert check(path, steps=0) == (3, 1, 2, 1, 1)
    # What is found without a search is found, and counts for more.
    wrong = write(tmp_path / "w", "op\tt\tc9\t41\t60\t10\t1\n")
    run = run_checker("--steps", 0, "--violations", 0, path, wrong)
    assert run.returncode == 1
    assert re.search(r"1 violations: 1 gap, 1 gaps not decided \(2 of unknown", run.stdout)


# --- the recorder ---


class Counter:
    """A service that hands out ids one after the other. Loses what it is told to lose."""

    def __init__(self):
        self.lock = threading.Lock()
        self.next = 1
        self.keys = {}

    def take(self, count, key=None):
        with self.lock:
            first = self.keys.get(key, self.next)
            if first == self.next:
                self.next += count
            if key is not None:
                self.keys[key] = first
        return first


class Lost(OSError):
    """The reply was lost."""


def take(client, counter, count, key, lost):
    with client.operation("t", count, key) as operation:
        first = counter.take(count, key)
        if lost:
            raise Lost
        operation.answered([(first, first + count - 1)])


def run_clients(recorder, counter, requests):
    faults = []

    def run(number):
        prng = random.Random(number)
        client = recorder.client(f"c{number}")
        try:
            for _ in range(requests):
                key = f"{number}-{prng.random()}" if prng.random() < 0.2 else None
                count = prng.choice((1, 1, 10))
                for _ in range(2 if key else 1):  # with a key: once more, whatever happened
                    try:
                        take(client, counter, count, key, prng.random() < 0.02)
                    except Lost:
                        pass
        except Exception as error:  # told by the main thread
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def test_threads_record_what_happened(tmp_path):
    recorder = Recorder(tmp_path / "history")
    recorder.declare("t", "strict", start=1)
    run_clients(recorder, Counter(), 2000)
    answers = recorder.answers()
    verdict = recorder.check()
    assert verdict.operations == answers + verdict.unknown
    assert answers > 8 * 1900 and verdict.unknown > 0 and verdict.tags == 1


@pytest.mark.parametrize("mode", ["strict", "monotonic"])
def test_a_service_that_goes_back_is_found(tmp_path, mode):
    recorder = Recorder(tmp_path / "history")
    recorder.declare("t", mode, start=1)
    counter = Counter()
    run_clients(recorder, counter, 100)
    counter.next = 1
    take(recorder.client("late"), counter, 1, None, lost=False)
    with pytest.raises(AssertionError) as failure:
        recorder.check()
    for kind in "not_once", "not_strict":
        assert re.search(rf"^{kind}: .*client \"late\"", str(failure.value), re.M)


def test_an_operation_ends_in_one_of_three_ways(tmp_path):
    recorder = Recorder(tmp_path / "history")
    recorder.declare("t", "strict", start=1)
    recorder.declare("s", "trend")
    client = recorder.client("c")
    with client.operation("t", 2) as operation:
        operation.answered([(1, 2)])
    with client.operation("t", 5) as operation:
        operation.refused()
    with client.operation("t", 3):
        pass
    with client.operation("s", 4) as operation:
        operation.answered([(11, 11), (21, 23)])
    under_way = client.operation("t", 7)
    recorder.close()
    under_way.answered([(6, 12)])  # too late to count
    lines = sorted(
        line.split("\t")[1:3] + line.split("\t")[5:]
        for name in os.listdir(recorder.directory)
        for line in (tmp_path / "history" / name).read_text().splitlines()
        if line.startswith("op\t")
    )
    assert lines == [
        ["s", "c", "11", "1"], ["s", "c", "21", "3"],
        ["t", "c", "-", "3"], ["t", "c", "-", "7"], ["t", "c", "1", "2"],
    ]
    assert check(recorder.directory) == (5, 6, 2, 2, 0)
    with pytest.raises(AssertionError, match="after the end"):
        client.operation("t", 1)


def test_answers_that_cannot_be_are_refused(tmp_path):
    recorder = Recorder(tmp_path / "history")
    recorder.declare("t", "strict")
    client = recorder.client("c")
    for ranges in ([(1, 2)], [(1, 2), (4, 4)], [(1, 1), (2, 3)], []):
        with pytest.raises(AssertionError):
            with client.operation("t", 3) as operation:
                operation.answered(ranges)
    for name in ("", "a\tb", "a\n", "\x7f"):
        with pytest.raises(AssertionError):
            recorder.client(name)
        with pytest.raises(AssertionError):
            recorder.declare(name, "trend")
        with pytest.raises(AssertionError):
            client.operation("t", 1, key=name)
    with pytest.raises(AssertionError):
        client.operation("undeclared")


# --- many operations ---


@pytest.mark.bound(120)
def test_a_million_lines_are_read(tmp_path):
    lines = [f"op\tt\tc{i % 64}\t{2 * i}\t{2 * i + 99}\t{i + 1}\t1\n" for i in range(1_000_000)]
    path = write(tmp_path / "h", "tag\tt\tstrict\t1\n" + "".join(lines))
    with open(path, "rb") as file:
        run = run_checker("-", stdin=file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("check-history: 1000000 operations, ")
