"""Names in the test kit: infos with attributes, hints for wrong ones, public names of errors."""

from __future__ import annotations

import importlib
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import midge
import midge.testing
from midge.testing import Capture, ConsumerInfo, StreamRefusedError, Streams
from midge.testing.bucket_under_test import Buckets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[midge.ThreadedServer]:
    with midge.run_in_thread(port=-1, jetstream=True) as running:
        yield running


def test_infos_have_attributes_in_seconds(server: midge.ThreadedServer) -> None:
    with Streams(server) as make:
        orders = make("ORDERS", "orders.>", max_age=60, allow_msg_ttl=True)
        orders.publish("orders.new", "tea")
        info = orders.info
        assert (info.config.max_age, info["config"]["max_age"]) == (60.0, 60 * 10**9)
        assert (info.config.subjects, info.config.allow_msg_ttl) == (["orders.>"], True)
        assert (info.state.messages, orders.state.num_deleted, orders.state["last_seq"]) == (
            1,
            0,
            1,
        )
        made = orders.consumer("workers", ack_wait=5, backoff=[1, 2], max_deliver=3)
        assert isinstance(made, ConsumerInfo)
        assert (made.config.ack_wait, made.config.backoff) == (1.0, [1.0, 2.0])
        assert made["config"]["backoff"] == [10**9, 2 * 10**9]
        found = orders.consumers["workers"]
        assert (found.num_pending, found.delivered.stream_seq, found.paused) == (1, 0, False)
        with pytest.raises(AttributeError, match="no 'num_pendin'; did you mean 'num_pending'"):
            getattr(found, "num_pendin")  # noqa: B009 - a type checker would refuse it
        with pytest.raises(AttributeError, match="did you mean 'messages'"):
            getattr(info.state, "mesages")  # noqa: B009


def test_a_backup_of_a_stream(server: midge.ThreadedServer, tmp_path: Path) -> None:
    with Streams(server) as make:
        orders = make("ORDERS", "orders.>")
        for number in range(300):
            orders.publish("orders.new", str(number) * 500)
        orders.consumer("workers")
        orders.backup(tmp_path / "saved")
        with pytest.raises(midge.MidgeError, match="exists already"):
            orders.backup(tmp_path / "saved")
        copy = make("COPY", "copies.>", backup=tmp_path / "saved")
        assert (copy.state.messages, copy.messages[7].text) == (300, "7" * 500)
        assert copy.consumers["workers"].num_pending == 300
        server.jetstream.stream("ORDERS").delete()
        with pytest.raises(StreamRefusedError, match="stream not found"):
            orders.backup(tmp_path / "gone")


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda server: server.faults.dropp("a"), "no fault is called 'dropp'; did you mean 'drop'"),
    (lambda server: server.faults.drop("a", nht=2), r"drop\(\) got .* 'nht'; did you mean 'nth'"),
    (lambda server: server.faults.lose_ack("a", probablity=1), "did you mean 'probability'"),
    (
        lambda server: server.faults.info(max_paylod=1),
        "no field 'max_paylod'; did you mean 'max_payload'",
    ),
    (lambda server: server.faults.purge_stream("ORDER"), "got 'ORDER'; did you mean 'ORDERS'"),
    (lambda server: server.faults.delete_consumer("ORDERS", "worker"), "did you mean 'workers'"),
    (
        lambda server: Streams(server)("NEW", max_agee=1),
        "stream: unknown setting 'max_agee'; did you mean 'max_age'",
    ),
    (lambda server: Buckets(server)("new", historyy=1), "unknown setting 'historyy'"),
    (
        lambda server: Streams(server)("NEW", "n").consumer("c", ackwait=1),
        "consumer: unknown setting 'ackwait'; did you mean 'ack_wait'",
    ),
    (
        lambda _: Capture().assert_published("a", paylod=b""),
        r"assert_published\(\) got .* 'paylod'; did you mean 'payload'",
    ),
    (lambda _: Capture().assert_stored("a", streem=""), "did you mean 'stream'"),
    (lambda _: midge.run_in_thread(prot=1), "did you mean 'port'"),
]


@pytest.mark.parametrize(("mistake", "text"), MISTAKES)
def test_wrong_names_get_a_hint(
    server: midge.ThreadedServer, mistake: Callable[[Any], object], text: str
) -> None:
    with Streams(server) as make:
        make("ORDERS", "orders.>").consumer("workers")
        with pytest.raises((midge.MidgeError, TypeError, ValueError, AttributeError), match=text):
            mistake(server)


async def test_hints_without_a_thread() -> None:
    async with midge.Server(port=-1) as server:
        for mistake in (
            lambda: server.faults.delya(1),
            lambda: server.faults.cut("x", aftr_bytes=1),
        ):
            with pytest.raises(
                (AttributeError, TypeError), match=r"did you mean '(delay|after_bytes)'"
            ):
                mistake()


def test_tracebacks_show_public_names() -> None:
    for package in (midge, midge.testing):
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, type) and issubclass(value, Exception):
                public = f"{value.__module__}.{value.__name__}"
                assert public in (f"midge.{name}", f"midge.testing.{name}")
                assert getattr(importlib.import_module(value.__module__), name) is value
    error = midge.ConfigError("expected int", key="listen.port")
    assert traceback.format_exception_only(error) == [
        "midge.ConfigError: listen.port: expected int\n"
    ]
    assert type(pickle.loads(pickle.dumps(midge.MidgeError("x")))) is midge.MidgeError


def test_streams_of_a_server_in_a_thread(server: midge.ThreadedServer) -> None:
    orders = server.jetstream.add_stream("ORDERS", ["orders.>"])
    assert orders.publish("orders.new", "tea", {"Shop": "1"}, msg_id="a") == ("ORDERS", 1, False)
    assert orders.publish("orders.new", "tea", msg_id="a").is_duplicate
    orders.publish("orders.old", "cake", expected_last_seq=1)
    assert (server.jetstream.streams(), orders.state().messages) == (["ORDERS"], 2)
    first, last = orders.get(1), orders.last("orders.old")
    assert first is not None
    assert last is not None
    assert (first.headers["Shop"], last.text, orders.get(9)) == (["1"], "cake", None)
    assert [one.seq for one in orders.messages()] == [1, 2]
    following = orders.messages("orders.old", follow=True)
    assert next(following).text == "cake"
    following.close()  # type: ignore[attr-defined]
    with orders.consume("billing") as messages:
        assert messages.pending == 2
        message = next(messages)
        assert (message.text, message.subject, message.delivered, message.seq) == (
            "tea",
            "orders.new",
            1,
            1,
        )
        message.nak()
        again = [messages.next(30) for _ in range(2)]
        assert sorted(one.text for one in again) == ["cake", "tea"]
        for one in again:
            one.in_progress()
            one.ack()
        with pytest.raises(TimeoutError):
            messages.next(0.01)
    with pytest.raises(midge.MidgeError, match="within `with`"):
        messages.next()
    assert orders.purge("orders.new") == 1
    orders.delete()
    with pytest.raises(midge.JetStreamError, match="stream not found"):
        orders.state()


def test_buckets_of_a_server_in_a_thread(server: midge.ThreadedServer) -> None:
    prices = server.jetstream.add_key_value("prices", history=3)
    assert [prices.put("tea", "3"), prices.update("tea", "4", 1), prices.create("cake", "5")] == [
        1,
        2,
        3,
    ]
    changes = prices.watch("tea")
    assert next(changes).text == "4"
    prices.delete("tea")
    assert next(changes).operation == "DEL"
    changes.close()  # type: ignore[attr-defined]
    found = server.jetstream.key_value("prices")
    assert (found.get("tea"), found.keys()) == (None, ["cake"])
    assert [one.operation for one in found.history("tea")] == ["PUT", "PUT", "DEL"]
    found.purge("cake")
    with pytest.raises(midge.JetStreamError):
        prices.update("cake", "6", 1)
    with midge.run_in_thread(port=-1) as without, pytest.raises(midge.MidgeError, match="are off"):
        assert without.jetstream
