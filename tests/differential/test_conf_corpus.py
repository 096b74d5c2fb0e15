"""nats-server's configuration files: midge-server and the real binary must judge them alike.

`conf/valid` holds files that both accept, `conf/broken` files that both refuse with the same words,
but for those listed here, and `conf/unsupported` files that midge alone refuses. `conf/parts` is
included by others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from midge.server import preflight as config
from midge.server.config import to_toml as render
from midge.server.process import commands
from tests.docs import drop_in

CORPUS = Path(__file__).parent / "conf"
BINARY = Path(sys.executable).parent / "nats-server"
ENVIRONMENT = {
    "MIDGE_TEST_PORT": "4222",
    "MIDGE_TEST_NAME": '"4222"',
    "MIDGE_TEST_CYCLE": "$MIDGE_TEST_CYCLE",
    "MIDGE_TEST_BROKEN": "a b",
    "MIDGE_TEST_CHAIN": "$MIDGE_TEST_PORT",
    "MIDGE_TEST_EMPTY": "",
    "MIDGE_TEST_KEY": "{ key: }",
    "MIDGE_TEST_MAP": "{ user: u, password: p }",
}

OTHER_WORDS = {
    **dict.fromkeys(
        [
            "bool_number",
            "callout_text",
            "bool_quoted",
            "date",
            "jetstream_number",
            "pid_number",
            "port_float",
            "port_quoted",
            "port_text",
            "responses_type",
            "several_errors",
            "text_number",
            "unit_mixed_word",
            "websocket_bool",
            "websocket_user_number",
        ],
        "midge says what was expected instead of naming Go's types",
    ),
    **dict.fromkeys(
        ["callout_allowed", "permission_given_twice", "route_permission_given_twice"],
        "midge names the place",
    ),
    "no_switch": "midge says what it lacks; nats-server, what its own code trips over",
    **dict.fromkeys(
        ["array_open", "include_broken", "nul_in_value"],
        "midge names the end of the file, or the character that is wrong",
    ),
    **dict.fromkeys(
        [
            "duplicate_user",
            "export_to_nobody",
            "import_cycle",
            "import_from_nowhere",
            "import_not_exported",
            "import_private",
            "leafnode_deny",
            "leafnode_twice",
            "leafnode_user_and_users",
            "leafnode_version",
            "mapping_subject",
            "mapping_weights",
            "nkey_and_user",
            "nkey_wrong",
            "operator_file",
            "permission_subject",
            "tls_files",
            "token_and_user",
            "trusted_key",
        ],
        "midge names the setting too, and the entry rather than the list around it",
    ),
    **dict.fromkeys(
        ["environment_cycle", "resolver", "timeout_word"],
        "midge says it shorter, or offers only what it has",
    ),
}
"""Broken files for which midge has words of its own, and why."""

RANDOM_WORDS = {"account_users_and_token", "account_users_and_user", "export_twice"}
"""Broken files about which nats-server says now this, now that: it walks maps at random."""

RANDOM_ORDER = {"unknown_at_three_levels"}
"""Broken files whose errors nats-server lists in any order, for the same reason."""

RANDOM_PLACES = {"duplicate_user_across_accounts", "leafnode_two_keys"}
"""Broken files in which nats-server blames either of two places, for the same reason."""

SAFER = {"tls_without_certificate": "missing 'cert_file' in TLS configuration"}
"""Files that nats-server accepts but serves no client with, and midge's words for them."""

SAME_PLACE = re.compile(r"^[^:]+:\d+:\d+(?=: )", re.MULTILINE)


def files(folder: str) -> list[str]:
    return sorted(file.stem for file in (CORPUS / folder).glob("*.conf"))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CORPUS)
    for name, text in ENVIRONMENT.items():
        monkeypatch.setenv(name, text)


def ask_nats_server(file: str) -> tuple[int, str]:
    done = subprocess.run(
        [BINARY, "-t", "-c", file],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.replace("nats-server: ", "").strip()


def ask_midge(file: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = commands.midge_server(["-t", "-c", file])
    out, err = capsys.readouterr()
    assert out == ""
    return code, err.replace("midge-server: ", "").strip()


@pytest.mark.parametrize("name", files("valid"))
def test_both_accept(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"valid/{name}.conf"
    assert ask_nats_server(file)[0] == 0
    code, text = ask_midge(file, capsys)
    assert code == 0, text
    *notes, last = text.splitlines()
    assert all(re.match(rf"{file}:\d+:\d+: ", note) for note in notes)
    assert re.fullmatch(rf"configuration file {file} is valid \(sha256:[0-9a-f]{{64}}\)", last)


@pytest.mark.parametrize("name", files("broken"))
def test_both_refuse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"broken/{name}.conf"
    theirs, their_text = ask_nats_server(file)
    code, text = ask_midge(file, capsys)
    assert (theirs, code) == (1, 1), text
    if name in RANDOM_WORDS:
        assert text.split(" ")[1] == their_text.split(" ")[1]
    elif name in RANDOM_ORDER:
        assert sorted(text.splitlines()) == sorted(their_text.splitlines())
    elif name in RANDOM_PLACES:
        assert text.endswith(SAME_PLACE.sub("", their_text).removeprefix(": "))
    elif name not in OTHER_WORDS:
        assert text == their_text
    else:
        assert text != their_text, f"{name} no longer needs an exception"
        lines = [place.split(":")[1] for place in SAME_PLACE.findall(their_text)]
        assert all(f":{line}:" in text for line in lines), text


@pytest.mark.parametrize("name", files("unsupported"))
def test_midge_refuses_what_it_lacks(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"unsupported/{name}.conf"
    assert ask_nats_server(file)[0] == 0
    code, text = ask_midge(file, capsys)
    assert code == 1
    words = SAFER.get(name, r'field "\w+": midge does not support')
    refusal = rf"{file}:\d+:\d+: {words}[^\n]+"
    assert all(re.fullmatch(refusal, line) for line in text.splitlines())


@pytest.mark.parametrize("name", files("valid"))
def test_converted_to_toml_it_means_the_same(name: str, tmp_path: Path) -> None:
    options = config.load(CORPUS / "valid" / f"{name}.conf").options
    converted = tmp_path / "converted.toml"
    converted.write_text(render.TomlWriter().document(options), encoding="utf-8")
    assert config.load(converted).options == options


OWN_KEYS = {
    ("`leafnodes`", "proxy_protocol"),
    ("`websocket`", "proxy_protocol"),
    ("Top level", "tables"),
    *(
        (place, key)
        for place in ("An entry of `users`", "`limits` of an account")
        for key in ("messages_per_s", "bytes_per_s")
    ),
}
"""Keys that midge takes beyond nats-server's, by where they stand."""


@pytest.mark.parametrize("level", drop_in.LEVELS, ids=lambda level: level.name)
def test_nats_server_knows_each_key(level: drop_in.Level, tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    before, _, after = level.within.partition("…")
    for key in level.keys:
        if (level.name, key) in OWN_KEYS:
            continue
        file.write_text(f"{before}\n  {key}: x\n{after}\n", encoding="utf-8")
        done = subprocess.run(
            [BINARY, "-t", "-c", file],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
        )
        assert "nknown field" not in done.stderr, key


def test_exceptions_name_files_that_exist() -> None:
    assert set(OTHER_WORDS) | RANDOM_WORDS | RANDOM_ORDER | RANDOM_PLACES <= set(files("broken"))
