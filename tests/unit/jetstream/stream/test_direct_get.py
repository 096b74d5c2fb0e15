"""What a message that is got directly says of where it is stored."""

from __future__ import annotations

import pytest

from midge.jetstream.json.times import format_time
from tests.support.jetstream_account import AccountRig

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
TIMES_NS = [
    *(START_NS + rest for rest in (0, 1, 10, 123_456_789, 500_000_000, 999_999_999)),
    START_NS + SECOND_NS,
    (1 << 63) - 1,
]


def located(subject: bytes, seq: int, time_ns: int, own: bytes = b"NATS/1.0\r\n") -> bytes:
    stored = b"Nats-Stream: A\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n" % (subject, seq)
    return own + stored + b"Nats-Time-Stamp: %b\r\n" % format_time(time_ns).encode()


def test_a_message_says_where_and_when_it_was_stored() -> None:
    rig = AccountRig()
    store = rig.create(allow_direct=True).store
    for number, time_ns in enumerate(TIMES_NS):
        store.append(b"a.%d" % number, b"", b"x", time_ns)
    for number, time_ns in enumerate(TIMES_NS):
        ((_, headers, payload),) = rig.exchange(f"$JS.API.DIRECT.GET.A.a.{number}")
        expected = located(b"a.%d" % number, number + 1, time_ns) + b"\r\n"
        assert (headers, payload) == (expected, b"x")


@pytest.mark.parametrize("size", [1, 300, 5000])
def test_long_subjects_and_headers_have_room(size: int) -> None:
    rig = AccountRig()
    store = rig.create(allow_direct=True).store
    subject = b"a." + b"s" * size
    own = b"NATS/1.0\r\nOwn: %b\r\n" % (b"h" * size)
    for headers in (own + b"\r\n", b""):
        store.append(subject, headers, b"x", START_NS)
    answers = rig.exchange("$JS.API.DIRECT.GET.A", {"seq": 1, "batch": 2})
    first, second = located(subject, 1, START_NS, own), located(subject, 2, START_NS)
    assert [block for _, block, _ in answers[:2]] == [
        first + b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: 0\r\n\r\n",
        second + b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 1\r\n\r\n",
    ]


def test_headers_are_left_out_where_that_is_asked_for() -> None:
    rig = AccountRig()
    rig.create(allow_direct=True).store.append(b"a.b", b"", b"x", START_NS)
    ((_, headers, payload),) = rig.exchange("$JS.API.DIRECT.GET.A.a.b", {"no_hdr": True})
    assert (headers, payload) == (b"", b"x")
    ((_, headers, payload),) = rig.exchange("$JS.API.DIRECT.GET.A.a.b", {"seq": 1})
    assert (headers, payload) == (b"NATS/1.0 408 Bad Request\r\n\r\n", b"")


@pytest.mark.parametrize("batch", [-1, -7])
@pytest.mark.parametrize(
    ("request_", "pending"),
    [
        ({"seq": 1}, 3),
        ({"seq": 99}, 0),
        ({"next_by_subj": "a.1"}, 1),
        ({"next_by_subj": "b"}, 0),
        ({"last_by_subj": "a.1"}, 3),
    ],
)
def test_a_negative_batch_gets_the_end_alone(
    batch: int, request_: dict[str, object], pending: int
) -> None:
    rig = AccountRig()
    store = rig.create(allow_direct=True).store
    for number in range(3):
        store.append(b"a.%d" % number, b"", b"x", START_NS)
    ((_, headers, _),) = rig.exchange("$JS.API.DIRECT.GET.A", {**request_, "batch": batch})
    told = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: 0\r\n\r\n"
    assert headers == told % pending
