"""The RESP listener of nodes, and load on it by redis-py."""

import time

import redis

from load import LoadClient
from ports import take_port


def open_resp(cluster, **settings):
    """Before a start: each node has the listener, at node.resp_port."""
    for node in cluster.nodes:
        node.resp_port = take_port()
        node.settings.update({"resp-listen": f"127.0.0.1:{node.resp_port}", **settings})
    return cluster


def connect(node, **options):
    """redis-py as it is out of the box."""
    return redis.Redis(host="127.0.0.1", port=node.resp_port, **options)


class Answer:
    """The times of an answer, as the checker wants them."""

    def __init__(self, sent_ns):
        self.sent_ns = sent_ns
        self.received_ns = time.monotonic_ns()


class RespLoadClient(LoadClient):
    """The same by INCR and INCRBY: depth of them in a pipeline, count ids each."""

    lost = (redis.ConnectionError, redis.TimeoutError)

    def connect(self):
        return connect(self.node, socket_timeout=30)

    def take_some(self, connection):
        sent_ns = time.monotonic_ns()
        pipeline = connection.pipeline(transaction=False)
        for _ in range(self.depth):
            pipeline.incrby(self.load.tag, self.count)
        lasts = pipeline.execute()
        answer = Answer(sent_ns)
        for last in lasts:
            self.track.add(last - self.count + 1, last, answer)


def add_resp_clients(load, cluster, rate=4000.0):
    """One client a node: of single ids in pipelines, or of batches."""
    for number, node in enumerate(cluster.nodes):
        count, depth = [(1, 16), (100, 1), (1, 1)][number % 3]
        client = RespLoadClient(load, f"resp{number}", node, count, "plain", depth, rate, None)
        load.clients.append(client)
    return load
