"""Denials of deliveries: asked once for subjects that follow each other, and per queue."""

from __future__ import annotations

import pytest

from midge.protocol.frame import compose
from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.clients.deliver_denials import DeliverDenials
from midge.server.config.options import Permissions as Table
from midge.server.config.options import SubjectPermissions


@pytest.fixture
def denials() -> DeliverDenials:
    denied = SubjectPermissions(deny=("secret.>", "team.* private"))
    return DeliverDenials(Permissions(PermissionRules(Table(subscribe=denied))))


@pytest.mark.parametrize(
    ("subject", "queue", "is_permitted"),
    [
        (b"news", None, True),
        (b"secret.a", None, False),
        (b"secret.a", b"any", False),
        (b"team.a", None, True),
        (b"team.a", b"private", False),
        (b"team.a", b"open", True),
    ],
)
def test_denied_subjects_are_kept_from_subscriptions(
    denials: DeliverDenials, subject: bytes, queue: bytes | None, is_permitted: bool
) -> None:
    frame = compose(subject, b"x")
    for _ in range(2):
        assert denials.permit(queue, None, frame) is is_permitted


def test_the_last_answer_is_for_its_subject_and_queue_only(denials: DeliverDenials) -> None:
    queues = [None, b"private", None, b"open", b"private"]
    frame = compose(b"team.a", b"x")
    assert [denials.permit(queue, None, frame) for queue in queues] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert denials.permit(None, None, compose(b"team.b", b"x"))
    assert not denials.permit(None, None, compose(b"secret.b", b"x"))
