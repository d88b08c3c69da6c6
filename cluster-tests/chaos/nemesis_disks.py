"""The faults of disks, data files and clocks; see nemesis.py."""

import os
import re
import shutil
import time

from chaos.disks import sync_tree
from chaos.nemesis import (
    EXIT_DATA, EXIT_DISK, EXIT_REFUSED, FAILS_WITHIN_S, REFUSES_WITHIN_S, SHUNNED, TICK_S, Nemesis,
    Repeat,
)  # fmt: skip
from chaos.schedule import MAY_BE_HARMLESS

# What the last words of a node must be, by its exit code: what happened, and where.
WORDS = {
    EXIT_DATA: re.compile(r"level=error .*dir=\S+ .*reason="),
    EXIT_DISK: re.compile(r"level=error .*the node cannot go on.*reason=\S.*exit_code=74"),
    EXIT_REFUSED: re.compile(
        r"level=error .*(the node cannot go on.*exit_code=76|cannot start the node.*reason=)"
    ),
}
LONG_MS = 300


class DiskNemesis(Nemesis):
    """All of Nemesis, and what disks, files and clocks can do."""

    # --- slow and failing disks ---

    def begin_slow_disk(self, fault):
        node = self.resolve(fault["node"])
        if node is None:
            return None
        heavy = fault["delay_ms"] >= LONG_MS
        if heavy:
            self.events.effect("disk", True, node=node.id)
        node.disk.rules(f"{fault['calls']} delay_ms={fault['delay_ms']}")
        words = "hangs" if fault["delay_ms"] >= 10_000 else f"{fault['delay_ms']} ms longer"
        return (node, heavy), [node.id], f"{fault['calls']}: {words}"

    def end_slow_disk(self, _, left):
        node, heavy = left
        node.disk.rules("")
        if heavy:
            self.events.effect("disk", False, node=node.id)

    def begin_failing_disk(self, fault):
        node = self.resolve(fault["node"])
        if node is None:
            return None
        struck = len(node.disk.struck())
        self.events.effect("disk", True, node=node.id)
        begin_ns = time.monotonic_ns()
        node.expect_log(WORDS[EXIT_DISK].pattern)
        size = len(node.log())
        node.disk.rules(fault["rule"])
        code = self.wait_end(node, FAILS_WITHIN_S, begin_ns)
        node.disk.rules("")
        if len(node.disk.struck()) == struck:
            self.add(f"{node} wrote nothing for {FAILS_WITHIN_S:.0f} s: {fault['rule']} was idle")
        elif code is None:
            self.add(f"{node} goes on after {node.disk.struck()[-1]}")
        else:
            self.must_say(node, code, EXIT_DISK, size, fault["rule"])
        return node, [node.id], fault["rule"]

    def end_failing_disk(self, _, node):
        self.start(node)
        self.events.effect("disk", False, node=node.id)

    def wait_end(self, node, seconds, begin_ns):
        """Until the node ends by itself: its exit code, or None if it does not. It may have gone
        at any time since it was struck."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if node.process.poll() is not None:
                self.events.effect("down", True, node=node.id, at=begin_ns)
                return node.wait_exit()
            time.sleep(TICK_S)
        return None

    def must_say(self, node, code, wanted, log_size, what):
        """The node ended with this exit code, and its last words tell why."""
        text = node.log()[log_size:]
        if code != wanted:
            self.add(f"{node} ended with {code}, not {wanted}, after {what}:\n{text[-2000:]}")
        elif not WORDS[wanted].search(text):
            words = text[-2000:]
            self.add(f"{node} ended with {code} after {what}, without a clear word:\n{words}")

    # --- full disks ---

    def begin_full_disk(self, fault):
        return self.fill(fault, 0, "not a byte is free")

    def begin_low_disk(self, fault):
        return self.fill(fault, fault["leave_mib"] << 20, f"{fault['leave_mib']} MiB are free")

    def fill(self, fault, leave_bytes, text):
        node = self.resolve(fault["node"])
        if node is None:
            return None
        self.events.effect("disk", True, node=node.id)
        if leave_bytes == 0:
            # It may end when it has to write (as a follower it must), or wait for room.
            self.may_end[node] = time.monotonic_ns()
            node.expect_log(WORDS[EXIT_DISK].pattern)
        size = len(node.log())
        node.disk.fill(leave_bytes)
        return (node, size), [node.id], text

    def end_full_disk(self, _, left):
        node, size = left
        self.look_for_deaths()
        node.disk.free()
        if not node.alive and not WORDS[EXIT_DISK].search(node.log()[size:]):
            self.add(f"{node} ended on a full disk without a clear word:\n{node.log_tail()}")
        self.start(node)
        self.events.effect("disk", False, node=node.id)

    end_low_disk = end_full_disk

    # --- power ---

    def begin_power_cut(self, fault):
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.expect_log(WORDS[EXIT_DISK].pattern)  # it may see the disk go, first
        node.disk.cut_power()
        node.kill9()
        return node, [node.id], "power cut: what was not synced is gone"

    def end_power_cut(self, _, node):
        node.disk.restore_power()
        self.start(node)

    # --- data files ---

    def begin_damage(self, fault):
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.kill9()
        node.disk.keep_copy()
        text = node.disk.damage(fault["how"], fault["seed"])
        # Where nothing is struck the node may start, and is compared in the end.
        self.must_refuse(node, EXIT_DATA, text, fault["how"] in MAY_BE_HARMLESS)
        return node, [node.id], text

    def end_damage(self, fault, node):
        if node.alive:
            shutil.rmtree(node.disk.copy_path())
            return
        self.take_over(fault, node)

    def take_over(self, fault, node):
        """The operator's way with lost data: a new node, or, without the routes of members, the
        copy of before."""
        node.disk.put_back()
        self.start(node)

    def must_refuse(self, node, wanted, what, may_serve):
        size = len(node.log())
        node.expect_log(WORDS[wanted].pattern)
        node.start()
        deadline = time.monotonic() + REFUSES_WITHIN_S
        while node.process.poll() is None:
            if time.monotonic() > deadline or (may_serve and self.is_back(node)):
                break
            time.sleep(TICK_S)
        if node.process.poll() is not None:
            self.must_say(node, node.wait_exit(), wanted, size, what)
        elif may_serve:
            self.events.effect("down", False, node=node.id)
        else:
            self.add(f"{node} goes on after {what}:\n{node.log()[size:][-2000:]}")
            node.kill9()

    def is_back(self, node):
        last = self.monitor.watchers[node.id].last
        return last["life"] == node.incarnation and last["ok"]

    def begin_wipe(self, fault):
        """An operator who starts a node on an empty disk under its old id."""
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.kill9()
        node.disk.keep_copy()
        shutil.rmtree(node.data_dir)
        self.tell_members(node)
        for other in self.cluster.nodes:
            other.expect_log(SHUNNED.pattern)
        self.must_refuse(node, EXIT_REFUSED, "its data directory was emptied", False)
        return node, [node.id], "started on an empty directory"

    def begin_old_copy(self, fault):
        """An operator who puts back a copy that is older than what the node has done since."""
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.kill9()
        older = node.data_dir + ".older"
        shutil.copytree(node.data_dir, older)
        self.start(node)
        deadline = time.monotonic() + REFUSES_WITHIN_S
        while not self.is_back(node) and time.monotonic() < deadline:
            self.pass_time(TICK_S)
        self.pass_time(fault["after"])
        if not self.down(node):
            return None
        node.kill9()
        node.disk.keep_copy()
        shutil.rmtree(node.data_dir)
        os.rename(older, node.data_dir)
        sync_tree(node.data_dir)
        for other in self.cluster.nodes:
            other.expect_log(SHUNNED.pattern)
        self.must_refuse(node, EXIT_REFUSED, "an older copy of its data was put back", False)
        return node, [node.id], "an older copy of its data was put back"

    def end_old_copy(self, fault, node):
        self.take_over(fault, node)

    def tell_members(self, node):
        """An operator gives it the addresses of today."""
        addresses = {n.id: self.links.addresses[n.id] for n in self.cluster.nodes}
        if node.members is not None:
            node.members = ",".join(f"{number}={text}" for number, text in addresses.items())
        else:
            node.settings["join"] = ",".join(t for n, t in addresses.items() if n != node.id)

    def end_wipe(self, fault, node):
        self.take_over(fault, node)

    # --- clocks ---

    def clocked(self, fault):
        if fault["node"] == "all":
            return self.cluster.nodes
        node = self.resolve(fault["node"])
        return [node] if node is not None else []

    def begin_clock(self, fault):
        # A clock can be set while its node is down, too.
        nodes = [self.cluster.nodes[fault["node"] - 1]] if isinstance(fault["node"], int) else (
            self.clocked(fault))
        for node in nodes:
            self.events.effect("clock", True, node=node.id)
            node.clock.set(fault["seconds"])
        return nodes, [node.id for node in nodes], f"clock set by {fault['seconds']:+} s"

    def end_clock(self, _, nodes):
        for node in nodes:
            node.clock.set(0)
            self.events.effect("clock", False, node=node.id)

    def begin_strobe(self, fault):
        nodes = self.clocked(fault)
        if not nodes:
            return None
        turn = [0]

        def strobe():
            turn[0] += 1
            nodes[0].clock.set(fault["seconds"] if turn[0] % 2 else -fault["seconds"])

        self.events.effect("clock", True, node=nodes[0].id)
        text = f"clock jumps by {2 * fault['seconds']:g} s to and fro"
        return (nodes[0], Repeat(strobe, 0.01)), [nodes[0].id], text

    def end_strobe(self, _, left):
        node, repeat = left
        repeat.stop()
        node.clock.set(0)
        self.events.effect("clock", False, node=node.id)
