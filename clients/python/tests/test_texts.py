"""Ids as texts, and back: of shaped tags and of others."""
import asyncio

import fake
import leafd
import leafd.aio
import pytest


@pytest.fixture
def shaped(three):
    three.shapes = {"invoice": "INV-", "order": "A"}
    return three


def failure(call, *arguments, **options):
    with pytest.raises(leafd.LeafdError) as caught:
        call(*arguments, **options)
    return caught.value


def keys(cluster):
    return [request.headers.get("idempotency-key") for _, request in cluster.log]


def test_texts_of_a_strict_tag_have_keys(shaped, open_client):
    client = open_client(shaped)
    source = client.texts("invoice")
    assert source.next() == "INV-1"
    assert source.next_many(3) == ["INV-2", "INV-3", "INV-4"]
    assert source.request(2, "mine") == (["INV-5", "INV-6"], False)
    assert source.request(2, "mine") == (["INV-5", "INV-6"], True)
    assert len(shaped.log) == 4 and all(keys(shaped))
    stats = client.stats()
    assert (stats["ids_strict"], stats["waits"], stats["errors"]) == (8, 4, 0)


def test_a_tag_of_mode_trend_takes_none_which_is_found_out_once(shaped, open_client):
    client = open_client(shaped)
    source = client.texts("order")
    assert [source.next(), source.next()] == ["A1", "A2"]
    assert [bool(key) for key in keys(shaped)] == [True, False, False]
    assert client.texts("other").next_many(2) == ["1", "2"]
    stats = client.stats()
    assert (stats["errors"], stats["waits"], stats["retries"]) == (0, 3, 0)
    error = failure(source.request, 1, "mine")
    assert (error.code, error.key) == ("bad_key", "mine"), "a key that was given is not dropped"


def test_an_answer_that_was_lost_is_repeated_by_its_key(shaped, open_client):
    client = open_client(shaped)
    shaped.fault_all(fake.loses)
    assert client.texts("invoice").request(2) == (["INV-1", "INV-2"], True)
    assert len(set(keys(shaped))) == 1
    for node in shaped.nodes:
        node.always = fake.loses
    error = failure(client.texts("invoice").next, deadline_ms=700)
    assert error.code == "unreachable"
    for node in shaped.nodes:
        node.always = None
    assert client.texts("invoice").request(1, error.key) == (["INV-3"], True)


def test_decode(shaped, open_client):
    client = open_client(shaped)
    source = client.texts("invoice")
    assert source.decode("INV-42") == 42
    assert failure(source.decode, "INV-4+2%").code == "bad_id"
    assert shaped.log[-1][1].options["text"] == "INV-4+2%"
    error = failure(client.texts("other").decode, "7")
    assert (error.code, error.status) == ("no_shape", 409)
    for text in ("", "a b", "é", "x" * 131, 7):
        assert failure(source.decode, text).code == "bad_setting"
    assert len(shaped.log) == 3


def test_bounds(cluster, open_client):
    client = open_client(cluster)
    source = client.texts("other")
    assert len(source.next_many(1000)) == 1000
    asked = len(cluster.log)
    for count in (0, 1001, True, "1"):
        assert failure(source.next_many, count).code == "bad_setting"
    assert failure(source.next, " a").code == failure(client.texts, "").code == "bad_setting"
    assert len(cluster.log) == asked
    client.close()
    assert failure(source.next).code == failure(source.decode, "7").code == "closed"


def test_the_same_with_asyncio(shaped):
    async def work():
        async with leafd.aio.Client(shaped.urls) as client:
            source = client.texts("invoice")
            assert await source.next() == "INV-1"
            assert await source.next_many(2) == ["INV-2", "INV-3"]
            shaped.fault_all(fake.loses)
            assert await source.request(1) == (["INV-4"], True)
            assert await client.texts("order").next() == "A1"
            assert await source.decode("INV-42") == 42
            with pytest.raises(leafd.LeafdError, match="bad_id"):
                await source.decode("INV")
            stats = client.stats()
            assert (stats["ids_strict"], stats["errors"]) == (5, 1)
        with pytest.raises(leafd.LeafdError, match="closed"):
            await source.next()

    asyncio.run(work())
