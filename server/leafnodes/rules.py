"""The rules of a link, made of the permissions that its two ends have of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.config.security import AllowResponses, SubjectPermissions
from midge.server.config.security import Permissions as Table

if TYPE_CHECKING:
    from collections.abc import Iterable

JETSTREAM_SUBJECTS = ("$JS.API.>", "$KV.>", "$OBJ.>")
"""What no link carries where JetStream is on here: whose streams are meant would be open."""


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
