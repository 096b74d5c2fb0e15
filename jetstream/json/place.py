"""Where in a request a value stands that does not fit, and Go's words for that."""

from __future__ import annotations

from midge.jetstream.json import lazy, syntax
from midge.jetstream.json.syntax import Node
from midge.protocol.errors import MidgeError


class UnfitValue(MidgeError):
    """A value does not fit its field; the text names what it is and what it should be."""


_KIND_NAMES = {
    syntax.OBJECT: "object",
    syntax.ARRAY: "array",
    syntax.STRING: "string",
    syntax.NUMBER: "number",
    syntax.BOOL: "bool",
}


class JsonPlace:
    """Where in a request a value stands, for the words of a refusal."""

    __slots__ = ("data", "is_lenient", "path", "root")

    def __init__(self, data: bytes, root: str, is_lenient: bool = False) -> None:
        self.data = data
        self.root = root
        self.path: list[str] = []
        self.is_lenient = is_lenient

    def unfit(self, node: Node, go_type: str, *, shows_number: bool = False) -> UnfitValue:
        """Return the refusal of `node` where `go_type` belongs."""
        kind = _KIND_NAMES[node[0]]
        if shows_number and node[0] == syntax.NUMBER:
            kind = f"number {node[1]}"
        if not self.path:
            return UnfitValue(
                f"json: cannot unmarshal {kind} into Go value of type server.{self.root}"
            )
        field = ".".join(name.replace("~", "~0").replace("/", "~1") for name in self.path)
        into = "" if self.path[-1].isascii() and self.path[-1].isdigit() else "Go struct field "
        return UnfitValue(
            f"json: cannot unmarshal {kind} into {into}{self.root}.{field} of type {go_type}"
        )

    def raw(self, node: Node) -> bytes:
        """Return the text of `node`."""
        if node[2] < 0:
            return lazy.written(node)
        return self.data[node[2] : node[3]]
