"""Takes all ids that a tag has left."""


def drain(cluster, tag, history):
    """Take single ids from all nodes in turn until each says 409 exhausted."""
    tracks = {node: history.track("drain", node.id, tag) for node in cluster.nodes}
    left = list(cluster.nodes)
    while left:
        for node in list(left):
            answer = node.get(f"/api/segment/get/{tag}")
            if answer.status == 200:
                tracks[node].add(int(answer.body), int(answer.body), answer)
            else:
                assert (answer.status, answer.code) == (409, "exhausted"), answer
                left.remove(node)
