"""The conventions of key-value buckets."""

from __future__ import annotations

import pytest

from midge.protocol import key_value


@pytest.mark.parametrize(
    ("headers", "operation"),
    [
        ({}, "PUT"),
        ({"KV-Operation": ["DEL"]}, "DEL"),
        ({"KV-Operation": ["PURGE"], "Nats-Rollup": ["sub"]}, "PURGE"),
        ({"KV-Operation": [""], "Nats-Marker-Reason": ["MaxAge"]}, "PURGE"),
        ({"Nats-Marker-Reason": ["Remove"]}, "DEL"),
        ({"Nats-Marker-Reason": ["Purge"]}, "PURGE"),
        ({"Nats-Marker-Reason": ["another"]}, "PUT"),
    ],
)
def test_the_operation_of_an_entry(headers: dict[str, list[str]], operation: str) -> None:
    assert key_value.operation_of(headers) == operation


@pytest.mark.parametrize("purges", [False, True])
def test_a_marker_has_the_operation_that_wrote_it(*, purges: bool) -> None:
    headers = {name: [value] for name, value in key_value.marker_headers(purges=purges).items()}
    assert key_value.operation_of(headers) == ("PURGE" if purges else "DEL")
    assert ("Nats-Rollup" in headers) == purges


@pytest.mark.parametrize(("key", "valid"), [("a.b", True), ("a/=-_9", True), ("", False)])
def test_a_key(key: str, *, valid: bool) -> None:
    assert bool(key_value.KEY.fullmatch(key)) == valid


@pytest.mark.parametrize("key", [".a", "a.", "a..b", "a b", "a*", "ü", "a\n"])
def test_clients_refuse_a_key(key: str) -> None:
    assert key_value.KEY.fullmatch(key) is None


def test_names_of_a_bucket() -> None:
    assert key_value.stream_of("orders") == "KV_orders"
    assert key_value.subject_of("orders", "a.b") == "$KV.orders.a.b"
