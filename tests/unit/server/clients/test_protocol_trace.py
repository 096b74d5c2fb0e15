"""Traces in nats-server's form, and that no secret is ever in one."""

from __future__ import annotations

import io
import re
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import structlog

from midge.protocol.frame import compose
from midge.server.broker.broker import Broker
from midge.server.clients.client_info import client_label
from midge.server.clients.protocol_trace import Tracer, redact
from midge.server.config.options import Logging, Options
from midge.server.log import logger as logging
from midge.sublist.subscription import Subscription
from midge.testing import ManualClock
from tests.support.transports import Transport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.clients.connection import Connection


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    log = io.StringIO()
    logging.configure(Logging(format="nats", logtime=False, trace=True), stream=log)
    yield log
    logging.JOURNAL.reset()
    structlog.reset_defaults()


def tracer(label: str | None = "", **options: int) -> Tracer:
    return Tracer(7, "127.0.0.1:5", Logging(**options), lambda: label)


def lines(stream: io.StringIO) -> list[str]:
    return [re.sub(r"^\[\d+\] \[TRC\] ", "", line) for line in stream.getvalue().splitlines()]


def test_what_is_received(stream: io.StringIO) -> None:
    made = tracer("shop")
    made.received("PING")
    made.subscribe_received(b"a.*", b"q", b"1")
    made.subscribe_received(b">", None, b"2")
    made.unsubscribe_received(b"1", 0)
    made.unsubscribe_received(b"2", 5)
    made.publish_received(compose(b"a.b", b'he\x01"o', b"r"))
    made.publish_received(compose(b"a.b", b"hi", headers=b"NATS/1.0\r\n\r\n"))
    made.publish_received(compose(b"a.b", b""))
    assert [line.removeprefix('127.0.0.1:5 - cid:7 - "shop" - ') for line in lines(stream)] == [
        "<<- [PING]",
        "<<- [SUB a.* q 1]",
        "<<- [SUB > 2]",
        "<<- [UNSUB 1]",
        "<<- [UNSUB 2 5]",
        "<<- [PUB a.b r 5]",
        '<<- MSG_PAYLOAD: ["he\\x01\\"o"]',
        "<<- [HPUB a.b 12 14]",
        '<<- MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
        "<<- [PUB a.b 0]",
    ]


def test_what_is_sent(stream: io.StringIO) -> None:
    made = tracer()
    made.message_sent(Subscription(b"a.>", None, b"9"), compose(b"a.b", b"hi", b"r"))
    made.sent("-ERR Stale Connection")
    assert lines(stream) == [
        "127.0.0.1:5 - cid:7 - ->> [MSG a.b 9 r 2]",
        '127.0.0.1:5 - cid:7 - ->> MSG_PAYLOAD: ["hi"]',
        "127.0.0.1:5 - cid:7 - ->> [-ERR Stale Connection]",
    ]


def test_long_payloads_are_cut(stream: io.StringIO) -> None:
    tracer(max_traced_message_bytes=4).publish_received(compose(b"a", b"0123456789"))
    assert lines(stream)[1].endswith('<<- MSG_PAYLOAD: ["0123..."]')


def test_a_client_without_a_label_is_not_traced(stream: io.StringIO) -> None:
    tracer(None).received("PING")
    assert lines(stream) == []


@pytest.mark.parametrize(("verbose", "count"), [(False, 0), (True, 1)])
def test_the_system_account_only_when_verbose(
    stream: io.StringIO, verbose: bool, count: int
) -> None:
    options = Options(logging=Logging(trace=True, trace_verbose=verbose))
    broker = Broker(options, ManualClock(), Random(1))
    client = broker.make_connection(("127.0.0.1", 5))
    client.channel.connection_made(Transport())
    client.join(broker.system_account)
    client.channel.feed(b"PING\r\n")
    assert sum("<<- [PING]" in line for line in lines(stream)) == count


def test_bytes_that_are_no_text_stay_on_one_line(stream: io.StringIO) -> None:
    tracer().subscribe_received(b"a\xff\x1b[2J\x00", None, b"1")
    (line,) = lines(stream)
    assert line.endswith("<<- [SUB a\\xff\\x1b[2J\\x00 1]")


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (
            b'{"verbose":true,"user":"u","pass":"s3cret","auth_token":"s3cret"}',
            '{"verbose":true,"user":"u","pass":"[REDACTED]","auth_token":"[REDACTED]"}',
        ),
        (b'{"PASS":"s3cret"}', '{"PASS":"[REDACTED]"}'),
        (b'{"p\\u0061ss":"s3cret"}', '{"pass":"[REDACTED]"}'),
        (b'{"pass" : ["s3cret"], "jwt":"s3cret"}', '{"pass":"[REDACTED]","jwt":"[REDACTED]"}'),
        (b'{"sig":"s3cret","nkey":"UX"}', '{"sig":"[REDACTED]","nkey":"UX"}'),
        (
            b'{"password":"s3cret","token":"s3cret","key":{"x":"s3cret"},"new":true}',
            '{"password":"[REDACTED]","token":"[REDACTED]","key":"[REDACTED]","new":true}',
        ),
        (b'"s3cret"', "[REDACTED]"),
        (b"s3cret", "[REDACTED]"),
        (b"\xff", "[REDACTED]"),
        (b"[" * 100_000, "[REDACTED]"),
    ],
)
def test_secrets_are_redacted(document: bytes, shown: str) -> None:
    assert redact(document) == shown


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, ""),
        ({"name": "shop"}, "shop"),
        ({"lang": "py", "version": "1.2"}, "v1.2:py"),
        ({"lang": "py", "version": "1.2", "name": "shop"}, "v1.2:py:shop"),
    ],
)
def test_client_label(options: dict[str, str], label: str) -> None:
    fields = {"name": "", "lang": "", "version": "", **options}
    client = SimpleNamespace(options=SimpleNamespace(**fields))
    assert client_label(cast("Connection", client)) == label
