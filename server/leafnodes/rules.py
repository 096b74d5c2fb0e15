"""The rules of a link, made of the permissions that its two ends have of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol.leaf_messages import LOOP_PREFIX
from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.config.security import AllowResponses, SubjectPermissions
from midge.server.config.security import Permissions as Table
from midge.sublist.subjects import is_literal, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

JETSTREAM_SUBJECTS = ("$JS.API.>", "$KV.>", "$OBJ.>")
"""What no link carries where JetStream is on here: whose streams are meant would be open."""


def may_tell(rules: Permissions | None, subject: bytes) -> bool:
    """Tell whether interest in `subject` may go over a link with these rules.

    What finds loops always may. A wildcard may be wider than what is allowed, as on nats-server:
    what it is too wide for is kept back message by message.
    """
    if rules is None or subject.startswith(LOOP_PREFIX) or rules.may_subscribe(subject, None):
        return True
    if is_literal(subject) or not rules.rules.check_deliver(subject, None):
        return False
    allowed = rules.rules.table.subscribe.allow
    return any(matches(entry.encode(), subject) for entry in allowed)


def rules_of(
    allow: Iterable[str], deny: Iterable[str], responses: AllowResponses | None = None
) -> Permissions | None:
    """Return rules for the subjects of one direction, messages and interest; None: none.

    Entries may have a queue group, which means nothing here.

    Raises:
        ValueError: an entry is no subject.
    """
    subjects = SubjectPermissions(
        allow=tuple(entry.split(" ")[0] for entry in allow),
        deny=tuple(entry.split(" ")[0] for entry in deny),
    )
    if not subjects.allow and not subjects.deny and responses is None:
        return None
    table = Table(publish=subjects, subscribe=subjects, allow_responses=responses)
    return Permissions(PermissionRules(table))
