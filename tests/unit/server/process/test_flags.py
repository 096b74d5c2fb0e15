"""The flag table: nats-server's flags lead to settings, and every setting has a flag."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from midge.server.config import schema
from midge.server.config.load import load
from midge.server.errors import ConfigError
from midge.server.process.flags import (
    UNSUPPORTED,
    USAGE,
    check_tls_flags,
    notes_on,
    server_flags,
    setting_values,
)
from midge.server.process.go_flags import FlagError, parse


def settings_of(*arguments: str) -> dict[str, Any]:
    given = parse(arguments, server_flags()).given
    return {".".join(path): value for path, _, value in setting_values(given)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-a", "0.0.0.0"], {"listen.host": "0.0.0.0"}),
        (["--net=h"], {"listen.host": "h"}),
        (["-p", "-1"], {"listen.port": -1}),
        (["-p", "0"], {"listen.port": 4222}),
        (["-n", "x"], {"server_name": "x"}),
        (["-P", "f"], {"process.pid_file": "f"}),
        (["-m", "8222"], {"monitoring.http_port": 8222}),
        (["-ms", "8223"], {"monitoring.https_port": 8223}),
        (["-DV"], {"logging.debug": True, "logging.trace": True}),
        (["-VV"], {"logging.trace": True, "logging.trace_verbose": True}),
        (["-T=false"], {"logging.logtime": False}),
        (
            ["--user", "u", "--pass", "p"],
            {"authorization.user": "u", "authorization.password": "p"},
        ),
        (["--tlsverify", "--tls"], {"tls.verify": True}),
        (["--record", "d"], {"recorder.directory": "d"}),
        (["--limits-max-connections", "5"], {"limits.max_connections": 5}),
        (["--websocket-allowed-origins=a,b"], {"websocket.allowed_origins": ["a", "b"]}),
        (
            ["-cluster", "nats://u:p@h:6223", "-cluster_name", "C", "-routes", "nats://a:1, b:2"],
            {
                "cluster.host": "h",
                "cluster.port": 6223,
                "cluster.authorization.user": "u",
                "cluster.authorization.password": "p",
                "cluster.name": "C",
                "cluster.routes": ["nats://a:1", "b:2"],
            },
        ),
        (["--cluster_listen=h"], {"cluster.host": "h", "cluster.port": 6222}),
        (["--routing-exact-match", "off"], {"routing.exact_match": False}),
    ],
)
def test_flags_set_settings(arguments: list[str], expected: dict[str, Any]) -> None:
    assert settings_of(*arguments) == expected


def test_the_flags_of_a_cluster_are_settings_that_can_be_loaded() -> None:
    words = "-cluster nats://127.0.0.1:6223 -cluster_name C -routes nats://a:1,nats://b:2"
    given = parse(words.split(), server_flags()).given
    options = load(flags=setting_values(given)).options
    assert (options.cluster.name, options.cluster.port) == ("C", 6223)
    assert len(options.cluster.routes) == 2


@pytest.mark.parametrize(("flag", "what"), [("--profile=1", "no profiler")])
def test_flags_of_missing_features_are_warned_of(flag: str, what: str) -> None:
    given = parse([flag], server_flags()).given
    assert list(setting_values(given)) == []
    (note,) = notes_on(given)
    assert note.startswith(f"flag {flag.partition('=')[0]} has no effect: ")
    assert what in note


def test_an_address_of_a_cluster_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="flag -cluster: "):
        settings_of("--cluster=nats://h:port")


def test_every_setting_has_a_flag_and_no_name_is_taken_twice() -> None:
    names = Counter(name for flag in server_flags() for name in flag.names)
    assert [name for name, times in names.items() if times > 1] == []
    assert {setting.flag for setting in schema.settings()} <= set(names)


def test_flag_targets_are_settings_that_exist() -> None:
    known = schema.settings_by_path()
    paths = {
        path for path, _, _ in setting_values(parse(["-DVV", "-p", "1"], server_flags()).given)
    }
    assert paths <= set(known)


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["--tls"], "TLS Server certificate"),
        (["--tlsverify"], "TLS Server certificate"),
        (["--tls", "--tlscert", "c"], "TLS Server private key"),
    ],
)
def test_tls_flags_need_certificate_and_key(arguments: list[str], missing: str) -> None:
    with pytest.raises(ConfigError, match=f"^{missing} must be present and valid$"):
        check_tls_flags(parse(arguments, server_flags()).given)


def test_usage_names_every_short_flag() -> None:
    for flag in ("-a,", "-p,", "-c,", "-sl,", "-DV ", "-DVV ", "--record", "--tlscacert"):
        assert flag in USAGE


@pytest.mark.parametrize("name", [name for flag in UNSUPPORTED for name in flag.names])
def test_a_flag_that_is_refused_is_never_suggested(name: str) -> None:
    refused = {f"'--{one}'" for flag in UNSUPPORTED for one in flag.names}
    for typed in (f"{name}x", name[:-1] + "__", f"x{name}"):
        with pytest.raises(FlagError) as raised:
            parse([f"--{typed}", "x"], server_flags())
        assert not any(one in str(raised.value) for one in refused)
