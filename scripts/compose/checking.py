"""checking.py - what the tests in containers say: checks one by one, progress, the sum.

The happy path: `with report.check("what must hold"):` prints a line when it holds, with the seconds
it took; note() adds a figure to it. run() runs a command with a bound on its time, keeps all it
said in the log, and tells now and then how far a long one is.

Failure modes: a check that fails is printed and counted, and Abort ends the part of the test that
stands on it. A command that fails raises CommandError with the end of what it said.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
import traceback

PROGRESS_S = 15
SHOWN_LINES = 30
TERM_S = 10


class Abort(Exception):
    """A check has failed, and what follows makes no sense without it."""


class Skip(Exception):
    """The test cannot be run here; the text says why."""


class CommandError(Exception):
    """A command failed or took too long; the text has the end of its output."""


class TimeOver(BaseException):
    """The bound on the whole run. No Exception, so that no check takes it for an answer."""


class Report:
    def __init__(self, directory, name="compose"):
        self.name = name
        self.log_path = os.path.join(directory, "log")
        self.log = open(self.log_path, "w", encoding="utf-8")
        self.began = time.monotonic()
        self.passed = 0
        self.failed = 0
        self.notes = []

    def say(self, text):
        line = f"{self.name}: [{time.monotonic() - self.began:4.0f} s] {text}"
        print(line, flush=True)
        self.keep(line)

    def keep(self, text):
        self.log.write(text.rstrip("\n") + "\n")
        self.log.flush()

    def note(self, text):
        """A figure for the line of the check under way."""
        self.notes.append(text)

    @contextlib.contextmanager
    def check(self, what):
        begin = time.monotonic()
        self.notes = []
        try:
            yield
        except Skip:
            raise
        except BaseException as error:
            self.failed += 1
            self.keep(traceback.format_exc())
            self.say(f"FAILED  {what}: {str(error) or repr(error)}")
            if isinstance(error, Exception):
                raise Abort(what) from error
            raise
        self.passed += 1
        notes = "".join(f"; {note}" for note in self.notes)
        self.say(f"ok      {what} ({time.monotonic() - begin:.1f} s{notes})")

    def sum_up(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0

    def run(self, command, limit_s, what=None, merge=False, quiet=False, **options):
        """Run a command that must succeed; its standard output. what: tell of progress by it;
        merge: with its standard error; quiet: without the log; options: those of Popen."""
        self.keep(f"$ {' '.join(command)}")
        options = {"stdin": subprocess.DEVNULL, **options}
        child = subprocess.Popen(command, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT if merge else subprocess.PIPE,
                                 text=True, errors="replace", start_new_session=True, **options)
        lines = {stream: [] for stream in (child.stdout, child.stderr) if stream}
        readers = [threading.Thread(target=self.read, args=(stream, lines[stream], quiet),
                                    daemon=True) for stream in lines]
        for reader in readers:
            reader.start()
        try:
            code = self.wait(child, limit_s, lines[child.stdout], what)
        finally:
            end_group(child)
        for reader in readers:
            reader.join(TERM_S)
        output = "".join(lines[child.stdout])
        if code != 0:
            shown = (output + "".join(lines.get(child.stderr, []))).splitlines()[-SHOWN_LINES:]
            how = f"did not end in {limit_s} s" if code is None else f"ended with {code}"
            raise CommandError(f"'{' '.join(command)}' {how}:\n" + "\n".join(shown))
        return output

    def read(self, stream, into, quiet):
        for line in stream:
            into.append(line)
            if not quiet:
                self.keep(line)

    def wait(self, child, limit_s, lines, what):
        """The exit code, or None when the time is over."""
        begin = time.monotonic()
        while True:
            left = limit_s - (time.monotonic() - begin)
            try:
                return child.wait(max(0, min(left, PROGRESS_S)))
            except subprocess.TimeoutExpired:
                if left <= PROGRESS_S:
                    return None
            if what:
                last = (lines[-1:] or [""])[0].strip()[:80]
                self.say(f"...     {what}: {time.monotonic() - begin:.0f} s, {last}")


def end_group(child):
    """End a command that has not ended by itself, with all that it has started."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(TERM_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
