"""Read contexts: the options of a connection that the `nats` tool keeps under a name.

ADR-21 of NATS has the files: `nats/context/NAME.json`, and `nats/context.txt` with the name of the
selected context, both in `$XDG_CONFIG_HOME`, by default `~/.config`.
"""

import json
import os
from pathlib import Path

from midge.client.errors import OptionError, reason_of

_OPTIONS = {
    "url": "servers",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "credentialsFile",
    "nkey": "credentialsFile",
    "ca": "tlsCaFile",
    "cert": "tlsCertFile",
    "key": "tlsKeyFile",
    "tls_first": "tlsFirst",
    "jetstream_domain": "domain",
}
_FILES = {"creds", "nkey", "ca", "cert", "key"}
_UNKNOWN_HERE = ("nsc", "socks_proxy", "jetstream_api_prefix", "inbox_prefix", "user_jwt")


def read_context(name: str = "") -> dict[str, str]:
    """Return the options of a context under the names that `ConnectOptions.parse` takes.

    Without `name`, the environment's NATS_CONTEXT names it, or else the selection that
    `nats context select` has made; without these there are no options.

    Raises:
        OptionError: there is no such context, it cannot be read, or it has a setting that midge
            does not honour.
    """
    name = name or os.environ.get("NATS_CONTEXT", "") or _selected()
    if not name:
        return {}
    path = Path(name) if Path(name).is_absolute() else _folder() / "context" / f"{name}.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"context {name}: cannot read {path}: {reason_of(error)}") from error
    if not isinstance(settings, dict):
        raise OptionError(f"context {name}: expected a JSON object in {path}")
    for key in _UNKNOWN_HERE:
        if settings.get(key):
            raise OptionError(f"context {name}: midge cannot honour its {key!r}")
    given = {key: settings[key] for key in _OPTIONS if settings.get(key)}
    return {_OPTIONS[key]: _text(key, value) for key, value in given.items()}


def _selected() -> str:
    try:
        return (_folder() / "context.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _folder() -> Path:
    root = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(root) if root else Path.home() / ".config") / "nats"


def _text(key: str, value: object) -> str:
    return str(Path(str(value)).expanduser()) if key in _FILES else str(value)
