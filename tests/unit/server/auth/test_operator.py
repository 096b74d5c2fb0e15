"""Operator mode: the whole chain of signatures, every time; expiry, revocation and scopes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.server.auth import Authenticator, AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.nkeys import KeyKind
from midge.server.auth.operator import is_revoked
from midge.server.config.options import Account, Operator, Options
from midge.server.errors import ConfigError
from tests.support.keys import UNLIMITED_ACCOUNT, KeyPair, make_old_token, make_token, unpadded

NOW_S = 1_000_000.0
NONCE = b"nonce-of-15-chr"
UNLIMITED = {"subs": -1, "data": -1, "payload": -1}

OPERATOR = KeyPair(KeyKind.OPERATOR)
ACCOUNT = KeyPair(KeyKind.ACCOUNT)
SIGNER = KeyPair(KeyKind.ACCOUNT)
SCOPED = KeyPair(KeyKind.ACCOUNT)
USER = KeyPair(KeyKind.USER)
STRANGER = KeyPair(KeyKind.ACCOUNT)

SCOPE = {
    "kind": "user_scope",
    "key": SCOPED.public,
    "role": "sensor",
    "template": {
        **UNLIMITED,
        "pub": {"allow": ["sensor.{{name()}}"]},
        "sub": {"deny": ["secret.>"]},
        "subs": 7,
    },
}


def account_token(issuer: KeyPair = OPERATOR, subject: str = ACCOUNT.public, **fields: Any) -> str:
    nats = {"signing_keys": [SIGNER.public, SCOPE], **fields.pop("nats", {})}
    return make_token(issuer, subject, "account", name="acme", nats=nats, **fields)


def user_token(issuer: KeyPair = ACCOUNT, subject: str = USER.public, **fields: Any) -> str:
    nats = {**UNLIMITED, **fields.pop("nats", {})}
    return make_token(issuer, subject, "user", name="ann", nats=nats, **fields)


def scoped_token(**fields: Any) -> str:
    nats = {"issuer_account": ACCOUNT.public, **fields.pop("nats", {})}
    return make_token(SCOPED, USER.public, "user", name="ann", nats=nats, **fields)


def authenticator(account: str | None = None, **settings: Any) -> Authenticator:
    preload = {ACCOUNT.public: account or account_token()}
    settings = {"trusted_keys": (OPERATOR.public,), "resolver_preload": preload, **settings}
    return Authenticator(Options(operator=Operator(**settings)), wall_clock=lambda: NOW_S)


def ask(token: str, by: Authenticator | None = None, **fields: Any) -> Verdict:
    fields = {"nonce": NONCE, "signature": USER.signature(NONCE), **fields}
    verdict = (by or authenticator()).authenticate(AuthRequest(jwt=token, **fields))
    assert isinstance(verdict, Verdict)
    return verdict


def why_refused(token: str, by: Authenticator | None = None, **fields: Any) -> str:
    verdict = ask(token, by, **fields)
    assert isinstance(verdict, Refusal), verdict
    return verdict.detail


def let_in(token: str, by: Authenticator | None = None, **fields: Any) -> Identity:
    verdict = ask(token, by, **fields)
    assert isinstance(verdict, Identity), verdict
    return verdict


class TestChain:
    def test_a_whole_chain_lets_in(self) -> None:
        identity = let_in(user_token())
        assert (identity.user, identity.account) == (USER.public, ACCOUNT.public)
        assert identity.rules is None
        assert identity.expires_at_s is None
        assert identity.display_name == "ann"

    def test_a_signing_key_stands_for_its_account(self) -> None:
        token = user_token(SIGNER, nats={"issuer_account": ACCOUNT.public})
        assert let_in(token).account == ACCOUNT.public
        assert let_in(token).issuer == SIGNER.public

    def test_every_broken_link_refuses(self) -> None:
        assert "issuer is no key of the account" in why_refused(
            user_token(STRANGER, nats={"issuer_account": ACCOUNT.public})
        )
        assert "account is unknown" in why_refused(user_token(STRANGER))
        other_operator = authenticator(account_token(KeyPair(KeyKind.OPERATOR)))
        assert "not signed by a trusted operator" in why_refused(user_token(), other_operator)
        self_signed = authenticator(account_token(ACCOUNT))
        assert "issuer is no key of the right kind" in why_refused(user_token(), self_signed)
        misplaced = authenticator(account_token(subject=STRANGER.public))
        assert "of another account" in why_refused(user_token(), misplaced)
        assert "subject is no user key" in why_refused(user_token(subject=ACCOUNT.public))
        assert "subject is no user key" in why_refused(user_token(subject=USER.public[:-3]))
        by_operator = user_token(OPERATOR, nats={"issuer_account": ACCOUNT.public})
        assert "issuer is no key of the right kind" in why_refused(by_operator)

    def test_a_signing_key_without_its_account_is_an_unknown_account(self) -> None:
        assert "account is unknown" in why_refused(user_token(SIGNER))

    def test_the_nonce_must_be_signed_by_the_user(self) -> None:
        wrong: list[dict[str, Any]] = [
            {"signature": ""},
            {"signature": USER.signature(b"old nonce")},
            {"signature": KeyPair(KeyKind.USER).signature(NONCE)},
            {"signature": ACCOUNT.signature(NONCE)},
            {"nonce": b"", "signature": USER.signature(b"")},
        ]
        for fields in wrong:
            assert "nonce is not signed" in why_refused(user_token(), **fields)

    def test_bearer_tokens_need_no_signature_unless_the_account_says_so(self) -> None:
        bearer = user_token(nats={"bearer_token": True})
        assert let_in(bearer, signature="").user == USER.public
        strict = authenticator(account_token(nats={"limits": {"disallow_bearer": True}}))
        assert "nonce is not signed" in why_refused(bearer, strict, signature="")


class TestTokens:
    def test_an_altered_token_is_refused(self) -> None:
        head, body, signature = user_token().split(".")
        claims = json.loads(bytes_of(body))
        claims["name"] = "root"
        forged = f"{head}.{unpadded(json.dumps(claims).encode())}.{signature}"
        assert "not signed by its issuer" in why_refused(forged)

    @pytest.mark.parametrize(
        "header",
        [
            {"typ": "JWT", "alg": "none"},
            {"typ": "JWT", "alg": "HS256"},
            {"typ": "JWT"},
            {},
        ],
    )
    def test_other_algorithms_are_refused(self, header: dict[str, str]) -> None:
        assert "another kind or algorithm" in why_refused(user_token(header=header))

    @pytest.mark.parametrize(
        "token", ["", ".", "..", "...", "a.b.c", "eyJ.eyJ.eyJ", "é.é.é", "x" * (1 << 21)]
    )
    def test_garbage_is_refused(self, token: str) -> None:
        assert why_refused(token)

    @pytest.mark.parametrize(
        "nats",
        [
            {"type": "account"},
            {"type": ""},
            {"version": 1},
            {"version": "2"},
            {"pub": []},
            {"pub": {"allow": "a"}},
            {"resp": {"max": "1"}},
            {"subs": 1.5},
            {"subs": None},
            {"bearer_token": "true"},
            {"issuer_account": 5},
            {"issuer_account": "A"},
            {"src": 5},
            {"src": ["not an address"]},
            {"times": [{"start": "x", "end": "y"}]},
            {"times": [{}]},
            {"times": [{"start": "00:00:00", "end": "23:00:00"}], "times_location": "No/Where"},
            {"times": [{"start": "00:00:00", "end": "23:00:00"}], "times_location": "../../x"},
            {"pub": {"allow": ["a..b"]}},
            {"pub": {"deny": ["a b c"]}},
        ],
    )
    def test_claims_that_do_not_fit_are_refused(self, nats: dict[str, Any]) -> None:
        assert why_refused(user_token(nats=nats), peer_host="127.0.0.1")

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
    @pytest.mark.parametrize("claim", ["exp", "iat", "nbf", "subs", "payload", "data"])
    def test_numbers_of_more_than_64_bits_are_refused(self, claim: str, number: int) -> None:
        beside = {claim: number} if claim in {"exp", "iat", "nbf"} else {}
        inside = {} if beside else {claim: number}
        assert why_refused(user_token(nats=inside, **beside))

    @pytest.mark.parametrize(
        "nats",
        [
            {"limits": {**UNLIMITED_ACCOUNT, "subs": 2**70}},
            {"exports": [{"subject": "a", "type": "service", "response_threshold": 10**400}]},
            {"exports": [{"subject": "*", "type": "stream", "account_token_position": 2**70}]},
            {"revocations": {"*": 2**70}},
        ],
    )
    def test_numbers_of_accounts_have_64_bits_too(self, nats: dict[str, Any]) -> None:
        by = authenticator(account_token(nats=nats))
        assert why_refused(user_token(), by)

    def test_unknown_claims_and_missing_ones_are_no_matter(self) -> None:
        assert (
            let_in(make_token(ACCOUNT, USER.public, "user", new=1, nats={"newer": {}})).user
            == USER.public
        )

    def test_what_an_account_token_leaves_out_is_not_allowed(self) -> None:
        silent = authenticator(account_token(nats={"limits": {"subs": -1}}))
        assert let_in(user_token(), silent).max_payload_bytes == 0
        silent = authenticator(account_token(nats={"limits": {"payload": -1}}))
        assert let_in(user_token(), silent).max_subscriptions == 0

    def test_deep_nesting_is_refused(self) -> None:
        deep = ("[" * 100_000 + "]" * 100_000).encode()
        head = user_token().split(".")[0]
        assert why_refused(f"{head}.{unpadded(deep)}.x")

    @given(st.text(alphabet="eyJ.abc-_=0", max_size=200))
    def test_no_text_raises(self, token: str) -> None:
        assert isinstance(ask(token), Refusal)


class TestExternalService:
    """An account may let a service decide on its users."""

    @pytest.mark.parametrize("users", [[], None, [STRANGER.public]])
    def test_an_account_with_a_service_is_found_whether_the_user_is_proven_or_not(
        self, users: Any
    ) -> None:
        by = authenticator(account_token(nats={"authorization": {"auth_users": users}}))
        assert by.operator is not None
        found = by.operator.delegating(AuthRequest(jwt=user_token()), NOW_S)
        assert (found is not None) == bool(users)
        assert by.operator.delegating(AuthRequest(jwt="eyJ"), NOW_S) is None
        assert by.operator.delegating(AuthRequest(jwt=user_token(exp=1)), NOW_S) is None


def test_a_revocation_of_another_user_means_nothing_for_a_token_from_before_1970() -> None:
    assert not is_revoked({STRANGER.public: 2000}, USER.public, -5)
    assert is_revoked({USER.public: 2000}, USER.public, -5)
    assert is_revoked({"*": -4}, USER.public, -5)
    assert not is_revoked({"*": -6}, USER.public, -5)


class TestVersion1:
    """Tokens as they were before 2020: many files still hold them."""

    OLD_ACCOUNT = make_old_token(
        OPERATOR, ACCOUNT.public, "account", {"limits": UNLIMITED_ACCOUNT, "signing_keys": []}
    )

    def by(self, account: str = OLD_ACCOUNT) -> Authenticator:
        operator = make_old_token(OPERATOR, OPERATOR.public, "operator", name="o")
        return authenticator(account, trusted_keys=(), jwts=(operator,))

    def user(self, issuer: KeyPair = ACCOUNT, nats: Any = None, **claims: Any) -> str:
        return make_old_token(issuer, USER.public, "user", nats or {"pub": {}}, **claims)

    def test_a_whole_chain_lets_in_without_limits(self) -> None:
        identity = let_in(self.user(), self.by())
        assert (identity.user, identity.account) == (USER.public, ACCOUNT.public)
        assert (identity.max_subscriptions, identity.max_payload_bytes) == (-1, -1)

    def test_its_account_stands_beside_nats(self) -> None:
        token = self.user(SIGNER, issuer_account=ACCOUNT.public)
        assert let_in(token, self.by(account_token())).account == ACCOUNT.public

    def test_its_permissions_hold(self) -> None:
        identity = let_in(self.user(nats={"sub": {"deny": ["secret"]}}), self.by())
        assert identity.rules is not None

    @pytest.mark.parametrize(
        ("nats", "claims"),
        [
            ({"pub": 5}, {}),
            ({}, {"type": "account"}),
            ({}, {"type": 5}),
            ({}, {"exp": 1}),
            ({}, {"issuer_account": "A"}),
            ([], {}),
        ],
    )
    def test_claims_that_do_not_fit_are_refused(self, nats: Any, claims: dict[str, Any]) -> None:
        body = {"type": "user", **claims}
        kind = body.pop("type")
        assert why_refused(make_old_token(ACCOUNT, USER.public, kind, nats, **body), self.by())

    def test_the_two_forms_do_not_mix(self) -> None:
        newer = user_token(header={"typ": "JWT", "alg": "ed25519"})
        assert "no user token" in why_refused(newer)
        head = user_token().split(".")[0]
        older = ".".join([head, *self.user().split(".")[1:]])
        assert "no user token" in why_refused(older)

    def test_only_its_body_is_signed_and_that_must_be(self) -> None:
        head, _, signature = self.user().split(".")
        claims = {"iss": ACCOUNT.public, "sub": USER.public, "type": "user", "nats": {}}
        forged = f"{head}.{unpadded(json.dumps(claims).encode())}.{signature}"
        assert "not signed by its issuer" in why_refused(forged, self.by())


class TestTime:
    def test_expired_and_early_tokens_are_refused(self) -> None:
        assert "user token has expired" in why_refused(user_token(exp=int(NOW_S)))
        assert "token is not valid yet" in why_refused(user_token(nbf=int(NOW_S) + 1))
        expired = authenticator(account_token(exp=int(NOW_S) - 1))
        assert "account token has expired" in why_refused(user_token(), expired)

    def test_the_first_expiry_ends_the_connection(self) -> None:
        lasting = authenticator(account_token(exp=int(NOW_S) + 50))
        user_first = let_in(user_token(exp=int(NOW_S) + 10), lasting)
        assert (user_first.expires_at_s, user_first.ends_with_account) == (NOW_S + 10, False)
        for user_s in (50, 90):
            account_first = let_in(user_token(exp=int(NOW_S) + user_s), lasting)
            assert account_first.expires_at_s == NOW_S + 50
            assert account_first.ends_with_account

    def test_only_a_user_who_proves_its_key_is_told_that_its_token_has_expired(self) -> None:
        token = user_token(exp=int(NOW_S))
        refused = ask(token)
        assert isinstance(refused, Refusal)
        assert refused.wire == "User Authentication Expired"
        stranger = ask(token, signature=KeyPair(KeyKind.USER).signature(NONCE))
        assert isinstance(stranger, Refusal)
        assert stranger.wire == "Authorization Violation"

    @pytest.mark.parametrize(
        ("start", "end", "ends"),
        [
            ("13:00:00", "14:30:00", "14:30:00"),
            ("22:00:00", "14:00:00", "14:00:00"),
            ("13:00:00", "01:00:00", "01:00:00 next day"),
            ("14:00:00", "15:00:00", None),
            ("14:00:00", "13:00:00", None),
        ],
    )
    def test_times_of_day(self, start: str, end: str, ends: str | None) -> None:
        # NOW_S is 13:46:40 UTC.
        token = user_token(nats={"times": [{"start": start, "end": end}], "times_location": "UTC"})
        if ends is None:
            assert "time of day" in why_refused(token)
            return
        expires_at_s = let_in(token).expires_at_s
        assert expires_at_s is not None
        expected = f"{13 if 'next' in ends else 12:02} {ends.split()[0]}"
        assert f"{datetime.fromtimestamp(expires_at_s, UTC):%d %H:%M:%S}" == expected


class TestRevocation:
    @pytest.mark.parametrize(
        ("revocations", "is_revoked"),
        [
            ({USER.public: 1000}, True),
            ({USER.public: 999}, False),
            ({"*": 1000}, True),
            ({"*": 999}, False),
            ({USER.public: 999, "*": 1000}, True),
            ({ACCOUNT.public: 5000}, False),
        ],
    )
    def test_what_was_issued_before_is_refused(
        self, revocations: dict[str, int], is_revoked: bool
    ) -> None:
        by = authenticator(account_token(nats={"revocations": revocations}))
        assert isinstance(ask(user_token(), by), Refusal) == is_revoked

    def test_a_connected_user_can_be_revoked(self, tmp_path: Path) -> None:
        file = tmp_path / f"{ACCOUNT.public}.jwt"
        file.write_text(account_token())
        by = authenticator(
            resolver="directory", resolver_directory=str(tmp_path), resolver_preload={}
        )
        assert by.operator is not None
        identity = let_in(user_token(), by)
        assert by.operator.why_ended(identity, NOW_S) is None
        file.write_text(account_token(nats={"revocations": {USER.public: 1000}}))
        ended = by.operator.why_ended(identity, NOW_S)
        assert ended is not None
        assert ended.wire == "User Authentication Revoked"
        file.write_text(account_token(exp=5))
        ended = by.operator.why_ended(identity, NOW_S)
        assert ended is not None
        assert ended.wire == "Account Authentication Expired"
        file.unlink()
        assert by.operator.why_ended(identity, NOW_S) is not None

    def test_a_removed_signing_key_ends_its_users(self, tmp_path: Path) -> None:
        file = tmp_path / f"{ACCOUNT.public}.jwt"
        file.write_text(account_token())
        by = authenticator(
            resolver="directory", resolver_directory=str(tmp_path), resolver_preload={}
        )
        assert by.operator is not None
        identity = let_in(user_token(SIGNER, nats={"issuer_account": ACCOUNT.public}), by)
        file.write_text(account_token(nats={"signing_keys": []}))
        assert by.operator.why_ended(identity, NOW_S) is not None


class TestScopes:
    def test_the_template_decides(self) -> None:
        identity = let_in(scoped_token())
        assert identity.rules is not None
        assert identity.rules.check_publish(b"sensor.ann")
        assert not identity.rules.check_publish(b"sensor.bob")
        assert not identity.rules.check_subscribe(b"secret.x", None)
        assert identity.max_subscriptions == 7

    @pytest.mark.parametrize(
        "nats",
        [
            {"pub": {"allow": [">"]}},
            {"sub": {"deny": ["x"]}},
            {"subs": -1},
            {"bearer_token": True},
            {"resp": {"max": 1}},
            {"src": ["127.0.0.1/32"]},
            {"allowed_connection_types": ["STANDARD"]},
        ],
    )
    def test_the_user_may_bring_nothing(self, nats: dict[str, Any]) -> None:
        assert "may not bring limits" in why_refused(scoped_token(nats=nats))

    def test_an_unknown_scope_is_refused(self) -> None:
        by = authenticator(account_token(nats={"signing_keys": [{**SCOPE, "kind": "new"}]}))
        assert "unknown scope" in why_refused(scoped_token(), by)

    def test_a_template_that_cannot_be_filled_in_refuses(self) -> None:
        scope = {**SCOPE, "template": {"sub": {"deny": ["{{tag(none)}}"]}}}
        by = authenticator(account_token(nats={"signing_keys": [scope]}))
        assert "cannot be filled in" in why_refused(scoped_token(), by)


class TestLimits:
    def test_the_lower_of_user_and_account_counts(self) -> None:
        by = authenticator(account_token(nats={"limits": {"subs": 5, "payload": 100}}))
        identity = let_in(user_token(nats={"subs": 9, "payload": 50}), by)
        assert (identity.max_subscriptions, identity.max_payload_bytes) == (5, 50)

    def test_addresses(self) -> None:
        token = user_token(nats={"src": ["10.0.0.0/8", "::1/128"]})
        assert let_in(token, peer_host="10.1.2.3").user == USER.public
        assert let_in(token, peer_host="::1").user == USER.public
        assert "from this address" in why_refused(token, peer_host="11.1.2.3")
        assert why_refused(token, peer_host="")

    def test_connection_types(self) -> None:
        token = user_token(nats={"allowed_connection_types": ["websocket", "FUTURE"]})
        assert let_in(token, connection_type="WEBSOCKET").user == USER.public
        assert "may not connect by STANDARD" in why_refused(token)
        unknown = user_token(nats={"allowed_connection_types": ["FUTURE"]})
        assert why_refused(unknown)

    def test_defaults_of_the_account(self) -> None:
        by = authenticator(
            account_token(nats={"default_permissions": {"pub": {"allow": ["d"]}, "sub": {}}})
        )
        identity = let_in(user_token(), by)
        assert identity.rules is not None
        assert not identity.rules.check_publish(b"x")
        own = let_in(user_token(nats={"sub": {"allow": ["s"]}}), by)
        assert own.rules is not None
        assert own.rules.check_publish(b"x")

    def test_responses(self) -> None:
        identity = let_in(user_token(nats={"resp": {"max": 3, "ttl": 5_000_000_000}}))
        assert identity.rules is not None
        assert (identity.rules.responses_max, identity.rules.responses_expire_s) == (3, 5.0)
        assert not identity.rules.check_publish(b"x")

    def test_pinned_accounts(self) -> None:
        pinned = authenticator(resolver_pinned_accounts=(STRANGER.public,))
        assert "not pinned" in why_refused(user_token(), pinned)


class TestOperators:
    def test_operator_tokens_bring_their_keys(self, tmp_path: Path) -> None:
        signing = KeyPair(KeyKind.OPERATOR)
        nats = {"signing_keys": [signing.public]}
        token = make_token(OPERATOR, OPERATOR.public, "operator", nats=nats)
        file = tmp_path / "operator.jwt"
        file.write_text(f"-----BEGIN NATS OPERATOR JWT-----\n{token}\n------END ------\n")
        by = authenticator(account_token(signing), trusted_keys=(), jwts=(str(file),))
        assert let_in(user_token(), by).user == USER.public
        strict = make_token(
            OPERATOR, OPERATOR.public, "operator", nats={**nats, "strict_signing_key_usage": True}
        )
        by = authenticator(trusted_keys=(), jwts=(strict,))
        assert "not signed by a trusted operator" in why_refused(user_token(), by)

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"trusted_keys": ("OABC",)}, "expected an operator key, got 'OABC'"),
            (
                {"jwts": ("missing.jwt",)},
                "expected an operator token or its file: open missing.jwt: no such file",
            ),
            ({"jwts": ("eyJ.x.y",)}, "expected an operator token or its file"),
            ({"resolver_preload": {}}, "operator mode needs an account resolver"),
            (
                {"resolver": "directory", "resolver_directory": __file__},
                f"expected a directory, got {__file__!r}",
            ),
        ],
    )
    def test_bad_settings_are_refused(self, settings: dict[str, Any], text: str) -> None:
        with pytest.raises(ConfigError) as raised:
            authenticator(**settings)
        assert text in str(raised.value)

    def test_configured_accounts_do_not_go_with_tokens(self) -> None:
        settings = Options(
            operator=Operator(trusted_keys=(OPERATOR.public,)), accounts=(Account(name="A"),)
        )
        with pytest.raises(ConfigError, match="from tokens only"):
            Authenticator(settings)


def bytes_of(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
