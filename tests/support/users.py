"""Users with their permissions, and raw clients that come in as one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from midge.server.config.options import (
    AllowResponses,
    Authorization,
    Permissions,
    SubjectPermissions,
)
from midge.server.config.options import User as UserTable
from midge.server.server import Server
from tests.support.raw import Raw

VIOLATION = b"-ERR 'Authorization Violation'\r\n"

Start = Callable[..., Awaitable[Server]]
Open = Callable[..., Awaitable[Raw]]


def permissions(
    *,
    publish: tuple[str, ...] = (),
    publish_deny: tuple[str, ...] = (),
    subscribe: tuple[str, ...] = (),
    subscribe_deny: tuple[str, ...] = (),
    responses: AllowResponses | None = None,
) -> Permissions:
    return Permissions(
        publish=SubjectPermissions(allow=publish, deny=publish_deny),
        subscribe=SubjectPermissions(allow=subscribe, deny=subscribe_deny),
        allow_responses=responses,
    )


def users(*named: UserTable, **fields: Any) -> Authorization:
    return Authorization(users=named, **fields)


def user(name: str, rules: Permissions | None = None) -> UserTable:
    return UserTable(user=name, password="p", permissions=rules)


async def enter(dial: Open, server: Server, name: str, **options: Any) -> Raw:
    raw = await dial(server)
    answer = await raw.connect(**{"user": name, "pass": "p", **options})
    assert b"-ERR" not in answer
    return raw
