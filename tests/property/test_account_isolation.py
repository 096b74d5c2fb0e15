"""Account isolation: no message is seen in another account unless an import says so, and then once.

Random accounts import random parts of one another; an oracle that knows only the import tables, and
matches by splitting subjects, says where each message may show up and under which subject.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from midge.protocol.frame import Frame, compose
from midge.server.accounts.links import AccountLinks
from midge.server.accounts.plan import plan_accounts
from midge.server.config.options import Account as Table
from midge.server.config.options import Export, Import, ImportSource
from midge.server.errors import ConfigError
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription

NAMES = ("A", "B", "C", "D")
PARTS = ("x", "y", "x.>", "y.>", "*", ">")


class StillClock:
    """Time does not pass."""

    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0

    def call_later(self, *_: Any) -> Any:
        raise AssertionError("no timers here")


class Probe(RoutedSubscription):
    """Counts the subjects that arrive."""

    def __init__(self) -> None:
        RoutedSubscription.__init__(self, b">")
        self.seen: Counter[str] = Counter()

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.seen[frame.subject_bytes().decode()] += 1
        return True


@st.composite
def tables(draw: st.DrawFn) -> list[Table]:
    """Accounts that import from those before them, sometimes what they may not."""
    made: list[Table] = []
    for name in NAMES:
        exports = tuple(
            Export(stream=part, accounts=tuple(draw(st.sets(st.sampled_from(NAMES)))))
            for part in draw(st.sets(st.sampled_from(PARTS), min_size=1, max_size=2))
        )
        offers = [(table.name, offer.stream) for table in made for offer in table.exports]
        taken = draw(st.sets(st.sampled_from(offers), max_size=3)) if offers else set()
        imports = tuple(
            Import(
                stream=ImportSource(account=source, subject=part),
                prefix=draw(st.sampled_from(("", "p", "q.r"))),
            )
            for source, part in sorted(taken)
        )
        made.append(Table(name=name, exports=exports, imports=imports))
    return made


def allowed_only(made: list[Table]) -> list[Table]:
    """Leave out the imports that the configuration check refuses."""
    kept: list[Table] = []
    for table in made:
        good: tuple[Import, ...] = ()
        for each in table.imports:
            try:
                plan_accounts([*kept, structs.replace(table, imports=(*good, each))])
            except ConfigError:
                continue
            good = (*good, each)
        kept.append(structs.replace(table, imports=good))
    return kept


def is_match(pattern: str, subject: str) -> bool:
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and all(
            w in {"*", t} for w, t in zip(wanted[:-1], tokens, strict=False)
        )
    return len(wanted) == len(tokens) and all(
        w in {"*", t} for w, t in zip(wanted, tokens, strict=True)
    )


def where_it_shows(made: list[Table], account: str, subject: str) -> Counter[tuple[str, str]]:
    """List every account and subject under which a message published in `account` may be seen.

    An account does not pass imported messages on to accounts that import from it.
    """
    shown = Counter({(account, subject): 1})
    for table in made:
        for each in table.imports:
            assert each.stream is not None
            if each.stream.account == account and is_match(each.stream.subject, subject):
                prefix = f"{each.prefix}." if each.prefix else ""
                shown[table.name, prefix + subject] += 1
    return shown


@given(tables(), st.sampled_from(NAMES), st.sampled_from(("x", "y", "x.a", "y.b.c", "z")))
def test_messages_show_where_the_imports_say_and_nowhere_else(
    drawn: list[Table], account: str, subject: str
) -> None:
    made = allowed_only(drawn)
    accounts: dict[str, Account] = {}
    router = Router()
    links = AccountLinks(
        InternalPublisher(router).route_frame,
        StillClock(),
        Random(0),
        lambda name: accounts.setdefault(name, Account(name)),
        lambda _: {},
        router.carried.append,
    )
    links.apply(plan_accounts(made))
    probes = {name: Probe() for name in (*NAMES, "$G", "$SYS")}
    for name, probe in probes.items():
        accounts.setdefault(name, Account(name)).sublist.insert(probe)
    target = accounts[account]
    result = target.sublist.match(subject.encode())
    router.route(target, result, None, compose(subject.encode(), b"secret"))
    seen: Counter[tuple[str, str]] = Counter()
    for name, probe in probes.items():
        for where, count in probe.seen.items():
            seen[name, where] += count
    assert seen == where_it_shows(made, account, subject)
