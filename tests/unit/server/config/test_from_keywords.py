"""Options as keyword arguments."""

from __future__ import annotations

import pytest

from midge.server.config.from_keywords import keyword_names, options_from_keywords
from midge.server.config.options import Limits, Listen, Options
from midge.server.errors import ConfigError


def test_no_keywords_leave_the_base_as_it_is() -> None:
    base = Options(server_name="n")
    assert options_from_keywords(base, {}) is base
    assert options_from_keywords(None, {}) == Options()


def test_short_names_long_names_and_tables() -> None:
    options = options_from_keywords(
        None,
        {
            "port": -1,
            "max_payload": 2048,
            "ping_interval_s": 5,
            "limits": Limits(max_connections=3),
            "monitoring_http_port": 8222,
            "user": "u",
            "password": "p",
        },
    )
    assert (options.listen.port, options.limits.max_connections) == (-1, 3)
    assert (options.keepalive.ping_interval_s, options.monitoring.http_port) == (5.0, 8222)
    assert (options.authorization.user, options.authorization.password) == ("u", "p")


def test_keywords_are_laid_over_the_base() -> None:
    base = Options(listen=Listen(host="127.0.0.2", port=1))
    listen = options_from_keywords(base, {"port": 2}).listen
    assert (listen.host, listen.port) == ("127.0.0.2", 2)


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"prot": 1}, "prot: unknown option; did you mean 'port'"),
        ({"port": "x"}, "port: expected int from -1 to 65535, got 'x'"),
        ({"max_payload": 8, "max_pending": 4}, "max_payload"),
        ({"token": "t", "user": "u", "password": "p"}, "token: Cannot have a user/pass and token"),
        ({"limits": 3}, "limits: expected a table"),
    ],
)
def test_wrong_keywords_are_named(keywords: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        options_from_keywords(None, keywords)


def test_every_setting_has_a_keyword() -> None:
    assert keyword_names()["tls_cert_file"] == ("tls", "cert_file")
    assert keyword_names()["port"] == ("listen", "port")
