"""The query arguments of monitoring requests, read strictly and refused in nats-server's words."""

from collections.abc import Mapping

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_SHOWN_DIGITS = 64
_LARGEST = {"int": 2**63 - 1, "uint64": 2**64 - 1}

DEFAULT_LIMIT = 1024
MAX_LIMIT = 10_000
"""Most entries on one page, whatever `limit` is."""


class BadArgument(Exception):
    """An invalid argument; the text is the response."""


class Arguments:
    """The arguments of one request; each is parsed by its expected type."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query

    def as_dict(self) -> dict[str, str]:
        """Return the arguments as they came, for another process to read."""
        return dict(self._query)

    def text(self, name: str) -> str:
        """Return an argument as text, empty when absent."""
        return self._query.get(name, "")

    def flag(self, name: str) -> bool:
        """Read a boolean.

        Raises:
            BadArgument: it is something else.
        """
        text = self.text(name)
        if not text or text in _FALSE:
            return False
        if text in _TRUE:
            return True
        raise BadArgument(_refusal("boolean", name, "ParseBool", text))

    def integer(self, name: str) -> int:
        """Read an integer, 0 when absent.

        Raises:
            BadArgument: it is something else, or too large.
        """
        text = self.text(name)
        digits = text[1:] if text[:1] in {"+", "-"} else text
        if not text:
            return 0
        _check_digits("int", name, "Atoi", text, digits)
        return int(text)

    def cid(self) -> int:
        """Read the `cid`, 0 when absent.

        Raises:
            BadArgument: it is not a number.
        """
        text = self.text("cid")
        if not text:
            return 0
        _check_digits("uint64", "cid", "ParseUint", text, text)
        return int(text)

    def subscriptions(self) -> tuple[bool, bool]:
        """Read `subs`: whether to list subscriptions, and whether with details.

        Raises:
            BadArgument: it is neither a boolean nor `detail`.
        """
        if self.text("subs").lower() == "detail":
            return True, True
        return self.flag("subs"), False

    def page(self) -> tuple[int, int]:
        """Read `offset` and `limit`, clamped to valid values.

        Raises:
            BadArgument: one of them is not a number.
        """
        offset = max(self.integer("offset"), 0)
        limit = self.integer("limit")
        return offset, min(limit, MAX_LIMIT) if limit > 0 else DEFAULT_LIMIT


def _check_digits(kind: str, name: str, function: str, text: str, digits: str) -> None:
    if not (digits.isascii() and digits.isdigit()):
        raise BadArgument(_refusal(kind, name, function, text))
    if len(digits) > _SHOWN_DIGITS or int(digits) > _LARGEST[kind] + text.startswith("-"):
        raise BadArgument(_refusal(kind, name, function, text, "value out of range"))


def _refusal(
    kind: str, name: str, function: str, text: str, problem: str = "invalid syntax"
) -> str:
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[:64]
    )
    shown = shown.replace('"', '\\"')
    return f"Error decoding {kind} for '{name}': strconv.{function}: parsing \"{shown}\": {problem}"
