"""Valid settings of leaf nodes, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from midge.server.config.load import Loaded, load
from midge.server.errors import ConfigError
from midge.server.preflight import find_unusable

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


def read(tmp_path: Path, text: str, name: str = "midge.toml") -> Loaded:
    file = tmp_path / name
    file.write_text(text)
    return load(file, {}, check=find_unusable)


def test_remotes_are_read_from_toml(tmp_path: Path) -> None:
    text = """
    [leafnodes]
    reconnect_s = 5
    [[leafnodes.remotes]]
    urls = ["nats-leaf://u:p@hub.example", "hub.example:7423"]
    deny_imports = ["no.>"]
    tls = { handshake_first = true }
    """
    options = read(tmp_path, text).options
    assert options.leafnodes.reconnect_s == 5
    (remote,) = options.leafnodes.remotes
    assert remote.urls == ("nats-leaf://u:p@hub.example", "hub.example:7423")
    assert remote.tls.handshake_first


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        ('urls = ["http://h"]', "expected one of nats-leaf, nats, tls, leaf, ws, wss before ://"),
        ('urls = ["nats://"]', "expected a host"),
        ('urls = ["h:99999"]', "expected a port number"),
        ('urls = ["h"]\naccount = "NONE"', 'cannot find local account "NONE"'),
        ('urls = ["h"]\naccount = "$SYS"', "midge does not link the system account"),
        ('urls = ["h"]\ndeny_imports = ["a..b"]', 'subject "a..b" is not a valid subject'),
        ('urls = ["h"]\nnkey_seed = "SUX"', "nkey_seed"),
        (
            f'urls = ["h"]\nnkey_seed = "{SEED}"\ncredentials = "x"',
            "can not have both creds and nkey defined",
        ),
        ('urls = ["h"]\ntls = { ca_file = "/no/such" }', "ca_file"),
        ('urls = ["h"]\n[[leafnodes.remotes]]\nurls = ["h"]', "duplicate remote"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, remote: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"[[leafnodes.remotes]]\n{remote}\n")
    assert words in str(caught.value)
    assert SEED not in str(caught.value)
