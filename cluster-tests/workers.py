"""Worker ids over HTTP, as the holders of them ask for one, renew and release it."""

GRANT = {"worker_id", "epoch", "from_ms", "until_ms", "layout"}


def acquire(node, name, window_ms=60_000, **more):
    return node.http(
        "POST",
        "/api/workers",
        {"name": name, "address": "10.0.0.7:9", "window_ms": window_ms, **more},
    )


def acquired(node, name, window_ms=60_000, **more):
    answer = acquire(node, name, window_ms, **more)
    assert answer.status == 201, f"{node} {name}: {answer}"
    grant = answer.json()
    assert set(grant) | {"layout"} == GRANT, grant  # leafds of level 2 do not tell the layout
    assert grant["from_ms"] < grant["until_ms"], grant
    return grant


def renew(node, grant, **more):
    body = {"epoch": grant["epoch"], "window_ms": 60_000, **more}
    return node.http("PUT", f"/api/workers/{grant['worker_id']}", body)


def release(node, grant, **more):
    return node.http(
        "DELETE", f"/api/workers/{grant['worker_id']}", {"epoch": grant["epoch"], **more}
    )
