"""Loading: layers, precedence, provenance and error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from midge.server import preflight as config
from midge.server.config.options import Options
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PORT = ("listen", "port")


def write(directory: Path, text: str) -> Path:
    file = directory / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(file: Path | None = None, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(file, environment)
    return str(caught.value)


def test_nothing_set_gives_the_defaults() -> None:
    loaded = config.load()
    assert loaded.options == Options()
    assert loaded.origins == {}
    assert loaded.warnings == ()


def test_flag_outweighs_environment_outweighs_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[listen]\nport = 1\nhost = '10.0.0.1'\n[keepalive]\nping_max = 5\n")
    environment = {"MIDGE_LISTEN_PORT": "2", "MIDGE_KEEPALIVE_PING_MAX": "6"}
    loaded = config.load(file, environment, [(PORT, "-p", 3)])
    assert loaded.options.listen.port == 3
    assert loaded.options.keepalive.ping_max == 6
    assert loaded.options.listen.host == "10.0.0.1"
    assert loaded.origins == {
        PORT: "flag -p",
        ("keepalive", "ping_max"): "environment MIDGE_KEEPALIVE_PING_MAX",
        ("listen", "host"): f"{file}:3",
    }


def test_wrong_type_names_key_expectation_value_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path, "# midge\n\n[listen]\nport = 'x'\n")
    assert refusal(file) == f"listen.port: expected int from -1 to 65535, got 'x' ({file}:4)"


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, "[listen]\nprot = 1\n")
    assert refusal(file) == f"listen.prot: unknown key; did you mean 'port'? ({file}:2)"


def test_unknown_table_names_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, "[limit]\nmax_connections = 1\n")
    assert refusal(file) == f"limit: unknown key; did you mean 'limits'? ({file}:1)"


def test_a_key_without_its_table_is_led_there(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("port = 5\n")
    assert refusal(file) == f"port: unknown key; did you mean 'listen.port'? ({file}:1)"


def test_every_problem_is_reported_on_its_own_line(tmp_path: Path) -> None:
    file = write(tmp_path, "server_name = 1\n[[accounts]]\n[[accounts.users]]\nusr = 'a'\n")
    assert refusal(file).splitlines() == [
        f"server_name: expected str, got 1 ({file}:1)",
        f"accounts[0].users[0].usr: unknown key; did you mean 'user'? ({file}:4)",
        f"accounts[0].name: missing ({file}:2)",
    ]


def test_wrong_environment_names_the_variable() -> None:
    text = refusal(environment={"MIDGE_KEEPALIVE_PING_INTERVAL_S": "soon"})
    assert text == (
        "keepalive.ping_interval_s: expected number above 0, got 'soon'"
        " (environment MIDGE_KEEPALIVE_PING_INTERVAL_S)"
    )


def test_unknown_environment_is_a_warning_only() -> None:
    # Container platforms put variables of their own making beside ours.
    loaded = config.load(environment={"MIDGE_LISTEN_PROT": "1", "MIDGE_PURE": "1", "HOME": "/"})
    assert loaded.options == Options()
    (warning,) = loaded.warnings
    assert warning == "MIDGE_LISTEN_PROT: no such setting; did you mean 'MIDGE_LISTEN_PORT'?"


def test_secret_values_never_show_in_errors() -> None:
    flags = [(("authorization", "password"), "--pass", 12345678)]
    with pytest.raises(ConfigError) as caught:
        config.load(flags=flags)
    assert "12345678" not in str(caught.value)


def test_syntax_error_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[listen\n")
    text = refusal(file)
    assert text.endswith(f"({file}:1:8)")
    assert str(file) in text


def test_deep_nesting_is_a_clean_error(tmp_path: Path) -> None:
    file = write(tmp_path, "x = " + "[" * 100_000)
    assert refusal(file).endswith(f"({file})")


def test_missing_file_is_a_clean_error(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    assert refusal(file) == f"open {file}: no such file or directory"


def test_directory_is_a_clean_error(tmp_path: Path) -> None:
    file = tmp_path / "is.toml"
    file.mkdir()
    assert refusal(file) == f"read {file}: is a directory"


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "huge.toml"
    with file.open("wb") as stream:
        stream.truncate(100 << 20)
    assert refusal(file) == f"expected at most 16 MiB ({file})"


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "notepad.toml"
    file.write_bytes(b"\xef\xbb\xbfserver_name = 'a'\n")
    assert config.load(file).options.server_name == "a"


def test_text_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes(b"# one\nserver_name = '\xe9'\n")
    assert refusal(file) == f"expected UTF-8 text ({file}:2)"


@pytest.mark.parametrize(
    ("flags", "file", "found"),
    [
        ({"token": "x"}, "users = [{user = 'a'}]", ("", "x", 1)),
        ({"token": "x"}, "user = 'a'\npassword = 'p'", ("", "x", 0)),
        ({"token": "x"}, "token = 't'", ("", "x", 0)),
        ({"user": "x", "password": "y"}, "users = [{user = 'a'}]", ("", "", 1)),
        ({"user": "x", "password": "y"}, "user = 'a'\npassword = 'p'", ("x", "", 0)),
        ({"user": "x", "password": "y"}, "token = 't'", ("", "t", 0)),
    ],
)
def test_credentials_of_flags_and_file_combine_as_on_nats_server(
    tmp_path: Path, flags: dict[str, str], file: str, found: tuple[str, str, int]
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"[authorization]\n{file}\n")
    given = [(("authorization", name), f"--{name}", value) for name, value in flags.items()]
    loaded = config.load(path, flags=given)
    table = loaded.options.authorization
    assert (table.user, table.token, len(table.users)) == found
    is_behind = "user" in flags and not table.user
    assert any("no effect" in one for one in loaded.warnings) == is_behind
    path.write_text(f"[authorization]\n{file}\n[[accounts]]\nname='A'\nusers=[{{user='b'}}]\n")
    with pytest.raises(ConfigError, match=r"Can not have a .* and accounts"):
        config.load(path, flags=given)


def test_contradiction_names_the_later_place(tmp_path: Path) -> None:
    file = write(tmp_path, "[limits]\nmax_pending_bytes = 10\n")
    text = refusal(file)
    assert text.startswith("limits.max_payload_bytes: expected at most limits.max_pending_bytes")


def test_same_settings_have_the_same_digest(tmp_path: Path) -> None:
    file = write(tmp_path, "[listen]\nport = 1\n")
    first, second = config.load(file), config.load(flags=[(PORT, "-p", 1)])
    assert first.digest == second.digest
    assert first.digest != config.load().digest


def test_the_digest_tells_nothing_of_secrets() -> None:
    digests = {
        config.load(flags=[(("authorization", "token"), "--auth", token)]).digest
        for token in ("one", "two")
    }
    assert len(digests) == 1
    assert digests != {config.load().digest}


def test_structured_settings_come_through_the_environment_as_json() -> None:
    environment = {"MIDGE_AUTHORIZATION_USERS": '[{"user": "a", "password": "b"}]'}
    (user,) = config.load(environment=environment).options.authorization.users
    assert (user.user, user.password) == ("a", "b")
