"""Go structs as JSON: read with Go's rules and refusals, written in Go's order.

A `Structure` names the fields of one struct; each `Field` has a `FieldType` that reads a node of
`syntax` and knows which values are left out. Names match whatever their case; a name that comes
twice is read twice, into the same object; null leaves numbers, texts and booleans alone. The first
value that does not fit is the error, but malformed text anywhere comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from midge.jetstream.json import lazy, plain, syntax
from midge.jetstream.json.encode import encode
from midge.jetstream.json.place import JsonPlace, UnfitValue
from midge.jetstream.json.plain import NOT_PLAIN
from midge.jetstream.json.syntax import Node
from midge.jetstream.json.times import TimeProblem, Timestamp, parse_time
from midge.protocol.errors import MidgeError, quote

_EMPTY = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


class JsonProblem(MidgeError):
    """A request cannot be read; the message is the text after ``invalid JSON:``."""


class FieldType:
    """The type of a field's value. `go_type` is its name in refusals.

    With `is_as_held` a value is written unchanged, and omitted when it is false. A value of
    `plain_type` from `plain.read` is also used unchanged.
    """

    go_type = ""
    is_as_held = False
    plain_type: type | None = None

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """Return the value of `node`, which is not null; `current` is the value so far.

        Raises:
            UnfitValue: it is of another type.
        """
        raise NotImplementedError

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """Return the value of null."""
        return current

    def zero(self) -> Any:
        """Return the value of null in a list; a pointer becomes an empty struct there."""
        return None

    def is_empty(self, value: Any) -> bool:
        """Return whether ``omitempty`` omits `value`, as it does with every false value."""
        return not value

    def encode(self, value: Any) -> Any:
        """Return `value` in the form that `encode.encode` accepts."""
        return value

    def plain(self, value: Any, current: Any) -> Any:
        """Convert a value of `plain.read`; return `NOT_PLAIN` if it is not plain.

        A request that is not plain as a whole is read with all of Go's rules.
        """
        return NOT_PLAIN


class Text(FieldType):
    """A string."""

    go_type = "string"
    is_as_held = True
    plain_type = str

    def zero(self) -> Any:
        """See `FieldType.zero`."""
        return ""

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.STRING:
            raise place.unfit(node, self.go_type)
        return node[1]

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        return value if type(value) is str else NOT_PLAIN


class Integer(FieldType):
    """A whole number of `bits`; one with a fraction or an exponent is refused, as in Go."""

    is_as_held = True

    def __init__(self, go_type: str, bits: int = 64, *, is_signed: bool = True) -> None:
        self.go_type = go_type
        self.bits = bits
        self.is_signed = is_signed
        self._low = -(1 << (bits - 1)) if is_signed else 0
        self._high = (1 << (bits - 1 if is_signed else bits)) - 1

    def zero(self) -> Any:
        """See `FieldType.zero`."""
        return 0

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.NUMBER:
            raise place.unfit(node, self.go_type)
        text = node[1]
        if len(text) > 20 or not text.lstrip("-").isdigit() or (text[0] == "-" and not self._low):
            raise place.unfit(node, self.go_type, shows_number=True)
        value = int(text)
        if not self._low <= value <= self._high:
            raise place.unfit(node, self.go_type, shows_number=True)
        return value

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        return value if type(value) is int and self._low <= value <= self._high else NOT_PLAIN


class Boolean(FieldType):
    """true or false."""

    go_type = "bool"
    is_as_held = True
    plain_type = bool

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.BOOL:
            raise place.unfit(node, self.go_type)
        return node[1]

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        return value if type(value) is bool else NOT_PLAIN


class Choice(FieldType):
    """One of several words, which are compared as they are written in the request.

    `aliases` maps words to their synonyms. `refuse` makes the refusal of any other value.
    """

    def __init__(
        self,
        words: tuple[str, ...],
        aliases: Mapping[str, str] | None = None,
        refuse: Callable[[Node, bytes], str] | None = None,
    ) -> None:
        self.words = {f'"{word}"'.encode(): word for word in words}
        self.words |= {f'"{word}"'.encode(): name for word, name in (aliases or {}).items()}
        self._refuse = refuse or _can_not_unmarshal

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        raw = place.raw(node)
        word = self.words.get(raw)
        if word is None:
            raise UnfitValue(self._refuse(node, raw))
        return word

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return self.decode(node, place, current)

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        if type(value) is not str:
            return NOT_PLAIN
        return self.words.get(b'"%b"' % value.encode(), NOT_PLAIN)


def _can_not_unmarshal(_: Node, raw: bytes) -> str:
    return f"can not unmarshal {quote(raw)}"


class Time(FieldType):
    """A pointer to a time in RFC 3339; None means null."""

    go_type = "time.Time"

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.STRING:
            raise place.unfit(node, self.go_type)
        try:
            return parse_time(node[1])
        except TimeProblem as problem:
            raise UnfitValue(str(problem)) from None

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return None

    def is_empty(self, value: Any) -> bool:
        """See `FieldType.is_empty`."""
        return value is None

    def encode(self, value: Timestamp) -> Any:
        """See `FieldType.encode`."""
        return value.text()


class PlainTime(Time):
    """A time by value, not by pointer: null leaves it unchanged."""

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return current


class Items(FieldType):
    """A list of one kind."""

    def __init__(self, kind: FieldType, go_type: str) -> None:
        self._kind = kind
        self.go_type = go_type

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.ARRAY:
            raise place.unfit(node, self.go_type)
        values = []
        for i, item in enumerate(node[1]):
            place.path.append(str(i))
            try:
                is_null = item[0] == syntax.NULL and isinstance(self._kind, Structure)
                zero = self._kind.zero()
                values.append(zero if is_null else decode_node(self._kind, item, place, zero))
            finally:
                place.path.pop()
        return values

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return []

    def encode(self, value: Any) -> Any:
        """See `FieldType.encode`."""
        if self._kind.is_as_held:
            return list(value)
        return [None if one is None else self._kind.encode(one) for one in value]

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        if type(value) is not list or isinstance(self._kind, Structure):
            return NOT_PLAIN
        plain_type = self._kind.plain_type
        if plain_type is not None:
            return value if {plain_type}.issuperset(map(type, value)) else NOT_PLAIN
        found = [self._kind.plain(one, None) for one in value]
        return NOT_PLAIN if NOT_PLAIN in found else found


class TextMap(FieldType):
    """An object of texts, written in the order of its names."""

    go_type = "map[string]string"

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.OBJECT:
            raise place.unfit(node, self.go_type)
        values = dict(current or {})
        text = Text()
        for name, item in node[1]:
            place.path.append(name)
            try:
                values[name] = decode_node(text, item, place, "")
            finally:
                place.path.pop()
        return values

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return {}

    def encode(self, value: Any) -> Any:
        """See `FieldType.encode`."""
        if len(value) < 2:
            return dict(value)
        return dict(
            sorted(value.items(), key=lambda item: item[0].encode("utf-8", "surrogatepass"))
        )

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`."""
        if type(value) is not dict or any(type(one) is not str for one in value.values()):
            return NOT_PLAIN
        return {**(current or {}), **value}


class Field:
    """One field: its name in JSON, the attribute that holds it, and whether it may be left out."""

    __slots__ = ("attribute", "is_optional", "kind", "name")

    def __init__(
        self, name: str, kind: FieldType, attribute: str | None = None, *, is_optional: bool = True
    ) -> None:
        self.name = name
        self.kind = kind
        self.attribute = attribute or name
        self.is_optional = is_optional


class Structure(FieldType):
    """A struct: `make` gives one with its zero values.

    As the kind of a field it is a pointer, None if missing, unless `is_value`.
    """

    def __init__(
        self, name: str, make: Callable[[], Any], fields: list[Field], *, is_value: bool = False
    ) -> None:
        self.name = name
        self.go_type = f"server.{name}"
        self.fields = fields
        self._make = make
        self._is_value = is_value
        self._by_name = {field.name: field for field in fields}
        self._readers: dict[str, plain.Reader] = {
            one.name: (one.attribute, one.kind.plain_type, one.kind.plain) for one in fields
        }
        self._written = [
            (one.name, one.is_optional, None if one.kind.is_as_held else one.kind) for one in fields
        ]
        # The class is one more, for with a single attribute there would be no tuple.
        self._held = attrgetter(*[one.attribute for one in fields], "__class__")

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        if node[0] != syntax.OBJECT:
            raise place.unfit(node, self.go_type)
        made = self._make() if current is None else current
        for name, value in node[1]:
            self._decode_member(made, name, value, place)
        return made

    def decode_null(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode_null`."""
        return current if self._is_value else None

    def zero(self) -> Any:
        """See `FieldType.zero`."""
        return self._make()

    def is_empty(self, value: Any) -> bool:
        """See `FieldType.is_empty`."""
        return value is None

    def encode(self, value: Any) -> Any:
        """See `FieldType.encode`."""
        fields = {}
        for (name, is_optional, kind), held in zip(self._written, self._held(value), strict=False):
            if not held and is_optional:
                continue  # a false value is empty, whatever its kind
            if kind is None:
                fields[name] = held
            elif not is_optional or not kind.is_empty(held):
                fields[name] = None if held is None else kind.encode(held)
        return fields

    def plain(self, value: Any, current: Any) -> Any:
        """See `FieldType.plain`: `current` is changed unless something is not plain."""
        if type(value) is not dict:
            return NOT_PLAIN
        made = self._make() if current is None else current
        return made if plain.assign(made, value, self._readers) else NOT_PLAIN

    def _decode_member(self, made: Any, name: str, value: Node, place: JsonPlace) -> None:
        field = self._by_name.get(name) or self._by_name.get(_folded(name))
        if field is None:
            if place.is_lenient:
                return
            raise UnfitValue(f"json: unknown field {quote(name.encode('utf-8', 'surrogatepass'))}")
        place.path.append(name)
        try:
            current = getattr(made, field.attribute)
            setattr(made, field.attribute, decode_node(field.kind, value, place, current))
        finally:
            place.path.pop()


def decode_node(kind: FieldType, node: Node, place: JsonPlace, current: Any) -> Any:
    """Return the value of `node` as a `kind`."""
    if node[0] == syntax.NULL:
        return kind.decode_null(node, place, current)
    return kind.decode(node, place, current)


def _folded(name: str) -> str:
    """Return `name` as the fields are written, whatever its case; two runes fold to ASCII."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def decode(data: bytes, structure: Structure, into: Any, *, is_strict: bool = True) -> Any:
    """Read a request into `into`; several values, one after another, are merged.

    Raises:
        JsonProblem: it cannot be read. Unknown names are read over unless `is_strict`.
    """
    if len(data) > lazy.SMALL_BYTES:
        return _decode_large(data, structure, into, is_strict=is_strict)
    if structure.plain(plain.read(data), into) is not NOT_PLAIN:
        return into
    try:
        return _decode_all(data, structure, into)
    except JsonProblem:
        if is_strict:
            raise
    return decode_lenient(data, structure, into)


def _decode_large(data: bytes, structure: Structure, into: Any, *, is_strict: bool) -> Any:
    """Read a request that is too large for a reader in Python; see `lazy`."""
    try:
        value = lazy.read(data)
        if structure.plain(value, into) is NOT_PLAIN:
            place = JsonPlace(data, structure.name, is_lenient=not is_strict)
            decode_node(structure, lazy.node_of(value), place, into)
    except syntax.SyntaxProblem as problem:
        raise JsonProblem(problem.with_offset() if is_strict else problem.text) from None
    except UnfitValue as unfit:
        raise JsonProblem(str(unfit)) from None
    return into


def _decode_all(data: bytes, structure: Structure, into: Any) -> Any:
    at = syntax.skip_blanks(data, 0)
    while at < len(data):
        try:
            node = syntax.read_value(data, at)
            decode_node(structure, node, JsonPlace(data, structure.name), into)
        except syntax.SyntaxProblem as problem:
            raise JsonProblem(problem.with_offset()) from None
        except UnfitValue as unfit:
            raise JsonProblem(str(unfit)) from None
        at = syntax.skip_blanks(data, node[3])
    return into


def decode_lenient(data: bytes, structure: Structure, into: Any) -> Any:
    """Read a request whose unknown names do not matter; it must be one value.

    Raises:
        JsonProblem: it cannot be read.
    """
    if len(data) > lazy.SMALL_BYTES:
        return _decode_large(data, structure, into, is_strict=False)
    if structure.plain(plain.read(data), into) is not NOT_PLAIN:
        return into
    try:
        node = syntax.read_value(data, 0)
        end = syntax.skip_blanks(data, node[3])
        if end < len(data):
            raise JsonProblem(syntax.trailing(data, end))
        decode_node(structure, node, JsonPlace(data, structure.name, is_lenient=True), into)
    except syntax.SyntaxProblem as problem:
        text = problem.text
        raise JsonProblem(
            "unexpected end of JSON input" if text == syntax.UNEXPECTED_END else text
        ) from None
    except UnfitValue as unfit:
        raise JsonProblem(str(unfit)) from None
    return into


def decode_value(value: Any, structure: Structure, into: Any) -> Any:
    """Read a request that JSON has been read to already, as `decode_lenient` reads its text.

    Raises:
        JsonProblem: it cannot be read.
    """
    if structure.plain(value, into) is not NOT_PLAIN:
        return into
    return decode_lenient(encode(value), structure, into)


def is_empty_request(data: bytes) -> bool:
    """Return whether a request is nothing, or an object without members."""
    return not data or _EMPTY.fullmatch(data) is not None


def is_object_or_array(data: bytes) -> bool:
    """Return whether a request looks like JSON at all; others are taken as absent."""
    at = syntax.skip_blanks(data, 0)
    return data[at : at + 1] in {b"{", b"["}
