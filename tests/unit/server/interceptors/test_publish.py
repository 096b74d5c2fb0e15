"""Interceptors of published messages, before routing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from midge.server.config.options import Authorization, Permissions, SubjectPermissions, User
from midge.server.interceptors import Publish, Refuse
from tests.support.interceptors import PASSING, REFUSING, VIOLATION, Start, connected, opened


class TestPublish:
    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_itself_passes_byte_by_byte(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"publish": function})
        client = await connected(server)
        block = b"NATS/1.0 100 odd\r\n a:b \r\n\r\n"
        frame = b"HPUB a r %d %d\r\n%bhello" % (len(block), len(block) + 5, block)
        client.send(b"SUB > 1", frame)
        assert await client.ask() == b"HMSG a 1 r %d %d\r\n%bhello\r\n" % (
            len(block),
            len(block) + 5,
            block,
        )

    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_else_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"publish": function})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer.startswith(VIOLATION % b"a")
        assert (b"not today" in answer) == function.__name__.startswith("refuses")
        assert b"MSG" not in answer
        counts = server.broker.interception.calls
        assert counts.failed["publish"] + counts.refused["publish"] == 1

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_changed_copy_passes(self, start: Start, is_async: bool) -> None:
        def change(event: Publish) -> Publish:
            changed = replace(event, subject="b", reply="r", payload=event.payload.upper())
            return changed.with_headers({"By": event.client.name if event.client else ""})

        async def change_later(event: Publish) -> Publish:
            return change(event)

        server = await start(interceptors={"publish": change_later if is_async else change})
        client = await connected(server, name="shop")
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer == b"HMSG b 1 r 22 24\r\nNATS/1.0\r\nBy: shop\r\n\r\nHI\r\n"

    @pytest.mark.parametrize(
        "change",
        [
            {"subject": "a b"},
            {"subject": "a\r\nPING"},
            {"subject": ">"},
            {"subject": ""},
            {"reply": "*"},
            {"payload": "text"},
            {"payload": None},
            {"header_block": b"no headers"},
            {"client": None},
            {"subject": None},
            {"subject": "\ud800"},
        ],
        ids=str,
    )
    async def test_a_copy_that_cannot_be_refuses(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"publish": lambda event: replace(event, **change)})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer.startswith(VIOLATION % b"a")
        assert b"MSG" not in answer

    async def test_a_copy_larger_than_the_limit_refuses(self, start: Start) -> None:
        server = await start(
            max_payload=10,
            interceptors={"publish": lambda event: replace(event, payload=b"x" * 11)},
        )
        client = await connected(server)
        assert (await client.ask(b"SUB > 1", b"PUB a 0\r\n")).startswith(VIOLATION % b"a")

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_changed_subject_needs_the_permission(
        self, start: Start, is_async: bool
    ) -> None:
        def change(event: Publish) -> Publish:
            return replace(event, subject="secret")

        async def change_later(event: Publish) -> Publish:
            return change(event)

        rules = Permissions(publish=SubjectPermissions(deny=("secret",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"publish": change_later if is_async else change},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB > 1", b"PUB open 2\r\nhi")
        assert answer.startswith(VIOLATION % b"secret")
        assert b"MSG" not in answer

    @pytest.mark.parametrize("change", [{"subject": "$NRG.x"}, {"reply": "_R_.x.y"}], ids=str)
    async def test_reserved_subjects_stay_reserved(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"publish": lambda event: replace(event, **change)})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert b"Permissions Violation for Publish" in answer
        assert b"MSG" not in answer

    async def test_what_permissions_forbid_is_never_shown(self, start: Start) -> None:
        seen: list[str] = []
        rules = Permissions(publish=SubjectPermissions(allow=("open",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"publish": lambda event: seen.append(event.subject) or event},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        await client.ask(b"PUB closed 2\r\nhi", b"PUB open 2\r\nhi")
        assert seen == ["open"]

    async def test_verbose_clients_hear_ok_or_error_and_never_both(self, start: Start) -> None:
        def some(event: Publish) -> Any:
            return event if event.subject == "a" else Refuse()

        server = await start(interceptors={"publish": some})
        client = await opened(server)
        client.send(b'CONNECT {"verbose":true,"pedantic":false}', b"PUB a 0\r\n", b"PUB b 0\r\n")
        assert await client.ask() == b"+OK\r\n+OK\r\n" + VIOLATION % b"b" + b"'\r\n"

    async def test_a_reason_cannot_break_the_line(self, start: Start) -> None:
        server = await start(
            interceptors={"publish": lambda _: Refuse("it's\r\nPING\r\n" + "x" * 999)}
        )
        client = await connected(server)
        answer = await client.ask(b"PUB a 0\r\n")
        assert answer.count(b"\r\n") == 1
        assert len(answer) < 200
