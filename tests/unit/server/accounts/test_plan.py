"""Accounts as configured: what may be imported, how subjects change, and what can never be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.server.accounts.plan import CHAIN_MAX, AccountPlan, plan_accounts
from midge.server.config.options import (
    Account,
    AccountJetStream,
    AccountLimits,
    Export,
    Import,
    ImportSource,
    Mapping,
    MappingDestination,
)
from midge.server.errors import ConfigError


def stream(account: str, subject: str, **fields: Any) -> Import:
    return Import(stream=ImportSource(account=account, subject=subject), **fields)


def service(account: str, subject: str, **fields: Any) -> Import:
    return Import(service=ImportSource(account=account, subject=subject), **fields)


def exporting(name: str, *exports: Export, imports: tuple[Import, ...] = ()) -> Account:
    return Account(name=name, exports=exports, imports=imports)


def importing(*imports: Import, name: str = "B") -> Account:
    return Account(name=name, imports=imports)


def plan_of(*accounts: Account) -> AccountPlan:
    return plan_accounts(accounts)["B"]


def refusal(*accounts: Account, **fields: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        plan_accounts(accounts, **fields)
    return str(raised.value)


class TestAccounts:
    def test_the_global_and_the_system_account_are_always_there(self) -> None:
        plans = plan_accounts([])
        assert set(plans) == {"$G", "$SYS"}
        assert plans["$SYS"].is_system
        assert not plans["$G"].is_system

    def test_the_global_account_has_jetstream_where_there_is_no_other(self) -> None:
        enabled = AccountJetStream(enabled=True)
        users = Account(name="A"), Account(name="B", jetstream=enabled)
        assert plan_accounts([])["$G"].jetstream
        assert plan_accounts([Account(name="$SYS")])["$G"].jetstream
        assert plan_accounts([Account(name="OPS")], system_account="OPS")["$G"].jetstream
        for accounts in (users, users[:1], users[1:]):
            plans = plan_accounts(accounts)
            assert not plans["$G"].jetstream
            assert [bool(plans[one.name].jetstream) for one in accounts] == [
                one.jetstream.enabled for one in accounts
            ]

    def test_another_account_may_be_the_system_account(self) -> None:
        plans = plan_accounts([Account(name="OPS")], system_account="OPS")
        assert set(plans) == {"$G", "OPS"}
        assert plans["OPS"].is_system

    def test_the_system_account_may_have_users(self) -> None:
        assert plan_accounts([Account(name="$SYS")])["$SYS"].is_system

    def test_limits_and_mappings_are_kept(self) -> None:
        mapping = Mapping(source="a", destinations=(MappingDestination(destination="b"),))
        limits = AccountLimits(max_connections=1, max_subscriptions=2, max_payload_bytes=3)
        plans = plan_accounts(
            [Account(name="B", limits=limits, mappings=(mapping,))], mappings=(mapping,)
        )
        plan = plans["B"]
        assert (plan.max_connections, plan.max_subscriptions, plan.max_payload_bytes) == (1, 2, 3)
        assert plan.mappings == (mapping,)
        assert plans["$G"].mappings == (mapping,)

    @pytest.mark.parametrize("name", ["", "$G", "a b", "a\r\nb", "\x1b[31m"])
    def test_names_that_cannot_be(self, name: str) -> None:
        assert "accounts: " in refusal(Account(name=name))

    def test_a_repeated_name(self) -> None:
        assert "duplicate account 'A'" in refusal(Account(name="A"), Account(name="A"))

    def test_an_unknown_system_account(self) -> None:
        assert "'OPS' is no configured account" in refusal(system_account="OPS")

    def test_a_bad_mapping(self) -> None:
        bad = Mapping(source="a", destinations=(MappingDestination(destination="b.$1"),))
        assert "accounts[0].mappings" in refusal(Account(name="A", mappings=(bad,)))
        assert "mappings: mapping of 'a'" in refusal(mappings=(bad,))


odd_subjects = st.sampled_from(
    [
        "a",
        "a.*",
        "*.*",
        "a.>",
        ">",
        "",
        ".",
        "a..b",
        "a b",
        "$1",
        "a.$1",
        "a.$9",
        "a.$2x",
        "*.$1",
        "B",
        "é.*",
        "{{",
        "{{wildcard(1)}}.x",
        "{{wildcard(²)}}",
        "{{partition(9,1)}}",
        "a\r\nb",
    ]
)
odd_exports = st.builds(
    Export,
    stream=odd_subjects,
    service=odd_subjects,
    accounts=st.sampled_from([(), ("A",), ("B",), ("C", "nobody")]),
    account_token_position=st.sampled_from([0, 1, 2, -1, -9, 9, 2**62]),
)
odd_sources = st.builds(ImportSource, account=st.sampled_from("ABCD"), subject=odd_subjects)
odd_imports = st.builds(
    Import,
    stream=st.none() | odd_sources,
    service=st.none() | odd_sources,
    to=st.just("") | odd_subjects,
    prefix=st.just("") | odd_subjects,
)
odd_mappings = st.builds(
    Mapping,
    source=odd_subjects,
    destinations=st.lists(
        st.builds(MappingDestination, destination=odd_subjects, weight_percent=st.integers(0, 100)),
        max_size=3,
    ).map(tuple),
)


@given(data=st.data())
def test_no_account_of_several_people_can_break_the_others(data: st.DataObject) -> None:
    odd = [
        Account(
            name=name,
            exports=tuple(data.draw(st.lists(odd_exports, max_size=4))),
            imports=tuple(data.draw(st.lists(odd_imports, max_size=4))),
            mappings=tuple(data.draw(st.lists(odd_mappings, max_size=2))),
        )
        for name in "ABC"
    ]
    good = Account(name="good", imports=(stream("open", "st.>"),))
    plans = plan_accounts([*odd, exporting("open", Export(stream="st.>")), good], is_lenient=True)
    assert len(plans["good"].stream_imports) == 1


class TestStreams:
    @pytest.mark.parametrize(
        ("table", "subject", "seen_as", "pattern"),
        [
            (stream("A", "st.>"), "st.x.y", "st.x.y", "st.>"),
            (stream("A", "st.>", prefix="pre.fix"), "st.x.y", "pre.fix.st.x.y", "pre.fix.st.>"),
            (stream("A", "st.*", to="loc.$1.z"), "st.x", "loc.x.z", "loc.*.z"),
            (stream("A", "st.*", to="loc.*"), "st.x", "loc.x", "loc.*"),
            (stream("A", "st.*.*", to="l.$2.{{wildcard(1)}}"), "st.x.y", "l.y.x", "l.*.*"),
            (stream("A", "st.one", to="uno"), "st.one", "uno", "uno"),
            (stream("A", "st.>", to="l.>"), "st.x", "l.x", "l.>"),
        ],
    )
    def test_subjects_change_on_the_way(
        self, table: Import, subject: str, seen_as: str, pattern: str
    ) -> None:
        plan = plan_of(exporting("A", Export(stream="st.>")), importing(table))
        (taken,) = plan.stream_imports
        assert (taken.source_account, taken.target_account) == ("A", "B")
        assert taken.transform.apply(subject.encode()) == seen_as.encode()
        assert taken.target == pattern.encode()

    @pytest.mark.parametrize(
        ("table", "text"),
        [
            (stream("A", "st.>", to="l.>", prefix="p"), "either a prefix or a local subject"),
            (stream("A", "st.*", to="l"), "must use each '*'"),
            (stream("A", "st.*", to="l.{{partition(3,1)}}"), "must use each '*'"),
            (stream("A", "st.>", prefix="p.*"), "expected a prefix without wildcards"),
            (stream("A", "st.>", prefix="p..q"), "expected a prefix without wildcards"),
            (stream("A", "st.>", prefix="p.>"), "expected a prefix without wildcards"),
            (stream("A", "st.>", to="l x.>"), "expected subjects"),
            (stream("A", "other"), "'A' exports no stream 'other' to 'B'"),
            (stream("A", ">"), "'A' exports no stream '>' to 'B'"),
            (stream("A", "st..x"), "expected a subject, got 'st..x'"),
            (stream("Z", "st.x"), "'Z' is no configured account"),
            (stream("B", "st.x"), "'B' exports no stream 'st.x' to 'B'"),
            (service("A", "st.x"), "'A' exports no service 'st.x' to 'B'"),
            (Import(), "expected either a stream or a service"),
        ],
    )
    def test_imports_that_cannot_be(self, table: Import, text: str) -> None:
        message = refusal(exporting("A", Export(stream="st.>")), importing(table))
        assert message.startswith("accounts[1].imports[0]: ")
        assert text in message


class TestServices:
    @pytest.mark.parametrize(
        ("table", "asked", "answered"),
        [
            (service("A", "svc.req"), "svc.req", "svc.req"),
            (service("A", "svc.req", to="my.req"), "my.req", "svc.req"),
            (service("A", "svc.*.get", to="get.*"), "get.x", "svc.x.get"),
            (service("A", "svc.*.get", to="get.$1"), "get.x", "svc.x.get"),
            (service("A", "svc.*.*", to="get.$2.$1"), "get.x.y", "svc.y.x"),
            (service("A", "svc.>", to="mine.>"), "mine.x.y", "svc.x.y"),
        ],
    )
    def test_requests_take_the_exporters_subject(
        self, table: Import, asked: str, answered: str
    ) -> None:
        plan = plan_of(exporting("A", Export(service="svc.>")), importing(table))
        (taken,) = plan.service_imports
        assert (taken.source_account, taken.target_account) == ("B", "A")
        assert taken.transform.apply(asked.encode()) == answered.encode()
        assert taken.response_type == "singleton"
        assert taken.response_threshold_s == 120.0

    def test_responses_are_as_the_export_says(self) -> None:
        export = Export(service="svc", response_type="chunked", response_threshold_s=5)
        plan = plan_of(exporting("A", export), importing(service("A", "svc", share=True)))
        (taken,) = plan.service_imports
        assert (taken.response_type, taken.response_threshold_s) == ("chunked", 5)
        assert taken.shares_client

    @pytest.mark.parametrize(
        ("table", "text"),
        [
            (service("A", "svc.x", prefix="p"), "a service takes no prefix"),
            (service("A", "svc.*", to="literal"), "must use each '*'"),
            (stream("A", "svc.x"), "exports no stream"),
        ],
    )
    def test_imports_that_cannot_be(self, table: Import, text: str) -> None:
        assert text in refusal(exporting("A", Export(service="svc.>")), importing(table))

    def test_two_services_under_one_subject(self) -> None:
        a = exporting("A", Export(service="x"), Export(service="y"))
        two = importing(service("A", "x", to="z"), service("A", "y", to="z"))
        assert "duplicate service import 'z'" in refusal(a, two)

    def test_services_of_two_accounts_under_one_subject(self) -> None:
        accounts = [exporting(name, Export(service="x")) for name in "AC"]
        both = importing(service("A", "x", to="z"), service("C", "x", to="z"))
        plans = plan_of(*accounts, both).service_imports
        assert [plan.target_account for plan in plans] == ["A", "C"]

    def test_the_export_of_that_very_subject_decides(self) -> None:
        own = Export(service="x.y", accounts=("C",))
        a = exporting("A", Export(service="x.*"), own)
        assert "'A' exports no service 'x.y' to 'B'" in refusal(a, importing(service("A", "x.y")))
        assert plan_of(a, importing(service("A", "x.z"))).service_imports


class TestExports:
    def test_a_private_export_is_for_the_named_accounts(self) -> None:
        private = exporting("A", Export(service="x", accounts=("C",)))
        assert "exports no service 'x' to 'B'" in refusal(private, importing(service("A", "x")))
        plans = plan_accounts([private, importing(service("A", "x"), name="C")])
        assert plans["C"].service_imports

    def test_a_token_must_be_the_importers_name(self) -> None:
        a = exporting("A", Export(service="x.*.y", account_token_position=2))
        assert plan_of(a, importing(service("A", "x.B.y", to="z"))).service_imports
        for subject in ("x.C.y", "x.*.y"):
            assert "exports no service" in refusal(a, importing(service("A", subject)))

    def test_any_fitting_export_is_enough(self) -> None:
        a = exporting("A", Export(service="x.*", accounts=("C",)), Export(service="*.*"))
        assert plan_of(a, importing(service("A", "x.y"))).service_imports

    def test_one_subject_exported_more_than_once(self) -> None:
        private = Export(service="x", accounts=("C",))
        also = Export(service="x", accounts=("B",))
        to_all = Export(service="x")
        assert plan_of(exporting("A", private, also), importing(service("A", "x"))).service_imports
        for exports in ((private, to_all), (to_all, private)):
            refused = refusal(exporting("A", *exports), importing(service("A", "x")))
            assert "'A' exports no service 'x' to 'B'" in refused

    @pytest.mark.parametrize(
        ("export", "text"),
        [
            (Export(), "expected either a stream or a service"),
            (Export(stream="a", service="b"), "expected either a stream or a service"),
            (Export(stream="a..b"), "expected a subject, got 'a..b'"),
            (Export(service="a.b", account_token_position=2), "token 2 of 'a.b' is no '*'"),
            (Export(service="a.*", account_token_position=3), "token 3 of 'a.*' is no '*'"),
        ],
    )
    def test_exports_that_cannot_be(self, export: Export, text: str) -> None:
        message = refusal(exporting("A", export))
        assert message.startswith("accounts[0].exports[0]: ")
        assert text in message


class TestCycles:
    @pytest.mark.parametrize("kind", ["stream", "service"])
    def test_two_accounts_in_a_circle(self, kind: str) -> None:
        take = {"stream": stream, "service": service}[kind]
        export = Export(stream="x") if kind == "stream" else Export(service="x")
        a = exporting("A", export, imports=(take("B", "x"),))
        b = exporting("B", export, imports=(take("A", "x"),))
        found = refusal(a, b)
        assert found.startswith("accounts[0].imports[0]: 'x' of 'B' is in or behind a cycle")

    def test_an_account_may_rename_its_own_service_but_not_go_in_a_circle(self) -> None:
        own = exporting("B", Export(service="x"), imports=(service("B", "x", to="y"),))
        assert plan_of(own).service_imports
        circle = exporting("B", Export(service="x"), imports=(service("B", "x"),))
        assert "a cycle of imports" in refusal(circle)

    def test_a_circle_that_grows_its_subjects(self) -> None:
        a = exporting("A", Export(stream=">"), imports=(stream("B", ">", prefix="b"),))
        b = exporting("B", Export(stream=">"), imports=(stream("A", ">", prefix="a"),))
        assert "a cycle of imports" in refusal(a, b)

    def test_a_circle_through_wildcards_and_many_accounts(self) -> None:
        names = ["A", "B", "C", "D"]
        accounts = [
            exporting(name, Export(service="x.*"), imports=(service(names[i - 1], "x.*"),))
            for i, name in enumerate(names)
        ]
        assert "a cycle of imports" in refusal(*accounts)

    def test_opposite_ways_with_different_subjects_are_no_circle(self) -> None:
        a = exporting("A", Export(stream="a.>"), imports=(stream("B", "b.>"),))
        b = exporting("B", Export(stream="b.>"), imports=(stream("A", "a.>"),))
        assert plan_of(a, b).stream_imports

    def test_a_stream_and_a_service_are_no_circle(self) -> None:
        a = exporting("A", Export(stream="x"), imports=(service("B", "x"),))
        b = exporting("B", Export(service="x"), imports=(stream("A", "x"),))
        assert plan_of(a, b).stream_imports

    def test_chains_have_an_end(self) -> None:
        def chain(length: int) -> list[Account]:
            first = exporting("A0", Export(stream="x"))
            rest = [
                exporting(f"A{i}", Export(stream="x"), imports=(stream(f"A{i - 1}", "x"),))
                for i in range(1, length + 1)
            ]
            return [first, *rest]

        assert plan_accounts(chain(CHAIN_MAX))
        assert f"chain of more than {CHAIN_MAX}" in refusal(*chain(CHAIN_MAX + 1))

    def test_a_dense_graph_is_checked_in_no_time(self) -> None:
        # Every account imports from all before it: paths without number, but no circle.
        names = [f"A{i}" for i in range(CHAIN_MAX)]
        accounts = [
            exporting(
                name, Export(stream="x"), imports=tuple(stream(before, "x") for before in names[:i])
            )
            for i, name in enumerate(names)
        ]
        assert plan_accounts(accounts)


class TestLeniency:
    """What tokens of different owners say: one's mistake must not be another's."""

    GOOD = importing(service("A", "x"), name="GOOD")
    A = exporting("A", Export(service="x"), Export(stream="a..b"))

    @pytest.mark.parametrize(
        "bad",
        [
            importing(service("A", "y"), name="BAD"),
            importing(service("A", "x"), service("A", "x"), name="BAD"),
            importing(service("Z", "x"), name="BAD"),
            exporting("BAD", Export(service="c"), imports=(service("BAD", "c"),)),
            Account(
                name="BAD",
                mappings=(
                    Mapping(source="a", destinations=(MappingDestination(destination="$1"),)),
                ),
            ),
        ],
    )
    def test_what_cannot_be_is_left_out(self, bad: Account) -> None:
        plans = plan_accounts([self.A, bad, self.GOOD], is_lenient=True)
        assert len(plans["GOOD"].service_imports) == 1
        assert len(plans["BAD"].service_imports) <= 1
        assert plans["BAD"].mappings == ()

    def test_a_circle_is_cut_out(self) -> None:
        b = exporting("B", Export(service="x"), imports=(service("C", "x"),))
        c = exporting("C", Export(service="x"), imports=(service("B", "x"),))
        plans = plan_accounts([self.A, b, c, self.GOOD], is_lenient=True)
        assert [len(plans[n].service_imports) for n in ("B", "C", "GOOD")] == [0, 0, 1]
