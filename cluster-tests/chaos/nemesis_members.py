"""Changes of the membership while the load goes on; see nemesis.py.

A node that is lost for good is removed, and a new one joins under a new id, with a disk, proxies
and clients of its own. The new one takes the place of the lost one in cluster.nodes, so that the
numbers of a schedule mean as many nodes as ever. Who was removed ends by itself with exit code 77,
and, started again, does so once more.
"""

import re
import time

from client import ProtocolError
from chaos.nemesis import TICK_S
from chaos.nemesis_disks import WORDS, DiskNemesis

EXIT_REMOVED = 77
CHANGE_S = 40.0
ASK_MS = 2000
WORDS[EXIT_REMOVED] = re.compile(r"level=error .*removed")
PARTING = r"level=error .*(removed|a peer refuses this node|cannot start the node)"


class MemberNemesis(DiskNemesis):
    """All of DiskNemesis, and what an operator does to the membership."""

    # --- leadership ---

    def begin_transfer(self, fault):
        node = self.cluster.nodes[fault["to"] - 1]
        if not node.alive:
            return None
        answer = self.ask("POST", f"/api/cluster/leader?timeout_ms={ASK_MS}", {"id": node.id})
        text = f"leadership to node {node.id}: {answer.status if answer else 'no answer'}"
        if answer is None or answer.status != 200:
            self.add(f"{text} {answer}")
        self.events.effect("transfer", True, node=node.id)
        return node, [node.id], text

    def end_transfer(self, _, node):
        self.events.effect("transfer", False, node=node.id)

    # --- asking ---

    def ask(self, method, target, body=None):
        """Ask any node until one answers with something else than 503; None: none did in time. One
        that is paused is not asked: its pause, which ends by this thread, would last as long."""
        deadline = time.monotonic() + CHANGE_S
        answer = None
        turn = self.serial
        paused = {node for fault, _, nodes in self.active.values() if fault["kind"] == "pause"
                  for node in nodes}
        while time.monotonic() < deadline:
            up = [node for node in self.cluster.nodes if node.alive and node.id not in paused]
            turn += 1
            try:
                answer = up[turn % len(up)].http(method, target, body)
                if answer.status != 503:
                    return answer
            except (OSError, ProtocolError, ZeroDivisionError):
                pass
            time.sleep(TICK_S)
        return answer

    def change(self, method, target, body=None):
        """Ask until the change is done. False, and a finding, if that is refused or takes long."""
        deadline = time.monotonic() + CHANGE_S
        answer = None
        while time.monotonic() < deadline:
            answer = self.ask(method, f"{target}?timeout_ms={ASK_MS}", body)
            if answer is not None and answer.status == 200:
                return True
            busy = answer is not None and answer.status == 409 and answer.code == "in_progress"
            if answer is not None and answer.status != 202 and not busy:
                break
        self.add(f"{method} {target}: {answer}")
        return False

    def voters(self, ids):
        self.events.effect("members", True, ids=sorted(ids))

    def ids(self):
        return {node.id for node in self.cluster.nodes}

    # --- one node more ---

    def let_join(self, place):
        """Start a node that joins; it stands at this place of cluster.nodes from now on."""
        node = self.run.newcomer()
        self.events.effect("down", True, node=node.id)
        self.cluster.nodes.insert(place, node)
        self.start(node)
        self.monitor.watch(node)
        return node

    def wait_voter(self, node):
        """Until it has joined; then it has clients, too."""
        address = self.links.addresses[node.id]
        done = self.change("POST", "/api/cluster/members", {"id": node.id, "peer_address": address})
        if done:
            self.voters(self.ids())
        self.run.load.start_node(node)
        self.run.load.set_nodes(self.cluster.nodes)
        return done

    # --- one node less ---

    def take_out(self, node, revive=False):
        """Remove a member. One that lives ends by itself."""
        for other in self.cluster.nodes:
            other.expect_log(PARTING)
        size = len(node.log())
        lives = node.alive
        if lives:
            self.events.effect("down", True, node=node.id)
            node.leaving()
        done = self.change("DELETE", f"/api/cluster/members/{node.id}")
        # Its log is still looked over at the end.
        self.cluster.nodes.remove(node)
        self.cluster.spares.append(node)
        self.monitor.forget(node)
        self.run.load.stop_node(node)
        self.run.load.set_nodes(self.cluster.nodes)
        if done:
            self.voters(self.ids())
        if lives and done:
            self.wait_removed(node, size)
        if revive and done and node.process is None:
            node.start()
            node.leaving()
            self.wait_removed(node, len(node.log()))
        return done

    def wait_removed(self, node, size):
        deadline = time.monotonic() + CHANGE_S
        while node.process.poll() is None and time.monotonic() < deadline:
            time.sleep(TICK_S)
        if node.process.poll() is None:
            self.add(f"{node} goes on after it was removed:\n{node.log_tail()}")
            node.kill9()
        else:
            self.must_say(node, node.wait_exit(), EXIT_REMOVED, size, "its removal")

    # --- faults ---

    def begin_grow(self, fault):
        self.events.effect("changing", True, lost=None)
        node = self.joining = self.let_join(len(self.cluster.nodes))
        return node, [node.id], "a node joins; later one goes"

    def end_grow(self, fault, new):
        self.start(new)  # if it was killed on its way
        self.wait_voter(new)
        self.joining = None
        leader = self.monitor.leader()
        node = new
        if fault["remove"] != "new":
            wanted = fault["remove"] == "leader"
            # Whom another fault has in its hands is not removed: it could not hear of it.
            free = [n for n in self.cluster.nodes if n.alive and n.id not in self.busy()]
            fitting = [n for n in free if (n.id == leader) == wanted]
            node = fitting[self.serial % len(fitting)] if fitting else new
        if node is not new:
            # The new one takes its place.
            self.cluster.nodes.remove(new)
            self.cluster.nodes.insert(self.cluster.nodes.index(node), new)
        self.take_out(node, fault["revive"])
        self.events.effect("changing", False)

    def begin_replace(self, fault):
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.kill9()
        return node, [node.id], "lost for good; a new one takes its place"

    def end_replace(self, _, node):
        self.replace(node)

    def replace(self, node):
        """Its data are lost: remove it, and let another join in its place."""
        place = self.cluster.nodes.index(node)
        self.events.effect("changing", True, lost=node.id)
        self.take_out(node)
        self.wait_voter(self.let_join(place))
        self.events.effect("changing", False)

    def take_over(self, fault, node):
        if fault["then"] == "rejoin" and "members" in self.run.plan.features:
            node.disk.move_away()
            self.replace(node)
        else:
            super().take_over(fault, node)
