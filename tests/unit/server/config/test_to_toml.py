"""Options as TOML text that loads again."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from midge.server import preflight as config
from midge.server.config.options import (
    Account,
    Authorization,
    Options,
    Permissions,
    Pipeline,
    Recorder,
    SubjectPermissions,
    User,
    WebSocket,
    WebSocketAuthorization,
)
from midge.server.config.to_toml import TomlWriter, effective, toml_value

if TYPE_CHECKING:
    from pathlib import Path

FULL = Options(
    server_name="x",
    websocket=WebSocket(
        headers={"X-A": 'q"\\'}, authorization=WebSocketAuthorization(no_auth_user="u")
    ),
    pipeline=Pipeline(spark={"a b": 'q"\\\n'}),
    recorder=Recorder(subjects_allow=("a", "ü\x7f")),
    authorization=Authorization(
        token="t0ken",
        default_permissions=Permissions(),
    ),
    accounts=(
        Account(
            name="A",
            users=(
                User(user="u", password="s3cret", permissions=Permissions()),
                User(
                    user="v",
                    permissions=Permissions(subscribe=SubjectPermissions(deny=("x", "y q"))),
                ),
            ),
        ),
        Account(name="B"),
    ),
)


@pytest.mark.parametrize("defaults", [False, True])
def test_round_trip(tmp_path: Path, defaults: bool) -> None:
    file = tmp_path / "x.toml"
    file.write_text(TomlWriter(defaults=defaults).document(FULL), encoding="utf-8")
    assert config.load(file).options == FULL


def test_defaults_alone_are_an_empty_document() -> None:
    assert TomlWriter().document(Options()) == ""


def test_the_secrets_of_websocket_clients_are_redacted() -> None:
    own = WebSocketAuthorization(user="w", password="w0rd", token="t0ken")
    text = effective(Options(websocket=WebSocket(authorization=own)), {})
    assert "w0rd" not in text
    assert "t0ken" not in text


def test_secrets_are_redacted_at_any_depth() -> None:
    text = effective(FULL, {})
    assert "s3cret" not in text
    assert "t0ken" not in text
    assert text.count("[REDACTED]") == 2
    assert tomllib.loads(text)["accounts"][0]["users"][0]["password"] == "[REDACTED]"


def test_origins_of_lists_stand_at_the_end() -> None:
    text = effective(FULL, {("accounts",): "a.toml:5", ("server_name",): "flag -n"})
    assert text.splitlines()[-1] == "# accounts: a.toml:5"
    assert text.splitlines()[0].endswith("# flag -n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (5, "5"),
        (2.0, "2"),
        (0.25, "0.25"),
        ("a\tb", '"a\\tb"'),
        ((), "[]"),
        (("a", "b"), '["a", "b"]'),
        ({}, "{}"),
        ({"a b": "c"}, '{ "a b" = "c" }'),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert toml_value(value) == text
