"""A proposed change to a running system: to its clients, accounts and subjects.

servers = 3

[[add]]                       # one more client, or many alike
client = "new-dashboard"
subject = "fleet.>"
copies = 4

[[remove]]                    # clients, with what they publish; with subject = "…", only their
client = "wall-map"           # subscriptions to exactly that

[[split]]                     # clients that move to an account of their own
clients = "van-*"
into = "VANS"
shared = ["fleet.*.van.*.pos"]   # still heard across

[[mapping]]                   # a published subject becomes another
from = "debug.>"
to = "dev.debug.>"
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import translate
from pathlib import Path
from typing import Any

from midge.client.errors import OptionError, reason_of
from midge.pipeline.errors import PipelineError
from midge.pipeline.subject_rewriting import Rewrite
from midge.sublist.subjects import is_valid_subject

DEFAULT_ACCOUNT = "$G"


class PlanError(PipelineError):
    """A proposed change has no meaning; the text names the file, the entry and the key."""


@dataclass(frozen=True)
class Added:
    """`copies` new clients, each with one subscription."""

    subject: str
    client: str = "added"
    account: str = DEFAULT_ACCOUNT
    queue: str | None = None
    copies: int = 1


@dataclass(frozen=True)
class Removed:
    """Clients that are removed, with their subscriptions and messages.

    With `subject`, only their subscriptions to exactly that subject are removed.
    """

    client: str = "*"
    subject: str | None = None
    account: str | None = None

    @property
    def name_pattern(self) -> str:
        """The client names as a regular expression."""
        return glob_pattern(self.client)


@dataclass(frozen=True)
class Split:
    """Clients of `account` with matching names move to another one, except `shared` subjects."""

    clients: str
    into: str
    account: str = DEFAULT_ACCOUNT
    shared: tuple[str, ...] = ()

    @property
    def name_pattern(self) -> str:
        """The client names as a regular expression."""
        return glob_pattern(self.clients)


@dataclass(frozen=True)
class Mapped:
    """Messages published in `account` change their subject before they are routed."""

    rule: Rewrite
    account: str = DEFAULT_ACCOUNT


@dataclass(frozen=True)
class Change:
    """The whole change; an empty one is the recorded system on one server."""

    servers: int = 1
    add: tuple[Added, ...] = ()
    remove: tuple[Removed, ...] = ()
    split: tuple[Split, ...] = ()
    mapping: tuple[Mapped, ...] = ()


def load_change(path: Path) -> Change:
    """Return the change that a TOML file describes.

    Raises:
        PlanError: it cannot be read, or an entry has no meaning.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"{path}: {reason_of(error)}") from error
    try:
        return parse_change(document)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def parse_change(document: Mapping[str, Any]) -> Change:
    """Return the change that a table describes.

    Raises:
        PlanError: an entry has no meaning.
    """
    _refuse_unknown("", document, {"servers", "add", "remove", "split", "mapping"})
    servers = document.get("servers", 1)
    if type(servers) is not int or servers < 1:
        raise PlanError(f"servers: expected a number from 1 up, got {servers!r}")
    return Change(
        servers,
        tuple(_added(where, entry) for where, entry in _entries(document, "add")),
        tuple(_removed(where, entry) for where, entry in _entries(document, "remove")),
        tuple(_split(where, entry) for where, entry in _entries(document, "split")),
        tuple(_mapped(where, entry) for where, entry in _entries(document, "mapping")),
    )


def glob_pattern(glob: str) -> str:
    """Return a shell-like pattern (`van-*`) as a regular expression that Java knows as well."""
    return re.sub(r"^\(\?s:(.*)\)\\[zZ]$", r"^(?s:\1)$", translate(glob)).replace("(?>", "(?:")


def _added(where: str, entry: Mapping[str, Any]) -> Added:
    _refuse_unknown(where, entry, {"subject", "client", "account", "queue", "copies"})
    copies = entry.get("copies", 1)
    if type(copies) is not int or copies < 1:
        raise PlanError(f"{where}.copies: expected a number from 1 up, got {copies!r}")
    return Added(
        _subject(where, entry, "subject"),
        _text(where, entry, "client", "added"),
        _text(where, entry, "account", DEFAULT_ACCOUNT),
        _text(where, entry, "queue", None),
        copies,
    )


def _removed(where: str, entry: Mapping[str, Any]) -> Removed:
    _refuse_unknown(where, entry, {"client", "subject", "account"})
    if not entry:
        raise PlanError(f"{where}: expected client, subject or account, got nothing")
    return Removed(
        _text(where, entry, "client", "*"),
        _subject(where, entry, "subject") if "subject" in entry else None,
        _text(where, entry, "account", None),
    )


def _split(where: str, entry: Mapping[str, Any]) -> Split:
    _refuse_unknown(where, entry, {"clients", "into", "account", "shared"})
    shared = entry.get("shared", [])
    if not isinstance(shared, list):
        raise PlanError(f"{where}.shared: expected a list of subjects, got {shared!r}")
    for subject in shared:
        _check_subject(f"{where}.shared", subject)
    return Split(
        _text(where, entry, "clients"),
        _text(where, entry, "into"),
        _text(where, entry, "account", DEFAULT_ACCOUNT),
        tuple(shared),
    )


def _mapped(where: str, entry: Mapping[str, Any]) -> Mapped:
    _refuse_unknown(where, entry, {"from", "to", "account"})
    try:
        rule = Rewrite(_text(where, entry, "from"), _text(where, entry, "to"))
    except OptionError as error:
        raise PlanError(f"{where}: {error}") from error
    return Mapped(rule, _text(where, entry, "account", DEFAULT_ACCOUNT))


def _entries(document: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    entries = document.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise PlanError(f"{name}: expected tables [[{name}]], got {entries!r}")
    return [(f"{name}[{index}]", entry) for index, entry in enumerate(entries)]


_REQUIRED: Any = object()


def _text(where: str, entry: Mapping[str, Any], key: str, default: Any = _REQUIRED) -> Any:
    value = entry.get(key, default)
    if value is _REQUIRED:
        raise PlanError(f"{where}.{key}: is missing")
    if value is not default and (not isinstance(value, str) or not value):
        raise PlanError(f"{where}.{key}: expected text, got {value!r}")
    return value


def _subject(where: str, entry: Mapping[str, Any], key: str) -> str:
    subject: str = _text(where, entry, key)
    _check_subject(f"{where}.{key}", subject)
    return subject


def _check_subject(where: str, subject: object) -> None:
    if not isinstance(subject, str) or not is_valid_subject(subject.encode()):
        raise PlanError(f"{where}: expected a subject, got {subject!r}")


def _refuse_unknown(where: str, entry: Mapping[str, Any], known: set[str]) -> None:
    for key in entry:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise PlanError(f"{where}{'.' if where else ''}{key}: unknown key{hint}")
