"""What may pass from one kind of connection to another: every cell of the table."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from midge.server.routing.passage import (
    BOTH,
    DIRECT,
    GROUPS,
    NOTHING,
    SERVICE,
    STREAM,
    crosses,
    is_announced,
    passes,
)
from midge.server.routing.role import Role

LINKS = (Role.LEAF, Role.HUB, Role.ROUTE, Role.WORKER)

REFUSED = {
    (Role.ROUTE, Role.HUB): GROUPS,
    (Role.ROUTE, Role.ROUTE): GROUPS,
    (Role.HUB, Role.ROUTE): NOTHING,
    (Role.WORKER, Role.WORKER): NOTHING,
}
"""The pairs of origin and target between which not everything passes."""


@pytest.mark.parametrize(("origin", "target"), list(product(Role, LINKS)))
def test_every_pair(origin: Role, target: Role) -> None:
    expected = REFUSED.get((origin, target), BOTH)
    assert passes(origin, target) == passes(origin, target, DIRECT) == expected
    between_hubs = origin is target is Role.HUB
    assert passes(origin, target, SERVICE) == (NOTHING if between_hubs else expected)
    is_carried = between_hubs or target is Role.ROUTE
    assert passes(origin, target, STREAM) == (NOTHING if is_carried else expected)


@pytest.mark.parametrize(("origin", "target"), list(product(Role, set(Role) - set(LINKS))))
def test_nothing_passes_over_what_is_no_link(origin: Role, target: Role) -> None:
    assert {passes(origin, target, border) for border in (DIRECT, STREAM, SERVICE)} == {NOTHING}


@pytest.mark.parametrize("origin", Role)
def test_a_message_crosses_a_border_on_one_server_only(origin: Role) -> None:
    assert crosses(origin, STREAM) is (origin is not Role.WORKER)
    assert crosses(origin, SERVICE) is (origin not in {Role.WORKER, Role.ROUTE})


@pytest.mark.parametrize(("link", "source"), list(product(LINKS, LINKS)))
def test_a_link_is_told_of_interest_that_its_messages_may_pass_to(link: Role, source: Role) -> None:
    joins_hubs = link is source is Role.HUB
    assert is_announced(link, source) is (passes(link, source) == BOTH and not joins_hubs)


RECORDING = Path(__file__).parents[3] / "differential" / "passage.json"
BORDERS = {"direct": DIRECT, "mapped": DIRECT, "stream": STREAM, "service": SERVICE}
FORMS = {NOTHING: (), GROUPS: ("queue",), BOTH: ("plain", "queue")}


@pytest.mark.parametrize(("cell", "recorded"), json.loads(RECORDING.read_text()).items())
def test_the_table_is_what_nats_server_does(cell: str, recorded: str) -> None:
    origin, _, target, cluster, border, form = cell.split()
    role = Role[origin.upper()]
    form_there = passes(role, Role[target.upper()], BORDERS[border])
    if border == "service" and not crosses(role, SERVICE):
        form_there = NOTHING
    if cluster == "same" and border in {"direct", "mapped"}:
        form_there = NOTHING  # a rule of `reaches`, not of the table
    if border == "mapped" and role is Role.ROUTE:
        form_there = NOTHING  # the server that the message was published to has mapped it
    expected = form if form in FORMS[form_there] else "nothing"
    assert recorded == expected
