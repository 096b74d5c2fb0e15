"""Authentication by configuration: every mode, and what each must refuse."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import bcrypt
import pytest
from cryptography import x509
from msgspec import structs

from midge.server.auth import Authenticator, AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.certificates import public_key_fingerprint
from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import (
    Account,
    AccountLimits,
    Authorization,
    LeafNodes,
    Options,
    Permissions,
    SubjectPermissions,
    Tls,
    User,
    WebSocket,
    WebSocketAuthorization,
)
from midge.server.errors import ConfigError
from tests.support.keys import Authority, KeyPair, der

SALT = b"$2b$04$abcdefghijklmnopqrstuu"  # always the same, for it is in the names of tests
HASH = bcrypt.hashpw(b"s3cret", SALT).decode()
NONCE = b"nonce-of-15-chr"
ONLY_A = Permissions(publish=SubjectPermissions(allow=("a",)))
ONLY_B = Permissions(publish=SubjectPermissions(allow=("b",)))


async def ask(settings: Options, **fields: Any) -> Verdict:
    authenticator = Authenticator(settings)
    verdict = authenticator.authenticate(AuthRequest(**fields))
    result = await verdict if isinstance(verdict, Awaitable) else verdict
    authenticator.close()
    return result


async def is_user(settings: Options, name: str, **fields: Any) -> bool:
    verdict = await ask(settings, **fields)
    return isinstance(verdict, Identity) and verdict.user == name


async def is_refused(settings: Options, **fields: Any) -> bool:
    verdict = await ask(settings, **fields)
    return isinstance(verdict, Refusal) and verdict.wire == "Authorization Violation"


def authorized(**fields: Any) -> Options:
    return Options(authorization=Authorization(**fields))


class TestOpen:
    async def test_without_settings_everybody_is_the_global_account(self) -> None:
        assert await ask(Options()) == Identity(user="", account="$G")
        assert not Authenticator(Options()).is_required_by("STANDARD")

    @pytest.mark.parametrize(
        ("settings", "kinds"),
        [
            (Options(), {"STANDARD", "WEBSOCKET"}),
            (authorized(token="t"), set()),
            (Options(tls=Tls(verify=True, pinned_certs=("0" * 64,))), {"WEBSOCKET"}),
        ],
    )
    async def test_listeners_that_check_nothing_are_open(
        self, settings: Options, kinds: set[str]
    ) -> None:
        assert Authenticator(settings).open_listeners >= kinds
        for kind in ("STANDARD", "WEBSOCKET"):
            is_open = await ask(settings, connection_type=kind) == Identity()
            assert is_open is (kind in kinds)
            assert (kind in Authenticator(settings).open_listeners) is is_open

    async def test_credentials_nobody_asked_for_are_ignored(self) -> None:
        assert await ask(Options(), user="x", password="y", token="z") == Identity()

    @pytest.mark.parametrize("name", ["$SYS", "SYS"])
    async def test_with_users_of_the_system_account_alone_others_enter_the_global_account(
        self, name: str
    ) -> None:
        account = Account(name=name, users=(User(user="s", password="p"),))
        chosen = "" if name == "$SYS" else name
        system_only = Options(accounts=(account,), system_account=chosen)
        assert Authenticator(system_only).is_required_by("STANDARD")
        entered = await ask(system_only)
        assert isinstance(entered, Identity)
        assert entered.account == "$G"
        assert entered.user.startswith("nats-")  # a made-up name, as on nats-server
        assert await is_user(system_only, "s", user="s", password="p")
        for wrong in ({"user": "s"}, {"user": "x"}, {"password": "p"}, {"token": "t"}):
            assert await is_refused(system_only, **wrong)
        for closed in (
            structs.replace(system_only, accounts=(account, Account(name="A"))),
            structs.replace(system_only, authorization=Authorization(timeout_s=1)),
            structs.replace(system_only, system_account="$SYS" if chosen else "A"),
        ):
            assert await is_refused(closed)


class TestToken:
    @pytest.mark.parametrize(("stored", "sent"), [("t0ken", "t0ken"), (HASH, "s3cret")])
    async def test_the_right_token_lets_in(self, stored: str, sent: str) -> None:
        assert isinstance(await ask(authorized(token=stored), token=sent), Identity)

    @pytest.mark.parametrize("stored", ["t0ken", HASH])
    @pytest.mark.parametrize(
        "fields",
        [{}, {"token": "x"}, {"token": ""}, {"password": "t0ken"}, {"user": "t0ken"}],
    )
    async def test_anything_else_does_not(self, stored: str, fields: dict[str, str]) -> None:
        assert await is_refused(authorized(token=stored), **fields)


class TestSingleUser:
    @pytest.mark.parametrize(("stored", "sent"), [("pw", "pw"), (HASH, "s3cret")])
    async def test_the_right_name_and_password_let_in(self, stored: str, sent: str) -> None:
        settings = authorized(user="me", password=stored)
        assert await is_user(settings, "me", user="me", password=sent)

    @pytest.mark.parametrize("stored", ["pw", HASH])
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"user": "me"},
            {"user": "you", "password": "pw"},
            {"user": "you", "password": "s3cret"},
            {"password": "pw"},
            {"token": "pw"},
            {"user": "me", "password": "pw "},
            {"nkey": "me", "signature": "x"},
        ],
    )
    async def test_anything_else_does_not(self, stored: str, fields: dict[str, str]) -> None:
        assert await is_refused(authorized(user="me", password=stored), **fields)


class TestUsers:
    SETTINGS = Options(
        authorization=Authorization(
            users=(
                User(user="a", password="pa", permissions=ONLY_A),
                User(user="b", password=HASH),
                User(user="ws", password="pw", allowed_connection_types=("WEBSOCKET",)),
            ),
            default_permissions=ONLY_B,
        ),
        accounts=(
            Account(
                name="ACC",
                users=(User(user="c", password="pc"),),
                limits=AccountLimits(max_payload_bytes=100),
            ),
        ),
    )

    async def test_each_user_has_its_account_and_permissions(self) -> None:
        found = [
            await ask(self.SETTINGS, user=name, password=password)
            for name, password in (("a", "pa"), ("b", "s3cret"), ("c", "pc"))
        ]
        identities = [verdict for verdict in found if isinstance(verdict, Identity)]
        assert [identity.account for identity in identities] == ["$G", "$G", "ACC"]
        rules = [identity.rules for identity in identities]
        assert [r and r.check_publish(b"a") for r in rules] == [True, False, None]
        assert [r and r.check_publish(b"b") for r in rules] == [False, True, None]
        assert [identity.max_payload_bytes for identity in identities] == [-1, -1, 100]

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"user": "a"},
            {"user": "a", "password": "pb"},
            {"user": "b", "password": HASH},
            {"user": "nobody", "password": "pa"},
            {"user": "nobody", "password": "s3cret"},
            {"user": "ws", "password": "pw"},
            {"token": "pa"},
            {"user": "", "password": "pa"},
        ],
    )
    async def test_the_wrong_ones_are_refused(self, fields: dict[str, str]) -> None:
        assert await is_refused(self.SETTINGS, **fields)

    async def test_connection_types_are_kept_to(self) -> None:
        assert await is_user(
            self.SETTINGS, "ws", user="ws", password="pw", connection_type="WEBSOCKET"
        )

    async def test_a_user_without_password_takes_none(self) -> None:
        settings = authorized(users=(User(user="a"),))
        assert await is_user(settings, "a", user="a")
        assert await is_refused(settings, user="a", password="x")


class TestNoAuthUser:
    SETTINGS = authorized(
        users=(User(user="guest", password="g"), User(user="a", password="pa")),
        no_auth_user="guest",
    )

    async def test_a_silent_client_is_that_user(self) -> None:
        assert await is_user(self.SETTINGS, "guest")
        assert Authenticator(self.SETTINGS).admits_silent_clients("STANDARD")

    async def test_a_user_token_counts_for_nothing_outside_operator_mode(self) -> None:
        assert await is_user(self.SETTINGS, "guest", jwt="eyJ", signature="x")

    async def test_nor_does_a_key_where_there_are_none(self) -> None:
        assert await is_user(self.SETTINGS, "guest", nkey="x", signature="x")

    @pytest.mark.parametrize(
        "fields",
        [
            {"user": "a"},
            {"user": "guest", "password": "x"},
            {"password": "g"},
            {"token": "x"},
        ],
    )
    async def test_wrong_credentials_are_still_refused(self, fields: dict[str, str]) -> None:
        assert await is_refused(self.SETTINGS, **fields)

    async def test_its_connection_types_are_kept_to(self) -> None:
        guest = User(user="guest", allowed_connection_types=("WEBSOCKET",))
        settings = authorized(users=(guest,), no_auth_user="guest")
        assert await is_refused(settings)
        assert await is_user(settings, "guest", connection_type="WEBSOCKET")


class TestNkeys:
    PAIR = KeyPair(KeyKind.USER)
    SETTINGS = authorized(users=(User(nkey=PAIR.public, permissions=ONLY_A),))

    async def test_who_signs_the_nonce_is_let_in(self) -> None:
        signature = self.PAIR.signature(NONCE)
        name = self.PAIR.public
        assert await is_user(self.SETTINGS, name, nkey=name, signature=signature, nonce=NONCE)
        assert Authenticator(self.SETTINGS).needs_nonce

    async def test_everyone_else_is_refused(self) -> None:
        other = KeyPair(KeyKind.USER)
        mine, signature = self.PAIR.public, self.PAIR.signature(NONCE)
        assert await is_refused(self.SETTINGS, nonce=NONCE)
        assert await is_refused(self.SETTINGS, nkey=mine, nonce=NONCE)
        assert await is_refused(self.SETTINGS, nkey=mine, signature=signature, nonce=b"other")
        assert await is_refused(self.SETTINGS, nkey=mine, signature=signature, nonce=b"")
        assert await is_refused(self.SETTINGS, nkey=mine, signature=signature[:-4], nonce=NONCE)
        assert await is_refused(self.SETTINGS, nkey=mine[:30], signature=signature, nonce=NONCE)
        assert await is_refused(
            self.SETTINGS, nkey=mine, signature=other.signature(NONCE), nonce=NONCE
        )
        assert await is_refused(
            self.SETTINGS, nkey=other.public, signature=other.signature(NONCE), nonce=NONCE
        )


class TestCertificates:
    AUTHORITY = Authority()

    def settings(self, *names: str, **fields: Any) -> Options:
        users = tuple(User(user=name) for name in names)
        return Options(
            authorization=Authorization(users=users, **fields), tls=Tls(verify_and_map=True)
        )

    def certificate(self, subject: str, *alternatives: x509.GeneralName) -> bytes:
        return der(self.AUTHORITY.issue(subject, list(alternatives))[0])

    async def test_the_first_fitting_name_is_the_user(self) -> None:
        certificate = self.certificate(
            "CN=subject", x509.DNSName("dns"), x509.RFC822Name("me@mail")
        )
        everyone = self.settings("CN=subject", "dns", "me@mail")
        assert await is_user(everyone, "me@mail", certificate=certificate)
        assert await is_user(self.settings("CN=subject", "dns"), "dns", certificate=certificate)
        only_subject = self.settings("CN=subject")
        assert await is_user(only_subject, "CN=subject", certificate=certificate)

    async def test_a_multi_valued_name_is_compared_whole(self) -> None:
        settings = self.settings("CN=admin,OU=ops")
        assert await is_refused(settings, certificate=self.certificate("CN=admin+OU=ops"))
        assert await is_refused(settings, certificate=self.certificate("CN=admin"))
        reordered = self.certificate("OU=ops,CN=admin")
        assert await is_user(settings, "CN=admin,OU=ops", certificate=reordered)

    async def test_no_certificate_or_an_unknown_one_is_refused(self) -> None:
        settings = self.settings("CN=subject", no_auth_user="CN=subject")
        assert await is_refused(settings)
        assert await is_refused(settings, user="CN=subject")
        assert await is_refused(settings, certificate=b"garbage")
        assert await is_refused(settings, certificate=self.certificate("CN=other"))
        assert await is_refused(settings, certificate=self.certificate(""))

    async def test_a_password_is_asked_for_beside_the_certificate(self) -> None:
        settings = Options(
            authorization=Authorization(users=(User(user="CN=a", password="pw"),)),
            tls=Tls(verify_and_map=True),
        )
        certificate = self.certificate("CN=a")
        assert await is_refused(settings, certificate=certificate)
        assert await is_user(settings, "CN=a", certificate=certificate, password="pw")

    async def test_a_listener_that_does_not_map_takes_no_passwordless_user(self) -> None:
        settings = self.settings("CN=a", "b")
        assert await is_refused(settings, user="b", connection_type="WEBSOCKET")

    async def test_each_listener_maps_for_itself(self) -> None:
        settings = Options(
            authorization=Authorization(users=(User(user="CN=a"),)),
            websocket=WebSocket(tls=Tls(verify_and_map=True)),
        )
        certificate = self.certificate("CN=a")
        assert await is_user(settings, "CN=a", certificate=certificate, connection_type="WEBSOCKET")
        assert await is_refused(settings, certificate=certificate)

    async def test_pinned_certificates_are_the_only_ones(self) -> None:
        good, bad = self.certificate("CN=a"), self.certificate("CN=a")
        pin = public_key_fingerprint(good)
        assert pin is not None
        settings = Options(tls=Tls(verify=True, pinned_certs=(pin.upper(),)))
        assert isinstance(await ask(settings, certificate=good), Identity)
        assert await is_refused(settings, certificate=bad)
        assert await is_refused(settings)

    async def test_each_listener_has_pins_of_its_own(self) -> None:
        good, bad = self.certificate("CN=a"), self.certificate("CN=a")
        pin = public_key_fingerprint(good)
        assert pin is not None
        settings = Options(websocket=WebSocket(tls=Tls(verify=True, pinned_certs=(pin,))))
        assert isinstance(await ask(settings), Identity)
        by = {"connection_type": "WEBSOCKET"}
        assert isinstance(await ask(settings, certificate=good, **by), Identity)
        assert await is_refused(settings, certificate=bad, **by)
        assert await is_refused(settings, **by)


@pytest.mark.parametrize("name", ["plain", "hashed", "nobody"])
async def test_names_cannot_be_probed_by_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password always costs one hash check, whether the user exists or not."""
    looked: list[str] = []

    def check(stored: str, offered: str) -> bool:
        looked.append(stored)
        return False

    monkeypatch.setattr("midge.server.auth.passwords.is_hash_of", check)
    settings = authorized(
        users=(User(user="plain", password="s3cret"), User(user="hashed", password=HASH))
    )
    assert await is_refused(settings, user=name, password="wrong")
    assert looked == [HASH]


class TestMistakes:
    async def test_an_error_of_our_own_refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        authenticator = Authenticator(authorized(token="t"))
        monkeypatch.setattr(authenticator, "_users", None)
        verdict = authenticator.authenticate(AuthRequest(token="t"))
        assert isinstance(verdict, Refusal)
        assert verdict.detail.startswith("internal error: ")

    async def test_an_error_in_a_thread_refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        authenticator = Authenticator(authorized(token=HASH))
        monkeypatch.setattr(authenticator, "_passwords", None)
        verdict = authenticator.authenticate(AuthRequest(token="s3cret"))
        assert not isinstance(verdict, Verdict)
        refusal = await verdict
        assert isinstance(refusal, Refusal)

    def test_secrets_are_not_shown(self) -> None:
        request = AuthRequest(user="u", password="pw-1", token="tok-1", jwt="jwt-1")
        assert not any(secret in repr(request) for secret in ("pw-1", "tok-1", "jwt-1"))


class TestWebSocket:
    """The WebSocket listener's own rules, which apply to it alone."""

    @staticmethod
    def settings(shared: Authorization | None = None, **own: Any) -> Options:
        table = WebSocket(authorization=WebSocketAuthorization(**own))
        return Options(authorization=shared or Authorization(), websocket=table)

    @pytest.mark.parametrize("stored", ["pw", HASH])
    async def test_its_user_comes_in_there_alone(self, stored: str) -> None:
        sent = "pw" if stored == "pw" else "s3cret"
        settings = self.settings(Authorization(token="t"), user="me", password=stored)
        offered = {"user": "me", "password": sent}
        assert await is_user(settings, "me", connection_type="WEBSOCKET", **offered)
        assert await is_refused(settings, **offered)
        assert await is_refused(settings, connection_type="WEBSOCKET", token="t")
        assert isinstance(await ask(settings, token="t"), Identity)

    async def test_its_token_outweighs_its_user(self) -> None:
        settings = self.settings(user="me", password="pw", token="t")
        by = {"connection_type": "WEBSOCKET"}
        assert isinstance(await ask(settings, token="t", **by), Identity)
        assert await is_refused(settings, user="me", password="pw", **by)

    async def test_it_closes_that_listener_alone(self) -> None:
        settings = self.settings(token="t")
        assert await is_refused(settings, connection_type="WEBSOCKET")
        assert await ask(settings) == Identity()
        authenticator = Authenticator(settings)
        assert authenticator.is_required_by("WEBSOCKET")
        assert not authenticator.admits_silent_clients("WEBSOCKET")
        assert not authenticator.is_required_by("STANDARD")

    async def test_it_never_opens_what_is_closed(self) -> None:
        users = (User(user="a", password="pa"), User(user="guest"))
        settings = self.settings(Authorization(users=users), no_auth_user="guest")
        by = {"connection_type": "WEBSOCKET"}
        assert await is_user(settings, "guest", **by)
        assert await is_user(settings, "a", user="a", password="pa", **by)
        assert await is_refused(settings, user="a", password="x", **by)
        assert await is_refused(settings)

    async def test_without_rules_of_its_own_it_has_the_shared_ones(self) -> None:
        settings = self.settings(Authorization(token="t"), timeout_s=3)
        by = {"connection_type": "WEBSOCKET"}
        assert isinstance(await ask(settings, token="t", **by), Identity)
        assert await is_refused(settings, **by)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            TestWebSocket.settings(no_auth_user="a"),
            "websocket.authorization.no_auth_user: 'a' is no configured user",
        ),
        (authorized(users=(User(user="a"), User(user="a"))), "duplicate user 'a'"),
        (authorized(users=(User(),)), "expected a user or an nkey"),
        (authorized(users=(User(nkey="UABC"),)), "expected a public user key, got 'UABC'"),
        (authorized(user="a", token="t"), "expected a user, or users and a token"),
        (authorized(password="p"), "a password needs a user"),
        (authorized(no_auth_user="a"), "'a' is no configured user"),
        (
            authorized(users=(User(user="a"),), no_auth_user="b"),
            "authorization.no_auth_user: 'b' is no configured user",
        ),
        (
            authorized(
                users=(
                    User(
                        user="a",
                        permissions=Permissions(publish=SubjectPermissions(deny=("a..b",))),
                    ),
                )
            ),
            "authorization.users[0].permissions: publish.deny: expected a subject",
        ),
        (Options(tls=Tls(pinned_certs=("abc",))), "expected 64 hex digits, got 'abc'"),
        (
            Options(leafnodes=LeafNodes(tls=Tls(pinned_certs=("z" * 64,)))),
            "leafnodes.tls.pinned_certs: expected 64 hex digits",
        ),
        (authorized(hook="nowhere_at_all:hook"), "installed, or its folder be in PYTHONPATH"),
        (authorized(hook="os:sep"), "expected 'os:sep' to be callable, got str"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Options, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Authenticator(settings)
    assert text in str(raised.value)
