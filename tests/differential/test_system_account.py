"""Through the system account both servers report alike: requests, refusals, silence, events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.processes import midge_command, nats_server_command

from .pages import differences, shape
from .system import NOBODY, QUESTIONS, REFUSED, RELOAD, SILENT, Question, Told, listen
from .tools import FRACTIONS, fractions

NOT_HERE = {
    "data.account_detail.imports": "the system's services are not imported by every account",
    "data.imports": "the system's services are not imported by every account",
    "data.connections: expected null": "an empty list is a list",
    "client.rtt: missing": "nothing is measured of who is not let in",
    "data.midge_version: ": "nats-server's version is in `version`, as everywhere",
    "data.midge_build: ": "nats-server is always compiled",
}
"""Beginnings of the differences that are meant, and why."""

EVENTS = (
    "$SYS.ACCOUNT.A.SERVER.CONNS",
    "$SYS.SERVER.ACCOUNT.A.CONNS",
    "$SYS.ACCOUNT.A.CONNECT",
    "$SYS.ACCOUNT.A.DISCONNECT",
    "$SYS.ACCOUNT.B.DISCONNECT",
    "$SYS.ACCOUNT.$G.DISCONNECT",
    "$SYS.SERVER.@id@.CLIENT.AUTH.ERR",
    "$SYS.SERVER.@id@.STATSZ",
    "$SYS.SERVER.@id@.LAMEDUCK",
    "$SYS.SERVER.@id@.SHUTDOWN",
)


@pytest.fixture(scope="module")
def both() -> tuple[Told, Told]:
    """The answers of nats-server, and those of midge."""

    async def run() -> tuple[Told, Told]:
        return await asyncio.gather(listen(nats_server_command()), listen(midge_command()))

    return asyncio.run(run())


def found(theirs: Any, own: Any) -> list[str]:
    """List the differences in form that are not meant."""
    every = differences(shape(theirs), shape(own))
    return [one for one in every if not one.startswith(tuple(NOT_HERE))]


@pytest.mark.parametrize("question", [*QUESTIONS, RELOAD], ids=str)
def test_answers_have_the_same_fields(both: tuple[Told, Told], question: Question) -> None:
    theirs, own = (told.answers[str(question)] for told in both)
    assert isinstance(theirs, dict), theirs
    assert found(theirs, own) == []


@pytest.mark.parametrize("question", REFUSED, ids=str)
def test_refusals_are_in_the_same_words(both: tuple[Told, Told], question: Question) -> None:
    theirs, own = (told.answers[str(question)] for told in both)
    assert own["error"] == theirs["error"]


@pytest.mark.parametrize("question", SILENT, ids=str)
def test_what_is_for_others_gets_no_answer(both: tuple[Told, Told], question: Question) -> None:
    assert [told.answers[str(question)] for told in both] == ["silence"] * 2


@pytest.mark.parametrize("question", NOBODY, ids=str)
def test_other_accounts_find_nobody(both: tuple[Told, Told], question: Question) -> None:
    assert [told.answers[str(question)] for told in both] == ["nobody"] * 2


@pytest.mark.parametrize("user", ["sys", "a", "b"])
def test_users_are_told_the_same_of_themselves(both: tuple[Told, Told], user: str) -> None:
    question = str(Question("$SYS.REQ.USER.INFO", user=user))
    theirs, own = (told.answers[question]["data"] for told in both)
    assert in_order(own) == in_order(theirs)


def in_order(value: Any) -> Any:
    """Sort every list in `value`."""
    if isinstance(value, dict):
        return {name: in_order(one) for name, one in value.items()}
    return sorted(value) if isinstance(value, list) else value


def test_one_account_lists_its_own_subscriptions(both: tuple[Told, Told]) -> None:
    for told in both:
        page = told.answers[str(Question("$SYS.REQ.ACCOUNT.A.SUBSZ"))]["data"]
        (own,) = (one for one in page["subscriptions_list"] if one["subject"] == "x.y")
        assert (own["account"], own["qgroup"], own["msgs"]) == ("A", "workers", 1)


@pytest.mark.parametrize("subject", EVENTS)
def test_events_have_the_same_fields(both: tuple[Told, Told], subject: str) -> None:
    theirs, own = (told.of(subject) for told in both)
    assert theirs
    assert own
    assert found(theirs[0], own[0]) == []


def test_events_come_in_the_same_order(both: tuple[Told, Told]) -> None:
    """All but the statistics, which depend on time, and the counts of connections.

    Another thread of nats-server sends these counts, sometimes after the events that they count.
    """
    theirs, own = (
        [subject for subject, _ in told.events if not subject.endswith((".STATSZ", ".CONNS"))]
        for told in both
    )
    theirs, own = ([one for one in each if ".ACCOUNT.SYS." not in one] for each in (theirs, own))
    assert own == theirs


@pytest.mark.parametrize("account", ["A", "B"])
def test_connections_are_counted_as_often(both: tuple[Told, Told], account: str) -> None:
    names = (f"$SYS.SERVER.ACCOUNT.{account}.CONNS", f"$SYS.ACCOUNT.{account}.SERVER.CONNS")
    theirs, own = ([len(told.of(name)) for name in names] for told in both)
    assert own == theirs
    assert all(own)


@pytest.mark.parametrize("subject", ["$SYS.ACCOUNT.A.CONNECT", "$SYS.ACCOUNT.A.DISCONNECT"])
def test_clients_are_described_alike(both: tuple[Told, Told], subject: str) -> None:
    fields = ("host", "acc", "user", "name", "lang", "ver", "name_tag", "kind", "client_type")
    theirs, own = (told.of(subject)[0]["client"] for told in both)
    assert {name: own[name] for name in fields} == {name: theirs[name] for name in fields}


def test_what_a_client_sent_and_received_is_told_alike(both: tuple[Told, Told]) -> None:
    """Bytes received depend on the pages; what the client sent does not."""
    theirs, own = (told.of("$SYS.ACCOUNT.A.DISCONNECT")[0] for told in both)
    assert own["sent"] == theirs["sent"]
    assert own["received"]["msgs"] == theirs["received"]["msgs"]
    assert own["reason"] == theirs["reason"] == "Client Closed"


def test_accounts_are_counted_alike(both: tuple[Told, Told]) -> None:
    def counts(told: Told) -> list[tuple[int, ...]]:
        fields = ("conns", "total_conns", "num_subscriptions")
        events = told.of("$SYS.ACCOUNT.A.SERVER.CONNS")
        return [tuple(event[name] for name in fields) for event in events]

    theirs, own = map(counts, both)
    assert own == theirs


def test_refused_clients_are_told_of(both: tuple[Told, Told]) -> None:
    for told in both:
        (event,) = told.of("$SYS.SERVER.@id@.CLIENT.AUTH.ERR")
        assert (event["client"]["user"], event["client"]["name"]) == ("a", "refused")
        assert event["reason"] == "Authentication Failure"
        (kicked,) = told.of("$SYS.ACCOUNT.B.DISCONNECT")
        assert kicked["reason"] == "Kicked"


def test_whole_numbers_have_no_point(both: tuple[Told, Told]) -> None:
    """Programs in Go, the `nats` command line among them, read `1.0` as a floating number only."""
    for told in both:
        assert (
            fractions([*told.answers.values(), *(event for _, event in told.events)]) <= FRACTIONS
        )
