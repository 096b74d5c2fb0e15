"""Numbers of thousands of digits and endless nesting are refused, not stumbled over."""

from __future__ import annotations

import pytest

from tests.support.jetstream_account import AccountRig

ENDLESS = b"[" * 200_000


def test_a_counter_takes_no_increment_that_cannot_be_added() -> None:
    rig = AccountRig()
    rig.create(allow_msg_counter=True)
    for value, code in (("9" * 4200, 0), ("9" * 4200, 0), ("9" * 4201, 10171), ("-1", 0)):
        answer = rig.publish("a.n", b"", {"Nats-Incr": value})
        assert answer.get("error", {}).get("err_code", 0) == code


@pytest.mark.parametrize("header", ["Nats-TTL", "Nats-Schedule-TTL", "Nats-Expected-Last-Sequence"])
@pytest.mark.parametrize(
    "value", ["9" * 5000, "-" + "9" * 5000, "9" * 5000 + "s", "0." + "9" * 5000 + "s"]
)
def test_a_header_may_hold_a_long_number(header: str, value: str) -> None:
    rig = AccountRig()
    rig.create(allow_msg_ttl=True, allow_msg_schedules=True)
    rig.publish("a.n", b"", {header: value})


def test_a_schedule_may_hold_a_long_number() -> None:
    rig = AccountRig()
    rig.create(allow_msg_schedules=True)
    for schedule in ("@every " + "9" * 5000 + "s", "0 0 0 " + "1" * 5000 + " * *"):
        answer = rig.publish("a.n", b"", {"Nats-Schedule": schedule, "Nats-Schedule-Target": "a.m"})
        assert "error" in answer


@pytest.mark.parametrize("body", [ENDLESS, b'{"seq":' + b"9" * 5000 + b"}", b'{"a":' * 200_000])
def test_a_request_may_be_nested_without_end(body: bytes) -> None:
    rig = AccountRig()
    rig.create(allow_direct=True)
    rig.create("B", subjects=["b"])
    for request in ("STREAM.INFO.A", "STREAM.MSG.GET.A", "STREAM.PURGE.A", "STREAM.CREATE.C"):
        rig.api(request, body)
    for request in ("DIRECT.GET.A", "CONSUMER.CREATE.A.c", "CONSUMER.LIST.A"):
        assert len(rig.exchange("$JS.API." + request, body)) == 1
    rig.publish("a.x", body)
