"""Which subjects are the server's own, recognized by whole first tokens."""

from __future__ import annotations

import pytest

from midge.server.config.options import Options
from midge.server.routing.reserved import is_reserved_reply, is_reserved_subject
from midge.server.routing.slow_path import RESERVED
from tests.fuzz.traffic import Step
from tests.fuzz.world import World

SUBJECTS = {b"$NRG.x", b"_GR_.x"}
REPLIES = {b"_R_.x", b"_GR_.x", b"$JS.ACK.x"}
OTHERS = {
    *(b"$NRG", b"$NRGx.y", b"$JS.ACK", b"$JS.API.INFO", b"$JS.ACKx.y", b"$J", b"$", b"_"),
    *(b"_INBOX.a.b", b"_R_", b"_R.x", b"_GR_", b"_GRx.y", b"a.$NRG.x", b"_r_.x"),
}


@pytest.mark.parametrize("subject", sorted(SUBJECTS | REPLIES | OTHERS))
def test_reserved(subject: bytes) -> None:
    line = b"PUB " + subject + b" 1\r\n"
    start, end = 4, 4 + len(subject)
    assert is_reserved_subject(bytearray(line), start, end) is (subject in SUBJECTS)
    assert is_reserved_reply(bytearray(line), start, end) is (subject in REPLIES)


def is_guarded(line: bytes) -> bool:
    """Publish `line`; return whether it left the fast path."""
    world = World(Options(), is_observed=False)
    step: Step = ("feed", 0, line)
    world.take(step, [b'CONNECT {"verbose":false,"pedantic":false}\r\n'], lambda data: [data])
    (client,) = world.broker.clients.values()
    return bool(client.commands.publish_checks & RESERVED)


@pytest.mark.parametrize("subject", sorted(SUBJECTS | REPLIES | OTHERS))
def test_only_what_is_reserved_leaves_the_fast_path(subject: bytes) -> None:
    assert is_guarded(b"PUB %b 0\r\n\r\n" % subject) is (subject in SUBJECTS)
    assert is_guarded(b"PUB a %b 0\r\n\r\n" % subject) is (subject in REPLIES)
    assert is_guarded(b"PUB %b r 0\r\n\r\n" % subject) is (subject in SUBJECTS)
