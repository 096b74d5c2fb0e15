"""What a stream sends leaves with the change it rests on, at once if that is on the disk."""

from __future__ import annotations

import json

from tests.support.jetstream_account import FileAccountRig

WRONG = {"Nats-Expected-Last-Sequence": "7"}
ID = {"Nats-Msg-Id": "one"}


def answers(rig: FileAccountRig) -> list[int]:
    """Return the sequences of acks, and the codes of refusals, that have left since last asked."""
    sent = [json.loads(payload) for _, _, payload in rig.outbox.sent]
    rig.outbox.sent = []
    return [one["error"]["err_code"] if "error" in one else one["seq"] for one in sent]


def test_what_rests_on_nothing_new_is_answered_at_once() -> None:
    rig = FileAccountRig()
    rig.create("A", storage="file")
    rig.outbox.sent = []
    rig.exchange("a.b", b"x", WRONG)
    assert answers(rig) == [10071]
    rig.exchange("a.b", b"x", ID)
    rig.settle()
    assert answers(rig) == [1]
    rig.exchange("a.b", b"x", ID)
    assert answers(rig) == [1]
    rig.exchange("a.b", b"x", WRONG)
    assert answers(rig) == [10071]


def test_answers_leave_in_order_with_the_groups_that_they_rest_on() -> None:
    rig = FileAccountRig()
    rig.create("A", storage="file")
    rig.outbox.sent = []
    rig.exchange("a.b", b"x", ID)
    rig.exchange("a.b", b"x", ID)
    rig.hand_over()
    rig.exchange("a.b", b"x", WRONG)
    rig.exchange("a.b", b"x")
    rig.exchange("a.b", b"x", WRONG)
    assert answers(rig) == []
    rig.settle()
    assert answers(rig) == [1, 1, 10071, 2, 10071]
