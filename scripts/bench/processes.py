"""Processes of the benchmarks: how they are started, watched, timed and ended.

The happy path: Process(...).start(), wait_for(...), cpu_of(pid) before and after a load, stop(). A
process that was started is ended by its id at the end of the run, whatever ends the run; were bench
itself killed, the kernel would end them (setpriv --pdeathsig).

Start processes on the main thread: the kernel's promise is bound to the thread that started them.
"""

import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "cluster-tests"))

from wait import WaitTimeout, within  # noqa: E402

STOP_LIMIT_S = 20
LOG_LINES = 15
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The benchmark cannot be run, or found something wrong; the text says what."""


class Process:
    """One server: a command, a log, and maybe the cores it is bound to."""

    def __init__(self, name, command, directory, cores=None, stop_signal=signal.SIGTERM):
        self.name = name
        self.cores = cores
        self.command = ["setpriv", "--pdeathsig", "KILL", *pinned(cores), *command]
        self.log_path = os.path.join(directory, f"{name}.log")
        self.stop_signal = stop_signal
        self.child = None

    def start(self):
        with open(self.log_path, "ab") as log:
            # Ctrl-C reaches it only through bench, which ends it in its own order.
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log, start_new_session=True)
        return self

    @property
    def pid(self):
        return self.child.pid

    def check(self):
        """Raise if it has ended."""
        if self.child is None or self.child.poll() is not None:
            code = self.child.returncode if self.child else "nothing: it was not started"
            raise BenchError(f"{self.name} ended with {code}:\n{tail(self.log_path)}")

    def stop(self):
        if self.child is None:
            return
        if self.child.poll() is None:
            self.child.send_signal(self.stop_signal)
        try:
            self.child.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child = None


def pinned(cores):
    """The words before a command that bind it to these cores; none for no cores."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def tail(path, lines=LOG_LINES):
    """The last lines of a log."""
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return "\n".join(log.read().splitlines()[-lines:])
    except OSError as error:
        return str(error)


def wait_for(condition, limit_s, what, processes=()):
    """As within(), as long as these processes run."""
    def condition_of_living():
        for process in processes:
            process.check()
        return condition()

    try:
        return within(condition_of_living, limit_s, what)
    except WaitTimeout as error:
        raise BenchError(str(error)) from None


def read_stat(path):
    """(name, user seconds, system seconds) of a process or a thread so far."""
    with open(path, encoding="ascii", errors="replace") as stat:
        # The name in parentheses may have anything in it.
        head, _, tail_of_it = stat.read().rpartition(")")
    fields = tail_of_it.split()
    return (head.partition("(")[2], int(fields[11]) / TICKS_A_SECOND,
            int(fields[12]) / TICKS_A_SECOND)


def cpu_of(pid):
    """(user, system) seconds of a process so far, all of its threads, also those that ended."""
    return read_stat(f"/proc/{pid}/stat")[1:]


def cpu_of_threads(pids):
    """CPU seconds of the threads that live now, added up by their names; of each process the first
    one is called main, and a number at the end of a name is none of it."""
    seconds = {}
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                name, user_s, system_s = read_stat(f"/proc/{pid}/task/{task}/stat")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            name = "main" if int(task) == pid else name.rstrip("0123456789").rstrip("-")
            seconds[name] = seconds.get(name, 0.0) + user_s + system_s
    return seconds


def cpu_of_all(pids):
    """(user, system) seconds of several processes together."""
    pairs = [cpu_of(pid) for pid in pids]
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def cpu_of_machine():
    """(busy, all) seconds of all cores so far; stolen time counts as busy."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]  # and waiting for the disk
    return (sum(ticks) - idle) / TICKS_A_SECOND, sum(ticks) / TICKS_A_SECOND


def memory_of(pid, kind="VmRSS"):
    """Bytes of resident memory of a process; kind "RssAnon": without pages of files, which the
    system can take back."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(kind + ":"):
                return int(line.split()[1]) * 1024
    raise BenchError(f"no {kind} of process {pid}")


def run_timed(command, limit_s):
    """Run a command to its end; returns (exit code, stdout, stderr, (user, system) seconds)."""
    before = os.times()
    child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, errors = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise BenchError(f"'{' '.join(command)}' did not end in {limit_s} s") from None
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    after = os.times()
    cpu = after.children_user - before.children_user, after.children_system - before.children_system
    return child.returncode, out, errors, cpu


def file_system_of(path):
    """(device, type) of the file system that a path is on."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            left, _, right = line.partition(" - ")
            if left.split()[2] == number:
                return number, right.split()[0]
    return number, "unknown"


def check_same_file_system(directories):
    """All data must be on the same disk, or the slower one is compared with the faster. Returns the
    file system's type."""
    found = {name: file_system_of(path) for name, path in directories.items()}
    if len(set(found.values())) > 1:
        raise BenchError(f"data directories are on different file systems: {found}")
    kinds = [kind for _, kind in found.values()]
    return kinds[0] if kinds else "none"
