"""The list of settings, and the rules that every setting keeps."""

from __future__ import annotations

import re

import pytest

from midge.server.config import schema
from midge.server.config.options import Account, Import, Listen, Options, User


def test_every_setting_has_its_names() -> None:
    setting = schema.settings_by_path()[("websocket", "tls", "cert_file")]
    assert setting.key == "websocket.tls.cert_file"
    assert setting.environment == "MIDGE_WEBSOCKET_TLS_CERT_FILE"
    assert setting.flag == "websocket-tls-cert-file"


@pytest.mark.parametrize("attribute", ["key", "environment", "flag"])
def test_names_are_unique(attribute: str) -> None:
    names = [getattr(setting, attribute) for setting in schema.settings()]
    assert len(names) == len(set(names))


def test_every_field_says_what_it_means() -> None:
    tables = [Options, *schema.inner_tables()]
    for table in tables:
        names = {field.name for field in schema.fields_of(table)}
        assert set(schema.docstrings(table)) == names, table
    assert all(setting.doc.endswith(".") for setting in schema.settings())


def test_durations_and_sizes_name_their_unit() -> None:
    suspicious = re.compile(r"(interval|timeout|duration|period|deadline|age|size|payload)$")
    unitless = [s.key for s in schema.settings() if suspicious.search(s.path[-1])]
    # a text with its unit or `always`, and a number of routes
    assert unitless == ["jetstream.sync_interval", "cluster.pool_size"]


def test_passwords_and_tokens_are_secrets() -> None:
    secret = {setting.key for setting in schema.settings() if setting.secret}
    assert {"authorization.password", "authorization.token"} <= secret
    telling = [s for s in schema.settings() if re.search(r"^(pass|token|secret)", s.path[-1])]
    assert {s.key for s in telling if not s.path[-1].endswith("_cookie")} <= secret
    password = next(field for field in schema.fields_of(User) if field.name == "password")
    assert schema.is_secret(password.type)


def test_inner_tables_are_found_however_deep() -> None:
    found = schema.inner_tables()
    assert {Account, User, Import} <= set(found)
    assert Listen not in found


def test_defaults_are_those_of_the_classes() -> None:
    by_key = {setting.key: setting.default for setting in schema.settings()}
    assert by_key["listen.port"] == Options().listen.port
    assert by_key["websocket.headers"] == {}
    assert by_key["authorization.default_permissions"] is None
