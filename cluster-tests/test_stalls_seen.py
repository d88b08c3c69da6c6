"""The pulse and the clock by which tests with tight bounds see that the machine stood still."""

import os
import signal
import subprocess
import sys
import threading
import time

import stalls
from wait import ran_s, wait_until

CHILD = """
import time
from wait import ran_s
began, ran = time.monotonic(), ran_s()
print("begun", flush=True)
input()
print(ran_s() - ran, time.monotonic() - began)
"""


def test_a_clock_that_stands_still_with_its_process():
    child = subprocess.Popen([sys.executable, "-c", CHILD], cwd=os.path.dirname(__file__),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGSTOP)
    stopped = ran_s()
    wait_until(lambda: ran_s() > stopped + 1, 30, "a second in which this process runs")
    child.send_signal(signal.SIGCONT)
    ran, passed = map(float, child.communicate("\n", timeout=30)[0].split())
    assert passed >= 1 and ran < passed - 0.8



def test_a_flush_that_takes_long_is_seen_while_and_after_it_does(tmp_path, monkeypatch):
    flush, held, freed = os.fdatasync, threading.Event(), threading.Event()

    def held_up(file):
        flush(file)
        if held.is_set():
            freed.wait(10)

    monkeypatch.setattr(os, "fdatasync", held_up)
    with stalls.Pulse(tmp_path) as pulse:
        wait_until(lambda: len(pulse.beats) >= 3, 5, "beats")
        held.set()
        begin = pulse.began
        wait_until(lambda: pulse.stood_s(begin, time.monotonic()) > 0.4, 5, "the stall that lasts")
        held.clear()
        freed.set()
        beats = len(pulse.beats)
        wait_until(lambda: len(pulse.beats) > beats + 1, 5, "beats again")
    ended = pulse.beats[-1][1]
    assert pulse.stood_s(begin, ended) > 0.4
    # What lies before is not seen in what came later, and nothing in no time.
    assert pulse.stood_s(ended, ended) == 0.0
    assert pulse.beats[-1][1] - pulse.beats[-1][0] == pulse.stood_s(pulse.beats[-1][0], ended)
