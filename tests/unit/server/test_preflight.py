"""Settings that look right but cannot be used."""

from __future__ import annotations

import importlib.util
from typing import Any

import msgspec
import pytest

from midge.server.config.options import Options
from midge.server.config.type_check import format_path
from midge.server.preflight import find_unusable

NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def unusable(raw: dict[str, Any]) -> dict[str, str]:
    options = msgspec.convert(raw, Options)
    return {format_path(found.path): found.text for found in find_unusable(options)}


@pytest.mark.parametrize(
    ("raw", "path", "text"),
    [
        (
            {"authorization": {"users": [{"nkey": NKEY[:-1] + "5"}]}},
            "authorization.users[0].nkey",
            "Not a valid public nkey for a user",
        ),
        (
            {"accounts": [{"name": "A", "nkey": NKEY}]},
            "accounts[0].nkey",
            "Not a valid public nkey for an account",
        ),
        (
            {"authorization": {"default_permissions": {"publish": {"deny": ["a..b"]}}}},
            "authorization.default_permissions",
            "a..b",
        ),
        (
            {
                "accounts": [
                    {
                        "name": "A",
                        "users": [
                            {"user": "a", "permissions": {"subscribe": {"allow": ["a b c"]}}},
                        ],
                    }
                ]
            },
            "accounts[0].users[0].permissions",
            "a b c",
        ),
        (
            {"mappings": [{"source": "a..b", "destinations": [{"destination": "c"}]}]},
            "mappings[0]",
            "a..b",
        ),
        (
            {
                "accounts": [
                    {
                        "name": "A",
                        "mappings": [
                            {
                                "source": "a",
                                "destinations": [
                                    {"destination": "b", "weight_percent": 60},
                                    {"destination": "c", "weight_percent": 60},
                                ],
                            }
                        ],
                    }
                ]
            },
            "accounts[0].mappings[0]",
            "100 %",
        ),
        (
            {"tls": {"cert_file": "/nonexistent", "key_file": "/nonexistent"}},
            "tls.cert_file",
            "/nonexistent",
        ),
        *(
            # The listeners are off, and their files are read nevertheless.
            (
                {table: {"tls": {"cert_file": "/nonexistent", "key_file": "/nonexistent"}}},
                f"{table}.tls.cert_file",
                "/nonexistent",
            )
            for table in ("websocket", "leafnodes", "cluster")
        ),
        *(
            (
                {"leafnodes": {"remotes": [{"urls": ["h"], "tls": {"ca_file": file}}]}},
                "leafnodes.remotes[0].tls.ca_file",
                file,
            )
            for file in ("/nonexistent", __file__)
        ),
        ({"operator": {"jwts": ["/nonexistent"]}}, "operator.jwts[0]", "/nonexistent"),
        ({"operator": {"trusted_keys": ["OX"]}}, "operator", "OX"),
        (
            {"accounts": [{"name": "A", "exports": [{"service": "a..b"}]}]},
            "accounts[0].exports[0].service",
            "a..b",
        ),
        (
            {
                "accounts": [
                    {
                        "name": "A",
                        "imports": [{"stream": {"account": "A", "subject": ">.x"}}],
                    }
                ]
            },
            "accounts[0].imports[0]",
            ">.x",
        ),
        (
            {
                "accounts": [
                    {"name": "A", "exports": [{"stream": "x"}]},
                    {"name": "B", "imports": [{"stream": {"account": "A", "subject": "y"}}]},
                ]
            },
            "accounts[1].imports[0]",
            "'A' exports no stream 'y' to 'B'",
        ),
    ],
)
def test_unusable(raw: dict[str, Any], path: str, text: str) -> None:
    found = unusable(raw)
    assert list(found) == [path]
    assert text in found[path]


def test_usable() -> None:
    users = [{"nkey": NKEY, "permissions": {"subscribe": {"allow": ["a.>"], "deny": ["a.b q"]}}}]
    mapping = {"source": "a.*", "destinations": [{"destination": "b.{{wildcard(1)}}"}]}
    assert unusable({"authorization": {"users": users}, "mappings": [mapping]}) == {}


def test_missing_packages_of_tables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"name": "t", "stream": "S", "url": "t"}
    raw = {"jetstream": {"enabled": True}, "tables": [table]}
    assert unusable(raw) == {}
    found = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name == "deltalake" else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    (text,) = unusable(raw).values()
    assert text.startswith("tables need deltalake; python -m pip install ")
    assert "\n" not in text
