"""Where the options of a connection come from: flags, environment, contexts of the nats tool."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from midge.client.commands.connect_arguments import add_connect_arguments, connect_options
from midge.client.errors import OptionError
from midge.client.options import ClientOptions

VARIABLES = ("URL", "USER", "PASSWORD", "TOKEN", "CREDS", "CA", "CERT", "KEY", "CONTEXT")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, with no variable of the nats tool set; return the folder of contexts."""
    for name in VARIABLES:
        monkeypatch.delenv(f"NATS_{name}", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "nats" / "context"
    folder.mkdir(parents=True)
    return folder


def options(*words: str) -> ClientOptions:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_connect_arguments(parser)
    return connect_options(parser.parse_args(words))


def write(folder: Path, name: str, **settings: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(settings))


def select(folder: Path, name: str) -> None:
    (folder.parent / "context.txt").write_text(f"{name}\n")


def addresses(found: ClientOptions) -> list[str]:
    return [str(one) for one in found.servers]


def test_without_anything_it_is_the_local_server() -> None:
    assert addresses(options()) == ["127.0.0.1:4222"]


def test_a_flag_wins_over_the_environment_and_that_over_the_context(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "far", url="nats://far:1", user="u", password="p", jetstream_domain="hub")
    select(home, "far")
    found = options()
    assert (addresses(found), found.user, found.password) == (["far:1"], "u", "p")
    assert found.domain == "hub"
    monkeypatch.setenv("NATS_URL", "nats://near:2,nats://next:3")
    found = options()
    assert (addresses(found), found.user) == (["near:2", "next:3"], "u")
    assert addresses(options("-s", "nats://here:4")) == ["here:4"]
    assert addresses(options("--server", "nats://here:4")) == ["here:4"]


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (("--server", "nats://x:y@here"), ("", "")),
        (("--user", "x", "--password", "y"), ("", "")),
        (("--password", "y"), ("NATS_USER", "x")),
        ((), ("NATS_URL", "nats://x:y@here")),
    ],
)
def test_credentials_of_the_context_are_left_out_where_others_are_given(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: tuple[str, str]
) -> None:
    write(home, "far", url="nats://far", token="secret", ca="/ca.pem")
    select(home, "far")
    if variable[0]:
        monkeypatch.setenv(*variable)
    found = options(*words)
    assert (found.user, found.password, found.token) == ("x", "y", "")
    assert found.tls_ca_file == "/ca.pem"


def test_each_variable_of_the_nats_tool_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "u.creds").write_text("SUAX")
    values = {"USER": "u", "PASSWORD": "p", "TOKEN": "t", "CREDS": str(tmp_path / "u.creds")}
    values |= {"CA": "ca.pem", "CERT": "cert.pem", "KEY": "key.pem"}
    for name, value in values.items():
        monkeypatch.setenv(f"NATS_{name}", value)
    found = options()
    assert (found.user, found.password, found.token, found.credentials) == ("u", "p", "t", "SUAX")
    assert (found.tls_ca_file, found.tls_cert_file) == ("ca.pem", "cert.pem")
    assert found.tls_key_file == "key.pem"


def test_a_context_is_named_by_flag_variable_path_or_selection(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("one", "two", "three"):
        write(home, name, url=f"nats://{name}")
    write(tmp_path, "four", url="nats://four")
    select(home, "one")
    assert addresses(options()) == ["one:4222"]
    monkeypatch.setenv("NATS_CONTEXT", "two")
    assert addresses(options()) == ["two:4222"]
    assert addresses(options("--context", "three")) == ["three:4222"]
    assert addresses(options("--context", str(tmp_path / "four.json"))) == ["four:4222"]


def test_contexts_lie_where_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere" / "nats" / "context"
    folder.mkdir(parents=True)
    write(folder, "one", url="nats://one")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    assert addresses(options("--context", "one")) == ["one:4222"]


def test_files_of_a_context_may_be_below_the_home(home: Path, tmp_path: Path) -> None:
    (tmp_path / "u.nk").write_text("SUAY")
    write(home, "one", url="tls://one", nkey="~/u.nk", tls_first=True)
    found = options("--context", "one")
    assert (found.credentials, found.tls_first, found.tls) == ("SUAY", True, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot read"),
        ("[]", "expected a JSON object"),
        ('{"nsc": "nsc://o/a/u"}', "midge cannot honour its 'nsc'"),
        ('{"inbox_prefix": "_I"}', "midge cannot honour its 'inbox_prefix'"),
    ],
)
def test_a_context_that_cannot_be_used_is_told(home: Path, text: str, told: str) -> None:
    (home / "odd.json").write_text(text)
    with pytest.raises(OptionError, match=told) as caught:
        options("--context", "odd")
    assert str(caught.value).startswith("context odd: ")
    with pytest.raises(OptionError, match=r"context none: cannot read .*no such file"):
        options("--context", "none")


def test_an_error_names_where_the_value_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"^--server: expected nats://host:port"):
        options("-s", "http://x")
    monkeypatch.setenv("NATS_URL", "http://x")
    with pytest.raises(OptionError, match=r"^NATS_URL: expected nats://host:port"):
        options()
    monkeypatch.delenv("NATS_URL")
    monkeypatch.setenv("NATS_CREDS", "/nowhere")
    with pytest.raises(OptionError, match=r"^NATS_CREDS: cannot read"):
        options()


@pytest.mark.parametrize(
    ("url", "user", "password", "token"),
    [
        ("nats://me:a%2Fb@host", "me", "a/b", ""),
        ("nats://sesame@host", "", "", "sesame"),
        ("host", "", "", ""),
    ],
)
def test_a_url_has_a_user_with_a_password_or_a_token(
    url: str, user: str, password: str, token: str
) -> None:
    found = options("-s", url)
    assert (found.user, found.password, found.token) == (user, password, token)
    assert options("-s", "nats://me@host", "--password", "p").user == "me"
