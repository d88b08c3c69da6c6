"""scenario.py - what is done to the cluster of docker-compose.yml, and what must hold.

The happy path: three nodes come up, clients take segment ids and snowflake ids from all of them
through the published ports all the time; containers are killed, crash, are cut off and paused; all
are stopped, started, taken down and made anew with their volumes. At the end no id of the whole run
was handed out twice. Then five nodes of which two are killed.

After each fault every node must be back within RECOVERY_S: it knows a leader, has applied what was
committed when the fault was over, and its clients are given ids again. Clients of the other nodes
may see no error at all, at any time. Clients of the node that is disturbed may be refused with 503.
"""

import re
import time

from checker import History
from client import tag_path
from containers import ContainerCluster
from load import Load, LoadClient, wait_all_serve, wait_taken
from monitoring import check_metrics
from snowflakes import SPACE, SnowLoad, target
import wait
from wait import wait_until

wait.LEAST_S = 0.0  # the machine is this test's: bounds are leafd's promises
METRICS_LIMIT_S = 30
TAG = "compose/test"
RECOVERY_S = 10  # from the end of a fault
START_S = 30  # of a container, until it is healthy
ELECTION_S = 10
STOP_GRACE_S = 20  # as in docker-compose.yml
LONE_STOP_MS = 6000  # of a node whose peers cannot even be looked up any more
CUT_S = 6  # long enough for an election, a link that is given up, and lookups that fail
USER = "10001"
SNOW_REFUSALS = {"no_worker_id", "no_leader", "clock_backwards", "window_expired", "timeout"}


class ToleratedClient(LoadClient):
    """A client that takes a refusal while its node is disturbed, and asks again."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.refused = 0

    def take_answer(self, response):
        if response.status == 503 and self.node.disturbed:
            self.refused += 1
            self.load.stopping.wait(0.05)
            return
        super().take_answer(response)


class ToleratedLoad(Load):
    client_class = ToleratedClient


class Scenario:
    """A cluster with its clients; the faults are methods."""

    def __init__(self, report, project, commit, files):
        self.report = report
        self.project = project
        self.commit = commit
        self.files = files
        self.cluster = ContainerCluster(project)
        self.history = History()
        self.load = ToleratedLoad(self.history, TAG)
        self.snow = SnowLoad(self.history)

    def check(self, what):
        return self.report.check(f"{self.project.nodes} nodes: {what}")

    # --- clients ---

    def start_clients(self):
        for node in self.cluster.nodes:
            self.load.add(node, 1, "plain", 4, rate=400.0)
            self.load.add(node, 100, "range", 1, rate=2000.0)
            self.snow.add(node, 1, "plain", 4, rate=200.0)
        for load in (self.load, self.snow):
            for client in load.clients:
                client.start()
        wait_all_serve(self.load)
        wait_all_serve(self.snow)

    def check_clients(self):
        self.load.check_running()
        self.snow.check_running()

    def all_serve(self):
        wait_all_serve(self.load, RECOVERY_S)
        wait_all_serve(self.snow, RECOVERY_S)

    def disturb(self, *nodes):
        for node in nodes:
            node.disturbed = True
            self.snow.may_refuse[node.id] = SNOW_REFUSALS

    def calm(self, *nodes):
        for node in nodes:
            node.disturbed = False
            self.snow.may_refuse[node.id] = set()

    def recovered(self, *nodes):
        """The fault is over now: wait until these nodes are as they were."""
        begin = time.monotonic()
        goal = max(node.cluster_status()["commit_index"]
                   for node in self.cluster.running() if node not in nodes)

        def back(node):
            status = node.cluster_status()
            return status["leader_id"] is not None and status["applied_index"] >= goal

        for node in nodes:
            node.wait_ready(RECOVERY_S)
            wait_until(lambda n=node: back(n), RECOVERY_S, f"{node} caught up to {goal}")
        self.all_serve()
        took_s = time.monotonic() - begin
        assert took_s <= RECOVERY_S, f"back only after {took_s:.1f} s"
        self.report.note(f"back {took_s:.1f} s after the end of the fault")
        self.calm(*nodes)
        self.check_clients()

    def new_leader(self, *gone):
        """A leader among the others."""
        others = [node for node in self.cluster.running() if node not in gone]
        begin = time.monotonic()
        leader = self.cluster.wait_leader(ELECTION_S, among=others)
        self.report.note(f"{leader} leads after {time.monotonic() - begin:.1f} s")
        return leader

    # --- coming up ---

    def come_up(self):
        begin = time.monotonic()
        self.project.up()
        self.report.note(f"'up' took {time.monotonic() - begin:.1f} s")
        self.cluster.started()
        self.report.note(f"all ready after {time.monotonic() - begin:.1f} s")
        for node in self.cluster.nodes:
            node.wait_healthy(START_S)
        assert len(self.cluster.leader().cluster_status()["members"]) == self.project.nodes

    def check_version(self):
        for node in self.cluster.nodes:
            assert node.get_json("/version")["commit"] == self.commit

    def check_confinement(self):
        """Each node is confined as docker-compose.yml says; seen from inside."""
        for node in self.cluster.nodes:
            seen = node.shell("for f in /x /tmp/x /etc/x; do "
                              "if touch $f 2>/dev/null; then echo $f; fi; done; id -u; "
                              "grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status; "
                              "stat -c %a:%u /run/leafd/secret /var/lib/leafd").split()
            assert seen == [USER, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1",
                            f"600:{USER}", f"700:{USER}"], seen
            assert node.inspect(".HostConfig.Memory") > 0
            bound = node.inspect(".NetworkSettings.Ports")
            assert bound["8080/tcp"][0]["HostIp"] == "127.0.0.1" and not bound["7081/tcp"], bound
            assert "secret=yes" in node.log()
            assert not any(word.startswith("LEAFD_CLUSTER_SECRET=")
                           for word in node.inspect(".Config.Env"))

    def check_metrics(self):
        """The busiest tags have rates once they were in use for some seconds."""
        def count():
            return check_metrics(self.files, "".join(node.get("/metrics").text
                                                     for node in self.cluster.nodes))

        self.report.note(f"{wait_until(count, METRICS_LIMIT_S, 'all metrics')} metrics")

    # --- faults ---

    def kill_leader(self):
        leader = self.cluster.leader()
        leader.leaving()
        self.disturb(leader)
        leader.docker("kill")
        self.new_leader(leader)
        wait_taken(self.load, 2_000)
        self.check_clients()
        assert leader.state()["ExitCode"] == 137
        leader.docker("start")
        leader.started()
        self.recovered(leader)

    def crash(self):
        """The process dies by itself, as by a failed assertion; its restart policy starts it."""
        leader = self.cluster.leader()
        before = leader.inspect(".RestartCount")
        leader.leaving()
        self.disturb(leader)
        leader.shell("for p in /proc/[0-9]*; do if [ \"$(<$p/comm)\" = leafd ]; then "
                     "kill -KILL ${p#/proc/}; fi; done")
        wait_until(lambda: leader.inspect(".RestartCount") > before, START_S, "its restart")
        leader.started()
        self.recovered(leader)

    def disconnect_leader(self):
        """Cut off from the other nodes, and not from its clients; it comes back with another
        address, since something else has taken the one it had."""
        leader = self.cluster.leader()
        network, address = leader.peers_network()
        self.disturb(leader)
        leader.docker("network", "disconnect", network)
        self.new_leader(leader)
        taken = sum(client.track.count for client in self.snow.clients if client.node is leader)
        wait_until(leader.sees_no_leader, ELECTION_S, f"{leader} knows of no leader")
        assert leader.serves()
        self.hold(CUT_S)
        # Snowflake ids need nobody else, for as long as the node's window of time goes on.
        assert taken < sum(client.track.count for client in self.snow.clients
                           if client.node is leader)
        decoy = self.project.decoy(network)
        try:
            alias = leader.service.replace("leafd", "peer")
            leader.docker("network", "connect", "--alias", alias, network)
            _, new_address = leader.peers_network()
            assert new_address and new_address != address, f"{new_address}, before {address}"
            self.report.note(f"address {address}, then {new_address}")
            self.recovered(leader)
        finally:
            self.project.engine.docker("rm", "-f", decoy)

    def pause_leader(self):
        leader = self.cluster.leader()
        self.disturb(leader)
        leader.docker("pause")
        self.new_leader(leader)
        self.hold(CUT_S)
        leader.docker("unpause")
        self.recovered(leader)

    def kill_two(self):
        """Two of five, the leader among them: three go on."""
        leader = self.cluster.leader()
        gone = [leader, self.cluster.others(leader)[0]]
        for node in gone:
            node.leaving()
        self.disturb(*gone)
        for node in gone:
            node.docker("kill")
        self.new_leader(*gone)
        wait_taken(self.load, 2_000)
        self.check_clients()
        for node in gone:
            node.docker("start")
            node.started()
        self.recovered(*gone)

    def hold(self, seconds):
        """Let the fault last, with a look at the clients now and then."""
        end = time.monotonic() + seconds

        def over():
            self.check_clients()
            return time.monotonic() >= end

        wait_until(over, seconds + RECOVERY_S, "the end of the fault's time")

    # --- the end ---

    def finish_clients(self):
        """All ids of the run, so far: none twice."""
        for load in (self.load, self.snow):
            load.finish()
        total = self.history.total()
        assert self.history.total(TAG) > 0 and self.history.total(SPACE) > 0
        slowest = max(client.longest_s for client in self.load.clients + self.snow.clients)
        refused = sum(client.refused for client in self.load.clients)
        self.report.note(f"{total} ids, slowest answer {slowest:.1f} s, {refused} refused on nodes "
                         "while they were disturbed")

    def stop_all(self):
        """Clean, and nobody had to be killed."""
        self.cluster.wait_applied()
        for node in self.cluster.nodes:
            node.leaving()
        begin = time.monotonic()
        self.project.stop(STOP_GRACE_S + 30)
        took_s = time.monotonic() - begin
        assert took_s < STOP_GRACE_S, f"{took_s:.1f} s"
        for node in self.cluster.nodes:
            self.check_stopped(node)

    def check_stopped(self, node):
        """A clean end; how long the node says that it took."""
        state = node.state()
        assert state["Status"] == "exited" and state["ExitCode"] == 0, f"{node}: {state}"
        assert not state["OOMKilled"], f"{node} ran out of memory"
        last = node.log().splitlines()[-1]
        stopped = re.search(r'msg="stopped" took_ms=(\d+)', last)
        assert stopped, f"{node}: {last}"
        return int(stopped.group(1))

    def stop_last(self):
        """One after the other; the last has nobody left, not even a name."""
        last = self.cluster.nodes[-1]
        for node in self.cluster.others(last):
            node.leaving()
            node.docker("stop")
            self.check_stopped(node)
        wait_until(last.sees_no_leader, ELECTION_S, f"{last} knows of no leader")
        # A lookup is under way most of the time now; the stop falls into one.
        last.wait_log("no link to peer.*(temporary failure|timed out|unknown)", START_S)
        last.leaving()
        last.docker("stop", "-t", str(STOP_GRACE_S))
        took_ms = self.check_stopped(last)
        self.report.note(f"the last one stopped in {took_ms / 1000:.1f} s")
        assert took_ms < LONE_STOP_MS, f"{took_ms} ms"

    def go_on(self):
        """Every node hands out ids above all that were handed out before."""
        highest = self.history.highest(TAG)
        assert highest > 0
        for node in self.cluster.nodes:
            answer = node.get(f"/api/segment/get/{tag_path(TAG)}?timeout_ms=10000")
            assert answer.status == 200 and int(answer.body) > highest, answer
            self.keep(node, TAG, int(answer.body))
            self.keep(node, SPACE, wait_until(lambda n=node: self.snowflake(n), RECOVERY_S,
                                              "a snowflake id"))
        self.history.check()

    def keep(self, node, tag, number):
        """One id that was asked for outside of the load."""
        track = self.history.track(f"single-{len(self.history.tracks)}", node.id, tag)
        track.add(number, number)

    def snowflake(self, node):
        answer = node.get(target(timeout_ms=500))
        return int(answer.body) if answer.status == 200 else None

    def down_and_up(self):
        self.check_logs()
        self.project.down()
        assert list(self.project.left()) == ["volumes"], self.project.left()
        for node in self.cluster.nodes:
            node.log_checked = 0
        self.come_up()
        self.go_on()

    def check_logs(self):
        found = self.cluster.bad_log_lines()
        assert not found, "\n".join(found)

    # --- the whole ---

    def three(self):
        with self.check("come up and are healthy"):
            self.come_up()
        with self.check("show the commit that they were built from"):
            self.check_version()
        with self.check("run as nobody special, on a root file system that cannot be written"):
            self.check_confinement()
        with self.check("hand out ids through the published ports"):
            self.cluster.create_tag(TAG)
            self.start_clients()
        with self.check("have every metric that the rules and the dashboard use"):
            self.check_metrics()
        with self.check("the leader's container is killed, and started again"):
            self.kill_leader()
        with self.check("the leader crashes, and its restart policy starts it"):
            self.crash()
        with self.check("the leader is cut off from the others, and connected again"):
            self.disconnect_leader()
        with self.check("the leader is paused, and goes on"):
            self.pause_leader()
        with self.check("handed out no id twice, and clients of other nodes saw no error"):
            self.finish_clients()
        with self.check("are stopped, cleanly and in time"):
            self.stop_all()
        with self.check("are started again, and ids go on above"):
            self.come_up()
            self.go_on()
        with self.check("are taken down and made anew, and go on with their volumes"):
            self.down_and_up()
        with self.check("are stopped one after the other"):
            self.stop_last()
        with self.check("logged no error"):
            self.check_logs()

    def five(self):
        with self.check("come up and are healthy"):
            self.come_up()
        with self.check("hand out ids through the published ports"):
            self.cluster.create_tag(TAG)
            self.start_clients()
        with self.check("two are killed, the leader among them, and started again"):
            self.kill_two()
        with self.check("handed out no id twice, and clients of other nodes saw no error"):
            self.finish_clients()
        with self.check("are stopped, cleanly and in time"):
            self.stop_all()
        with self.check("logged no error"):
            self.check_logs()
