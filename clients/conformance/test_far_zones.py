"""Three zones that are far from each other: real nodes, whose links take 50 ms in each direction.

Clients of all languages are in one of the zones at the same time (docs/clients.md, Zones).
"""

import re

import pytest

from cluster import Cluster
from driver import SLACK_S, check_once, chosen, urls, why_not
from proxy import Proxies
from wait import wait_until, within

DELAY_S = 0.05
CALLS = 40  # of each client
GONE_S = 2.0  # after its loss another zone is asked
BACK_S = 10.0  # after its return it is asked again


def handed_out(node):
    """Ids of all kinds, by this node, since it started."""
    text = node.get("/metrics").text
    return sum(int(number) for number in re.findall(r"^leafd_ids_total{.*} (\d+)$", text, re.M))


@pytest.mark.alone
@pytest.mark.bound(240)
def test_zones_far_apart(start_any, tmp_path):
    """No request of a healthy zone leaves it. Once it is gone, all do within 2 s, and they come
    back within 10 s of its return."""
    there = [name for name in chosen() if not why_not(name)]
    if not there:
        pytest.skip("there is no driver of any language")
    proxies = Proxies()
    cluster = Cluster(tmp_path, settings={"raft-election-ms": 1000})
    try:
        proxies.attach(cluster)
        for node, zone in zip(cluster.nodes, "abc"):
            node.settings["zone"] = zone
        cluster.start()
        cluster.wait_ready()
        cluster.create_tag("far")
        proxies.delay_s = DELAY_S
        own = cluster.followers()[0]  # the loss of a leader's zone takes an election, too
        others = cluster.others(own)
        for node in cluster.nodes:
            wait_until(lambda node=node: [(item["zone"], item["state"]) for item
                                          in node.get_json("/api/nodes")["nodes"]]
                       == [(zone, "ready") for zone in "abc"], 60, f"{node} knows all zones")
        clients = [start_any(name).open(endpoints=urls(cluster), zone=own.settings["zone"])
                   for name in there]
        ids = []

        def take(client, calls=1):
            for _ in range(calls):
                ids.append(client.ids("range far 1"))

        def only_own_is_asked():
            before, elsewhere = handed_out(own), [handed_out(node) for node in others]
            for client in clients:
                take(client, CALLS)
            assert [handed_out(node) for node in others] == elsewhere
            assert handed_out(own) == before + CALLS * len(clients)

        def all_are_home(away):
            for client in list(away):
                before = handed_out(own)
                take(client)
                if handed_out(own) > before:
                    away.discard(client)
            return not away

        away = set(clients)
        wait_until(lambda: all_are_home(away), 60, "each client knows its zone")
        only_own_is_asked()
        own.kill9()
        for client in clients:
            client.begin("range far 1")
        longest_s = {}
        for client in clients:
            ids.append(client.parse(client.judge(client.finish())))
            longest_s[client.language] = client.took_s - client.waited_s
        print(f"longest call as the zone was gone: {longest_s}")
        assert max(longest_s.values()) < GONE_S + SLACK_S, longest_s
        own.start()
        wait_until(lambda: own.get("/readyz").status == 200, 60, f"{own} is ready")
        away = set(clients)
        within(lambda: all_are_home(away), BACK_S + SLACK_S, "each client is back in its zone")
        only_own_is_asked()
        check_once(*ids)
    finally:
        cluster.end()
        proxies.close()
