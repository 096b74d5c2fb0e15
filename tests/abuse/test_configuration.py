"""Abuse by configuration: endless, circular, enormous and broken files. Row 27 of the table."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.abuse.conftest import MIB, TIMEOUT_S, Victim, ask, wait_until
from tests.support.processes import CHECKOUT, midge_command

CIRCLE = {
    "one.conf": b'include "two.conf"\n',
    "two.conf": b'debug: false\ninclude "one.conf"\n',
    "itself.conf": b'include "itself.conf"\n',
}

WIDE = "".join(f"key{i}: {i}\n" for i in range(20_000))

BROKEN = {
    "files that include each other": ('include "one.conf"\n', r"/one\.conf includes itself"),
    "a file that includes itself": ('include "itself.conf"\n', r"/itself\.conf includes itself"),
    "a missing file": ('include "nowhere.conf"\n', r"/nowhere\.conf: no such file"),
    "variables in a circle": ("A = $B\nB = $A\nport: $A\n", r"'B' on line 1 can not be found"),
    "a million arrays": ("x: " + "[" * 1_000_000, r"on line 1: 'Maps and arrays are nested"),
    "a million maps": ("x: " + "{a:" * 1_000_000, r"on line 1: 'Maps and arrays are nested"),
    "a million closing brackets": ("]" * 1_000_000, r"server\.conf:1:"),
    "an endless text": ('server_name: "' + "x" * MIB, r"on line 1: 'Unexpected EOF"),
    "a key that never ends": ("x" * MIB, r"server\.conf:1:"),
    "an unknown key": ("debug: false\nmax_paylaod: 1\n", r"server\.conf:2:1: unknown field"),
    "many unknown keys": (WIDE, r"server\.conf: \d+ more errors"),
    "a wrong type": ("debug: false\n\nmax_payload: [ 1 ]\n", r"server\.conf:3:1: "),
    "a huge number": ("max_payload: " + "9" * 100_000, r"integer '9{64}' is out of the range"),
    "bytes that are no text": ("debug: \x00\x01\x02\n", r"on line 1|server\.conf:1:"),
    "half a map": ("authorization {\n  users = [\n", r"on line 3: 'Unexpected EOF"),
}

HUGE_MIB = 100

REFUSED = "Failed to reload server configuration"
RELOADED = "Reloaded server configuration"


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a valid file that is unreadable for people."""
    path = tmp_path_factory.mktemp("huge") / "huge.conf"
    path.write_bytes((b"# " + b"x" * 1021 + b"\n") * (HUGE_MIB * 1024))
    return path


def start(folder: Path, text: str) -> tuple[int, str, float]:
    """Start a server on a file; return its exit code, what it says, and how long it took."""
    for name, content in CIRCLE.items():
        (folder / name).write_bytes(content)
    file = folder / "server.conf"
    file.write_text(text)
    begun = time.monotonic()
    done = subprocess.run(
        [*midge_command(), "-p", "-1", "-c", str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=CHECKOUT,
        check=False,
    )
    return done.returncode, done.stderr + done.stdout, time.monotonic() - begun


@pytest.mark.row(27)
@pytest.mark.parametrize("name", list(BROKEN))
def test_no_server_starts_on_what_is_broken(tmp_path: Path, name: str) -> None:
    text, what = BROKEN[name]
    code, said, seconds = start(tmp_path, text)
    assert code == 1
    assert "Traceback" not in said
    assert re.search(what, said), said[:500]
    assert len(said) < 64 * 1024
    assert seconds < TIMEOUT_S / 2


@pytest.mark.row(27)
def test_no_server_starts_on_what_is_enormous(tmp_path: Path, huge: Path) -> None:
    code, said, _ = start(tmp_path, f'include "{huge}"\n')
    assert code == 1
    assert "Traceback" not in said
    assert re.search(r"expected at most \d+ MiB", said), said[:500]


@pytest.mark.row(27)
def test_a_broken_reload_changes_nothing(victim: Victim, huge: Path) -> None:
    broken = {**BROKEN, "an enormous file": (f'include "{huge}"\n', r"at most \d+ MiB")}
    with victim("max_payload: 1000\n", files=CIRCLE, growth_bytes=96 * MIB) as target:
        client = target.dial()
        for name, (text, what) in broken.items():
            refused = target.server.log.count(REFUSED)
            target.server.signal("SIGHUP", text)
            wait_until(
                lambda: target.server.log.count(REFUSED) > refused,  # noqa: B023
                f"the refusal of {name}",
            )
            # The refusal has many lines, which come one after the other.
            wait_until(
                lambda: re.search(what, target.server.log.rpartition(REFUSED)[2]) is not None,  # noqa: B023
                f"what is wrong with {name}",
            )
            assert ask(client, b"SUB a 1", b"PUB a 1", b"x", b"UNSUB 1").count(b"MSG") == 1
        assert RELOADED not in target.server.log
        assert b"Maximum Payload" in ask(target.dial(), b"PUB a 1001")
        target.server.signal("SIGHUP", "max_payload: 2000\n")
        wait_until(lambda: RELOADED in target.server.log, "a good reload")
