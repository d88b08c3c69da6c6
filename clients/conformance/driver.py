"""A driver of a client library: one process that is told by lines what to do.

The happy path: Driver(language, directory).open(endpoints=...), then ask("segment orders 10"), or
begin() a long command and finish() it later; end() closes its input and expects exit code 0. An
answer that does not come in time, and a driver that dies, fail the test, with what the driver wrote
to its standard error. The process has a session of its own, so that pause() and kill() hold for
whatever the driver starts, too.

Every driver reads a command a line and answers each with a line; numbers are decimal. It ends
with 0.

  open KEY=VALUE ...          ok: the settings of docs/clients.md (endpoints=URL,URL); comes first
  segment TAG N               ids F-L F-L ...: N times next(), joined where consecutive
  range TAG N                 ids F-L of next_range(N), then " step I" if its increment is not 1
  strict TAG N [KEY]          ids F-L ... of one next(N), then " replayed" if so; each id alone
                              if the increment is not 1
  texts TAG N [KEY]           texts new T T ... or texts replayed T T ..., one call
  textid TAG TEXT             textid NUMBER of decode(TEXT)
  strict1 TAG N               ids ... of N calls
  snowflake N                 ids ... of N times next()
  threads T TAG N             ids ... of T threads, N times next() each; each thread's must
                              rise, else fault TEXT
  fork TAG N                  ids ...: N of a forked child, then N of the parent; or unsupported
  forksnow N                  the same for snowflake ids
  loop TAG SECONDS            loop COUNT MAX_NS P9999_NS ids ...: the longest call and the
                              99.99th percentile
  mix TAG STRICT_TAG SECONDS  mix ids ... ; ...: segment, strict, snowflake in turn, separated
                              by ;
  bench TAG N                 bench NS for one next(), after a warm-up
  benchthreads T TAG N        bench NS: wall time an id, T threads with a source each
  decode ID                   decode TIME_MS WORKER SEQUENCE
  at TIME_MS                  at ID: the smallest of the time
  stats                       stats KEY=VALUE ...: the counters
  statstext                   statstext TEXT: stats_text(), with | for each end of a line
  events                      events KIND COUNT ...: what the hook was given since the last such
                              command
  close_source KIND NAME      ok: that source is closed; later commands for it use it nevertheless.
                              KIND is segment, strict, texts, or snowflake, whose NAME is -
  close                       ok

Errors are "error CODE STATUS MESSAGE". deadline_ms= may be the last word of segment, strict,
strict1, texts, textid and snowflake.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
import unittest

from node import ROOT
from wait import ran_s

ANSWER_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0

# By the contract a deadline is kept within 100 ms. For a machine that does other things at the same
# time something is added, LEAFD_SLACK_S; and for how long the driver's threads, and this process,
# waited for a processor meanwhile, or the machine stood still, does not count: the library was not
# late then.
TOLERANCE_S = 0.1
SLACK_S = float(os.environ.get("LEAFD_SLACK_S", "0.7"))

# Settings of a client that waits for its only answer as long as a busy machine, or one that stands
# still, makes it: what it gives up, a server has granted nevertheless.
PATIENT = {"attempt_ms": 40000, "deadline_ms": 60000}

# What the driver of each library cannot do without, once it is built.
TOOLS = {
    "c": ["cc", "curl-config"],
    "cpp": ["c++", "curl-config"],
    "go": ["go"],
    "java": ["java"],
    "node": ["node"],
    "php": ["php"],
    "python": ["/usr/bin/python3"],
    "rust": ["cargo", "curl-config"],
}
LANGUAGES = sorted(TOOLS)
OVER_LIBLEAFD = {"c", "cpp", "rust"}  # which names itself to servers
FORKING = {"c", "cpp", "php", "python"}
SLOW_TO_START = {"java", "node", "python"}  # a start takes more of the processor than a test does
# Languages that read the clock by the C library, in front of which libfaketime stands.
CLOCK_CAN_BE_FAKED = {"c", "cpp", "java", "node", "php", "python", "rust"}
# Commands that a library answers with "unsupported", and why: a test of one is skipped with that
# reason, and no other command may be answered so. (For forks see FORKING.)
LACKS = {"php": {"threads": "php has no threads", "benchthreads": "php has no threads"}}
WITHOUT_THREADS = {"php"}  # all that it does goes on with its next call


def chosen():
    """The languages that are to be tested: LEAFD_CLIENTS=c,go, or all."""
    names = os.environ.get("LEAFD_CLIENTS")
    return names.split(",") if names else LANGUAGES


def driver_path(language):
    return os.path.join(ROOT, "clients", language, "driver")


def why_not(language):
    """Why the driver of a language cannot be run here; None: it can."""
    if not os.access(driver_path(language), os.X_OK):
        return f"there is no clients/{language}/driver"
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        return f"no {', '.join(missing)}: scripts/setup clients installs it"
    return None


class Failed(Exception):
    """The library answered with an error: code, status, message."""

    def __init__(self, code, status, message):
        super().__init__(f"{code} {status} {message}")
        self.code = code
        self.status = status
        self.message = message


class Ids(list):
    """[(first, last), ...] in the order they came."""

    replayed = False
    step = 1  # from one id of a range to the next

    def count(self):
        return sum(last - first + 1 for first, last in self)

    def each(self):
        return [number for first, last in self for number in range(first, last + 1)]


class Texts(list):
    """Texts in the order they came."""

    replayed = False


def parse_ids(text):
    """The Ids of "F-L F-L ...", which are joined where they follow each other."""
    found = Ids()
    for word in text.split(" ") if text else []:
        first, _, last = word.partition("-")
        assert first.isdigit() and last.isdigit(), f"no range: {word!r}"
        pair = (int(first), int(last))
        assert pair[0] <= pair[1] < 1 << 63, f"no range of ids: {word!r}"
        assert not found or found[-1][1] + 1 != pair[0], f"not joined: {found[-1]} {pair}"
        found.append(pair)
    return found


class Waits:
    """For how long each thread of a process has waited for a processor. Every command asks for it,
    and a process may have a hundred threads: their files stay open."""

    def __init__(self, pid):
        self.folder = f"/proc/{pid}/task"
        self.files = {}  # by the thread's number
        self.lock = threading.Lock()

    def read(self):
        """Seconds by the thread's number."""
        with self.lock:
            try:
                tasks = os.listdir(self.folder)
            except OSError:
                tasks = []  # the process has ended
            for task in self.files.keys() - tasks:
                self.forget(task)
            found = {task: self.read_one(task) for task in tasks}
        return {task: seconds for task, seconds in found.items() if seconds is not None}

    def read_one(self, task):
        try:
            if task not in self.files:
                self.files[task] = os.open(f"{self.folder}/{task}/schedstat", os.O_RDONLY)
            return int(os.pread(self.files[task], 100, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            self.forget(task)  # it has ended, or this system does not tell
            return None

    def forget(self, task):
        if task in self.files:
            os.close(self.files.pop(task))

    def close(self):
        with self.lock:
            for task in list(self.files):
                self.forget(task)


OWN_WAITS = Waits(os.getpid())


class Driver:
    def __init__(self, language, directory, prefix=(), env=None, path=None):
        self.language = language
        self.plain = not (prefix or env or path)
        self.errors_path = os.path.join(str(directory), f"driver-{language}-{id(self)}.stderr")
        self.errors_from = 0  # what is before, it wrote in tests that are over
        with open(self.errors_path, "ab") as errors:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *prefix, path or driver_path(language)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self.unread = b""
        self.sent_s = 0.0
        self.took_s = 0.0  # how long the last command took
        # For how long meanwhile there was no processor for it; 0 if it took no longer than a call
        # may that waits for nothing.
        self.waited_s = 0.0
        self.stood_before_s = 0.0
        self.waits = Waits(self.process.pid)
        self.waited_before = {}
        self.command = ""  # the last one
        self.asked = 0  # commands without an answer

    def __repr__(self):
        return f"the driver of {self.language}"

    # --- lines ---

    def begin(self, line):
        """Send a command, whose answer is read by finish()."""
        self.stood_before_s, self.waited_before = stood_s(), self.waited()
        self.command = line.split(" ", 1)[0]
        self.sent_s = time.monotonic()
        self.asked += 1
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"{self} is gone\n{self.errors()}") from None

    def finish(self, timeout=ANSWER_TIMEOUT_S):
        """The answer as it is."""
        until = time.monotonic() + timeout
        while b"\n" not in self.unread:
            left = until - time.monotonic()
            if left <= 0 or not self.has_output(left):
                raise AssertionError(f"{self} gave no answer in {timeout} s\n{self.errors()}")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                code = self.process.wait(5)
                raise AssertionError(f"{self} ended with {code}\n{self.errors()}")
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        self.asked -= 1
        self.took_s = time.monotonic() - self.sent_s
        self.waited_s = 0.0
        if self.took_s > TOLERANCE_S:
            self.waited_s = stood_s() - self.stood_before_s + sum(
                seconds - self.waited_before.get(task, 0)
                for task, seconds in self.waited().items())
        return line.decode()

    def has_output(self, seconds):
        """Within this time. (select() takes no descriptor above 1023.)"""
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def waited(self):
        """For how long each thread, and each of this process, has waited for a processor."""
        return {**self.waits.read(), **OWN_WAITS.read()}

    def answered(self):
        """Has the answer to the command that was begun arrived?"""
        return b"\n" in self.unread or self.has_output(0)

    def ask(self, line, timeout=ANSWER_TIMEOUT_S):
        """The answer of one command. Failed: it is an error."""
        self.begin(line)
        return self.judge(self.finish(timeout))

    def ask_any(self, line, timeout=ANSWER_TIMEOUT_S):
        """The answer of one command, also if it is an error."""
        self.begin(line)
        return self.finish(timeout)

    def judge(self, answer):
        if answer.startswith("error "):
            words = answer.split(" ", 3)
            assert len(words) == 4 and words[2].isdigit(), f"no error of the protocol: {answer!r}"
            raise Failed(words[1], int(words[2]), words[3])
        assert not answer.startswith("fault"), f"{self}: {answer}"
        if answer == "unsupported" and self.command in LACKS.get(self.language, {}):
            raise unittest.SkipTest(LACKS[self.language][self.command])
        assert answer != "unsupported" or self.command.startswith("fork"), f"{self}: {self.command}"
        return answer

    def refused(self, line, code, timeout=ANSWER_TIMEOUT_S):
        """The Failed of a command that is to fail with this code (or one of several)."""
        codes = (code,) if isinstance(code, str) else code
        try:
            answer = self.ask(line, timeout)
        except Failed as error:
            assert error.code in codes, f"{self}: {line!r}: {error}, where {codes} was expected"
            return error
        raise AssertionError(f"{self}: {line!r}: {answer[:200]!r}, where {codes} was expected")

    # --- commands ---

    def refused_in_time(self, line, endpoints):
        """(its numbers before, the Failed) of a call that finds no node, whose message names all of
        these. One that got no processor cannot ask all of them in its time: the next one may."""
        for _ in range(30):
            before = self.stats()
            failed = self.refused(line, "unreachable")
            missing = [endpoint for endpoint in endpoints if endpoint not in failed.message]
            if not missing or self.waited_s < 0.02:
                break
        assert not missing, f"{missing} are not in: {failed.message}"
        return before, failed

    def open(self, **settings):
        """As PATIENT, where these say nothing else; None: the library's own."""
        words = [f"{name}={value}" for name, value in {**PATIENT, **settings}.items()
                 if value is not None]
        answer = self.ask(" ".join(["open", *words]))
        assert answer == "ok", answer
        return self

    def ids(self, line, timeout=ANSWER_TIMEOUT_S):
        """The Ids of a command that answers with them."""
        return self.parse(self.ask(line, timeout))

    def parse(self, answer):
        assert answer == "ids" or answer.startswith("ids "), answer[:200]
        text, _, replayed = answer[4:].partition(" replayed")
        text, _, step = text.partition(" step ")
        found = parse_ids(text)
        found.replayed = " replayed" in answer and not replayed
        found.step = int(step or 1)
        return found

    def texts(self, line, timeout=ANSWER_TIMEOUT_S):
        """The Texts of a command that answers with them."""
        return self.parse_texts(self.ask(line, timeout))

    def parse_texts(self, answer):
        words = answer.split(" ")
        assert words[0] == "texts" and words[1] in ("new", "replayed"), answer[:200]
        found = Texts(words[2:])
        found.replayed = words[1] == "replayed"
        return found

    def stats(self):
        answer = self.ask("stats")
        assert answer.startswith("stats "), answer
        pairs = (word.partition("=") for word in answer.split(" ")[1:])
        return {name: int(value) for name, _, value in pairs}

    def gauges(self, name):
        """The values of leafd_client_{name} in stats_text(), by the tag or the name."""
        answer = self.ask("statstext")
        assert answer.startswith("statstext "), answer
        lines = answer[len("statstext ") :].split("|")
        found = re.compile(rf'leafd_client_{name}{{\w+="(.*)"}} (\d+(?:\.\d+)?)$')
        return {hit[1]: float(hit[2]) for hit in map(found.match, lines) if hit}

    def events(self):
        """How many events of each kind there were since the last time."""
        words = self.ask("events").split(" ")
        assert words[0] == "events" and len(words) % 2 == 1, words
        return {kind: int(count) for kind, count in zip(words[1::2], words[2::2])}

    # --- life and death ---

    def errors(self):
        with open(self.errors_path, encoding="utf-8", errors="replace") as errors:
            errors.seek(self.errors_from)
            return errors.read()[-4000:]

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def end(self):
        """The end of its input: it ends with 0."""
        self.process.stdin.close()
        try:
            code = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end with its input\n{self.errors()}") from None
        assert code == 0, f"{self} ended with {code}\n{self.errors()}"

    def rests(self):
        """At the end of a test: its client is closed, and it can open another one."""
        try:
            if self.asked > 0 or self.process.stdin.closed or self.ask_any("close", 1.0) != "ok":
                return False
            self.ask_any("events", 1.0)
        except AssertionError:
            return False
        self.errors_from = os.path.getsize(self.errors_path)
        return self.process.poll() is None

    def kill(self):
        """At the end of a test: gone, whatever its state."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.waits.close()
        self.process.stdout.close()
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass


def stood_s():
    """For how long the machine has stood still since the first such question."""
    return time.monotonic() - ran_s()


def in_time(client, deadline_ms):
    """The last command, of one call, has kept its deadline."""
    limit_s = deadline_ms / 1000 + TOLERANCE_S + SLACK_S
    assert client.took_s - client.waited_s < limit_s, (
        f"{client.took_s} s, {client.waited_s} of them without a processor")


def check_once(*sources):
    """No id is in two of the ranges of all these sources."""
    ranges = sorted(pair for source in sources for pair in source)
    for before, after in zip(ranges, ranges[1:]):
        assert before[1] < after[0], f"twice: {before} and {after}"


def check_rising(ids):
    """They rise, as those of a source do; of segments while it keeps to one node."""
    for before, after in zip(ids, ids[1:]):
        assert before[1] < after[0], f"{after} came after {before}"


def parse_loop(answer):
    found = re.fullmatch(r"loop (\d+) (\d+) (\d+) ids ?(.*)", answer)
    assert found, answer[:200]
    return int(found[1]), int(found[2]), int(found[3]), parse_ids(found[4])


def parse_mix(answer):
    """The ids of the three kinds: segment, strict, snowflake."""
    assert answer.startswith("mix ids"), answer[:200]
    parts = [parse_ids(part.strip()) for part in answer[len("mix ids") :].split(";")]
    assert len(parts) == 3, answer[:200]
    return parts


def urls(cluster, *nodes):
    """These nodes, or all, as a setting has them."""
    return ",".join(f"http://{node.http_address}" for node in nodes or cluster.nodes)
