r"""Cut a nats-server configuration text into tokens.

The grammar depends on the place: a key runs to a blank, `=` or `:`; a value's first character
determines its kind; entries end at a line's end, `,`, `;` or `}`. The lexer therefore keeps a stack
of the maps and arrays that are open. It does not recurse, and the stack is bounded. Braces around
top-level entries, here called blocks, mean nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from midge.server.config.nats_conf.errors import ConfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEPTH_MAX = 100
"""Deepest nesting of maps and arrays; real files need six."""


ENDS_OF_VALUES = ("", ",", ";", "]", "}")
"""Characters that end a bare word; directly after a key's separator they mean no value."""

SHOWN_MAX = 64
"""Characters of a wrong number that an error repeats."""


class TokenKind(Enum):
    """The kind of a token."""

    KEY = auto()
    SCALAR = auto()
    VARIABLE = auto()
    INCLUDE = auto()
    MAP_START = auto()
    MAP_END = auto()
    ARRAY_START = auto()
    ARRAY_END = auto()


class Token(NamedTuple):
    """A piece of the text and its position."""

    kind: TokenKind
    value: Any
    line: int
    column: int
    """From 0 on the first line and from 1 on the others, as nats-server counts."""


_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"\s*")
_SPACE_AND_COMMENTS = re.compile(r"(?:\s+|#[^\r\n]*|//[^\r\n]*)*")
_COMMENT = re.compile(r"(?:#|//)[^\r\n]*")
# A slash alone is a blank behind a top-level value, and a comma behind one of a map or an array.
_BLANKS_AND_SLASHES = re.compile(r"(?:[ \t]|/(?!/))*")
_SPACE_COMMENTS_AND_SLASHES = r"(?:\s+|#[^\r\n]*|//[^\r\n]*|/)*"
_KEY = re.compile(r"[^\s=:]+")
# A character after digits that does not end a number begins a text, even one that ends texts.
_DIGITS_OF_TEXT = re.compile(r"[0-9]+[\]'\\]")
# Consume long runs at once: a step per character would hold the GIL too long.
_WORD = re.compile(r"""[^\s,;\]}'\\]*(?:\\.[^\s,;\]}'\\]*)*""")
_DOUBLE_QUOTED = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
# Rare patterns stay text, which `re` compiles at the first use; each would add 0.1 ms to a start.
_BLOCK_END = r"\n\)(?=\n|\Z)"
_INCLUDE_WORD = r"[^\s;}']*"
_ESCAPE = r"(?s)\\(x..|.)"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_HEX = r"[0-9a-fA-F]{2}"

_INTEGER = re.compile(r"(-?[0-9]+)(?:([kmgtpe])(i?b|i)?)?", re.IGNORECASE)
_FLOAT = r"-?[0-9]+\.[0-9]+"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_ADDRESS = r"[0-9]+\.[0-9]+\.[0-9.:-]*"
_POWERS = {suffix: power for power, suffix in enumerate("kmgtpe", 1)}
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_DIGITS_MAX = 20


class Lexer:
    """The tokens of one text; iterate over `tokens()`."""

    def __init__(self, text: str, file: str) -> None:
        """Read `text`, which came from `file`."""
        self._text = text
        self._file = file
        self._position = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0
        self._blocks = 0

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens in order.

        Raises: ConfError with nats-server's words.
        """
        open_ends: list[TokenKind] = []
        while True:
            context = open_ends[-1] if open_ends else None
            token = self._array_item() if context is TokenKind.ARRAY_END else self._entry(context)
            if token is None:
                return
            if token.kind is TokenKind.KEY:
                yield token
                token = self._value(context)
            yield token
            self._track(token, open_ends)
            if token.kind not in (TokenKind.MAP_START, TokenKind.ARRAY_START):
                yield from self._after_value(open_ends)

    # The three states of the lexer: before a key, in an array, after a value.

    def _entry(self, context: TokenKind | None) -> Token | None:
        """Read a key up to where its value begins, an include, or the end of the map or text."""
        self._match(_SPACE_AND_COMMENTS)
        if context is None:
            self._pass_blocks()
            if self._peek() in ("}", '"', "'") and self._is_over():
                return None
        elif self._peek() == "}":
            return self._bracket(TokenKind.MAP_END)
        if not self._peek():
            if context is not None:
                self._fail("Unexpected EOF processing map.")
            return None
        return self._key(context)

    def _is_over(self) -> bool:
        """Return whether nothing but this brace, or a quote that opens nothing, is left to read."""
        after = self._position + 1
        return after == len(self._text) or (self._peek() == "}" and not self._text[after:].strip())

    def _pass_blocks(self) -> None:
        """Read the braces before a top-level entry."""
        while self._peek() == "{" or (self._peek() == "}" and self._blocks):
            self._blocks += 1 if self._next() == "{" else -1
            is_inner = self._blocks > 0 and self._text[self._position - 1] == "}"
            skipped = re.compile(_SPACE_COMMENTS_AND_SLASHES) if is_inner else _SPACE_AND_COMMENTS
            self._match(skipped)
            if is_inner and self._peek() != "}":
                found = self._next()
                if found not in (",", ";"):
                    expected = "Expected a block-level to end with a '}'"
                    self._fail(f"{expected}, but got '{found}' instead.")
                self._match(_SPACE_AND_COMMENTS)

    def _key(self, context: TokenKind | None) -> Token:
        quote = self._peek()
        if quote in "=:":
            self._fail(f"Unexpected key separator '{quote}'{'' if context is None else '.'}")
        if quote == "]" and context is not None:
            self._fail("Unexpected array end ']' processing map.")
        if quote == "/":
            if context is None:
                self._fail("Unexpected EOF.")
            self._position += 1  # drop it; the next character begins the key, even a blank
        if quote in "\"'":
            key = self._token(TokenKind.KEY, column_offset=1)
            kind = "quoted" if quote == "'" else "double quoted"
            name = self._until_quote(quote, f" processing {kind} map key" if context else "")
        else:
            key = self._token(TokenKind.KEY)
            name = self._next() + self._match(_KEY)
            if name.lower() == "include" and self._peek().isspace():
                return self._include()
        self._separator(context)
        return key._replace(value=name)

    def _separator(self, context: TokenKind | None) -> None:
        self._match(_SPACE)
        if self._peek() and self._peek() in "=:":
            self._position += 1
            self._match(_BLANK if context is None else _SPACE)
        elif not self._peek():
            self._count_lines()
            place = f"{self._file}:{self._line}:{self._position - self._line_start}"
            raise ConfError(f"config is invalid ({place})")

    def _array_item(self) -> Token:
        self._match(_SPACE_AND_COMMENTS)
        if self._peek() in (",", "/"):
            self._fail("Unexpected array value terminator ','.")
        if self._peek() == "]":
            return self._bracket(TokenKind.ARRAY_END)
        if not self._peek():
            self._fail("Unexpected EOF processing array.")
        return self._value(TokenKind.ARRAY_END)

    def _after_value(self, open_ends: list[TokenKind]) -> Iterator[Token]:
        """Read the end of an entry, and close the maps and arrays that end with it."""
        while True:
            context = open_ends[-1] if open_ends else None
            self._match(_BLANK if context else _BLANKS_AND_SLASHES)
            comment = _COMMENT.match(self._text, self._position)
            if comment is not None:
                self._position = comment.end()
            found = self._peek()
            if context is None and self._blocks and found in ("", "}"):
                if not found:
                    self._fail_after_value(context, found)
                return
            if found in ("", "\n", "\r") or (found in ",/" and context is not None):
                self._position += len(found)
                return
            if found == "}" and context is None:
                self._position += 1
                return
            if found in ",;" and context is not TokenKind.ARRAY_END:
                self._position += 1
                return
            closes = (
                TokenKind.MAP_END if found == "}" else TokenKind.ARRAY_END if found == "]" else None
            )
            if closes is None or closes is not context:
                self._fail_after_value(context, found)
            yield self._bracket(closes)
            open_ends.pop()

    def _fail_after_value(self, context: TokenKind | None, found: str) -> NoReturn:
        if context is None:
            level = "block" if self._blocks else "top"
            expected = f"Expected a {level}-level value to end with a new line, comment or EOF"
        elif context is TokenKind.MAP_END:
            expected = 'Expected a map value terminator "," or a map terminator "}"'
        else:
            expected = 'Expected an array value terminator "," or an array terminator "]"'
        self._fail(f"{expected}, but got '{found}' instead.")

    def _track(self, token: Token, open_ends: list[TokenKind]) -> None:
        if token.kind is TokenKind.MAP_START:
            open_ends.append(TokenKind.MAP_END)
        elif token.kind is TokenKind.ARRAY_START:
            open_ends.append(TokenKind.ARRAY_END)
        elif token.kind in (TokenKind.MAP_END, TokenKind.ARRAY_END):
            open_ends.pop()
        if len(open_ends) > DEPTH_MAX:
            self._fail(f"Maps and arrays are nested more than {DEPTH_MAX} deep")

    # Values, by their first character.

    def _value(self, context: TokenKind | None) -> Token:
        first = self._peek()
        if first in ENDS_OF_VALUES:
            return self._nothing(first, context)
        reader: dict[str, Callable[[], Token]] = {
            "[": lambda: self._bracket(TokenKind.ARRAY_START),
            "{": lambda: self._bracket(TokenKind.MAP_START),
            '"': self._double_quoted,
            "'": self._single_quoted,
            "(": self._block,
        }
        if first in reader:
            return reader[first]()
        if first in ("\n", "\r"):
            self._position += 1
            self._fail("Expected value but found new line")
        if first == ".":
            self._fail("Floats must start with a digit")
        if first == "-" or first.isdigit():
            return self._number()
        return self._word()

    def _nothing(self, end: str, context: TokenKind | None) -> Token:
        """Read an absent value as an empty text; in a map, `}` ends the map without one.

        The map then is the value of its last key, and what that was a key of begins nothing.
        """
        if context is TokenKind.MAP_END and end == ",":
            self._fail('Unexpected map value terminator ",".')
        if context is TokenKind.MAP_END and end == "}":
            return self._bracket(TokenKind.MAP_END)
        return self._token(TokenKind.SCALAR)._replace(value="")

    def _bracket(self, kind: TokenKind) -> Token:
        token = self._token(kind)
        self._position += 1
        return token

    def _single_quoted(self) -> Token:
        return self._token(TokenKind.SCALAR)._replace(value=self._until_quote("'"))

    def _double_quoted(self) -> Token:
        token = self._token(TokenKind.SCALAR)
        self._position += 1
        text = self._unescape(self._match(_DOUBLE_QUOTED))
        if self._next() != '"':
            self._fail("Unexpected EOF.")
        return token._replace(value=text)

    def _block(self) -> Token:
        token = self._token(TokenKind.SCALAR)
        found = re.compile(_BLOCK_END).search(self._text, self._position)
        if found is None:
            self._position = len(self._text)
            self._fail("Unexpected EOF processing block.")
        # The line end before the closing parenthesis belongs to the text.
        text, self._position = self._text[self._position + 1 : found.start() + 1], found.end()
        return token._replace(value=text)

    def _word(self) -> Token:
        token = self._token(TokenKind.SCALAR)
        word = self._match(_WORD)
        text = self._end_word(word)
        if not word:
            self._fail(f"Expected value but found '{self._peek()}'")
        if "\\" in word or self._text[self._position - 1] == "'":
            return token._replace(value=text)
        if word.lower() in _TRUTH:
            return token._replace(value=_TRUTH[word.lower()])
        if word.startswith("$"):
            return token._replace(kind=TokenKind.VARIABLE, value=word[1:])
        return token._replace(value=word)

    def _end_word(self, word: str) -> str:
        """Consume the quote that may end a word; return the word without its escapes."""
        text = self._unescape(word)
        end = self._peek()
        if end == "'":
            self._position += 1
        elif end == "\\":  # before the end of a line, or of the text
            self._position += 1
            self._fail_escape(self._next())
        return text

    def _number(self) -> Token:
        token = self._token(TokenKind.SCALAR)
        if digits := self._match(_DIGITS_OF_TEXT):
            return token._replace(value=digits + self._end_word(self._match(_WORD)))
        word = self._match(_WORD)
        if word.startswith("-") and not word[1:2].isdigit():
            self._fail(f"Expected a digit but got '{word[1:2] or self._next()}'.")
        if (integer := _INTEGER.fullmatch(word)) and self._peek() != "'":
            return token._replace(value=self._integer(integer))
        if word.count(".") == 1 and re.fullmatch(_FLOAT, word):
            return token._replace(value=float(word))
        if "-" in word[1:] and re.fullmatch(_DATE, word):
            return token._replace(value=self._date(word))
        self._check_text_that_begins_as_number(word)
        return token._replace(value=self._end_word(word))

    def _integer(self, found: re.Match[str]) -> int:
        digits, suffix, binary = found.groups()
        in_range = len(digits.lstrip("-0")) <= _DIGITS_MAX
        number = int(digits) if in_range else 1 << 64
        if suffix:
            number *= (1024 if binary else 1000) ** _POWERS[suffix.lower()]
        if not -(1 << 63) <= number < 1 << 63:
            raise ConfError(f"integer '{found[0][:SHOWN_MAX]}' is out of the range")
        return number

    def _date(self, word: str) -> datetime:
        try:
            return datetime.strptime(word, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise ConfError(f"expected Zulu formatted DateTime, but got '{word}'") from None

    def _check_text_that_begins_as_number(self, word: str) -> None:
        """Refuse what nats-server takes for a malformed number or date; `1abc` is a text."""
        if word.startswith("-"):
            self._fail_after_value(None, re.sub(r"^-[0-9]+", "", word)[:1])
        whole, dot, rest = word.partition(".")
        if dot and whole.isdigit() and not re.fullmatch(_ADDRESS, word):
            if not rest[:1].isdigit():
                found = rest[:1] or self._next()
                self._fail(f"Floats must have a digit after the '.', but got '{found}' instead.")
            self._fail_after_value(None, rest.lstrip("0123456789.")[:1])
        if re.match(r"[0-9]+-", word):
            self._fail("All ISO8601 dates must be in full Zulu form.")

    def _include(self) -> Token:
        self._match(_BLANK)
        first = self._peek()
        token = self._token(TokenKind.INCLUDE)
        names = {"[": "start of an array", "{": "start of a map", "(": "start of a block"}
        names |= {
            "\n": "new line",
            "\r": "new line",
            "\\": "escape sequence",
            "-": "start of a number",
        }
        if first in names or first.isdigit():
            wrong = names.get(first, "start of a number")
            self._fail(f"Expected include value but found {wrong}")
        is_quoted = bool(first) and first in "\"'"
        path = self._until_quote(first) if is_quoted else self._match(re.compile(_INCLUDE_WORD))
        return token._replace(value=path)

    def _unescape(self, text: str) -> str:
        """Return the text just consumed, without its escapes."""
        return re.sub(_ESCAPE, self._escaped, text) if "\\" in text else text

    def _escaped(self, found: re.Match[str]) -> str:
        character = found[1]
        if character in _ESCAPES:
            return _ESCAPES[character]
        self._position += found.start() + 2 - len(found.string)
        if not character.startswith("x"):
            self._fail_escape(character)
        digits = self._text[self._position : self._position + 2]
        if end := re.search(r"[\r\n]", digits):
            self._position += end.end()
            self._fail("Expected two hexadecimal digits after '\\x', but hit end of line")
        if not re.fullmatch(_HEX, digits):
            digits = digits if len(digits) == 2 else self._text[-2:]
            self._fail(f"Expected two hexadecimal digits after '\\x', but got '{digits}'")
        self._position += len(found.string) - found.start() - 2
        return chr(int(digits, 16))

    def _fail_escape(self, character: str) -> NoReturn:
        if not character:
            self._fail("Unexpected EOF.")
        allowed = r"Only the following escape characters are allowed: \xXX, \t, \n, \r, \", \\."
        self._fail(f"Invalid escape character '{character}'. {allowed}")

    # Places.

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _next(self) -> str:
        """Consume one character."""
        found = self._peek()
        self._position += 1
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        """Consume the match of `pattern`, which may be empty."""
        found = pattern.match(self._text, self._position)
        if found is None:
            return ""
        self._position = found.end()
        return found[0]

    def _until_quote(self, quote: str, place: str = "") -> str:
        """Consume a quoted text without escapes, quotes included."""
        start, end = self._position + 1, self._text.find(quote, self._position + 1)
        if end < 0:
            self._position = len(self._text)
            self._fail(f"Unexpected EOF{place}.")
        self._position = end + 1
        return self._text[start:end]

    def _count_lines(self) -> None:
        lines = self._text.count("\n", self._counted, self._position)
        if lines:
            self._line += lines
            self._line_start = self._text.rindex("\n", self._counted, self._position)
        self._counted = self._position

    def _token(self, kind: TokenKind, column_offset: int = 0) -> Token:
        self._count_lines()
        return Token(kind, None, self._line, self._position + column_offset - self._line_start)

    def _fail(self, text: str) -> NoReturn:
        self._count_lines()
        shown = text.replace("\n", "\\n").replace("\r", "\\r")
        raise ConfError(f"Parse error on line {self._line}: '{shown}'")
