"""Compare two outcomes of a script and say where they part."""

from __future__ import annotations

import difflib
import re
from itertools import groupby, zip_longest

from .runner import Outcome, Received
from .script import Await, HalfClose, Open, Respond, Script, Send, Signal, Step

_COLUMN = 60
_NO_RESPONDERS = re.compile(rb"^(HMSG \S+) \S+( \d+ \d+\r\nNATS/1\.0 503\r\nNats-Subject: )")
_SHOWN_BYTES = 80
_SHOWN_BYTES_OF_DIFFERENCE = 2000


def comparable(script: Script, outcome: Outcome) -> dict[str, list[bytes]]:
    """Reduce an outcome to what the script promises about it."""
    streams = {name: [r.frame for r in received] for name, received in outcome.items()}
    if script.unordered:
        streams = {name: [_of_any(frame) for frame in stream] for name, stream in streams.items()}
    if script.racy_end:
        streams = {name: _without_last_words(stream) for name, stream in streams.items()}
    if script.pooled:
        return {"all": sorted(frame for stream in streams.values() for frame in stream)}
    if script.unordered:
        return {name: _sort_neighbours(stream) for name, stream in streams.items()}
    return streams


def mismatch(
    script: Script, expected: Outcome, actual: Outcome, names: tuple[str, str], replay: str
) -> str | None:
    """Return a readable report, or None when both outcomes are the same."""
    left, right = comparable(script, expected), comparable(script, actual)
    if left == right:
        return None
    lines = [
        f"{script.name}: {names[1]} does not do what {names[0]} does ({replay})",
        f"  why the script is there: {script.why}",
        f"  server configuration: {script.config.name}",
        *(f"  intended difference: {script.differs}" for _ in [0] if script.differs),
        "  steps:",
        *(f"    {n:2} {describe(step)}" for n, step in enumerate(script.steps, start=1)),
    ]
    for conn in sorted(left.keys() | right.keys()):
        if left.get(conn) != right.get(conn):
            steps = _steps_by_frame(expected.get(conn, []))
            lines += _side_by_side(conn, left.get(conn, []), right.get(conn, []), names, steps)
    return "\n".join(lines)


def describe(step: Step) -> str:
    """One line for one step."""
    match step:
        case Send(conn, data) | Respond(conn, data):
            return f"{conn} > {escape(data)}"
        case Open(conn, port):
            return f"{conn} opens a connection to the {port} port"
        case HalfClose(conn):
            return f"{conn} shuts its sending side down"
        case Await(conn, data, times):
            return f"{conn} waits for {escape(data)} ({times} times)"
        case Signal(name, config):
            return f"signal {name} to the server" + (" with a new file" if config else "")
    return f"{step.conn} {type(step).__name__}"


def escape(data: bytes, limit: int = 160) -> str:
    """Show bytes as in a Python literal, long ones cut in the middle."""
    if len(data) > limit:
        half = limit // 2
        cut = len(data) - 2 * half
        return f"{escape(data[:half])} …{cut} bytes… {escape(data[-half:])}"
    return repr(data)[2:-1]


def _without_last_words(stream: list[bytes]) -> list[bytes]:
    return [frame for frame in stream if not frame.startswith((b"-ERR", b"[close frame"))]


def _of_any(frame: bytes) -> bytes:
    """Leave out which of a client's subscriptions to the reply subject got a no-responders."""
    return _NO_RESPONDERS.sub(rb"\1 <sid>\2", frame)


def _sort_neighbours(stream: list[bytes]) -> list[bytes]:
    """Sort each run of neighbouring messages; leave all other frames in place."""
    runs = groupby(stream, key=lambda frame: frame.startswith((b"MSG ", b"HMSG ")))
    return [frame for is_msg, run in runs for frame in (sorted(run) if is_msg else run)]


def _steps_by_frame(received: list[Received]) -> dict[bytes, int]:
    return {r.frame: r.step for r in reversed(received)}


def _side_by_side(
    conn: str,
    left: list[bytes],
    right: list[bytes],
    names: tuple[str, str],
    steps: dict[bytes, int],
) -> list[str]:
    """Two columns of frames, aligned, with the differing ones marked."""
    lines = [f"  connection {conn}:", f"    step  {names[0]:<{_COLUMN}} | {names[1]}"]
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        sign = " " if tag == "equal" else "!"
        for a, b in zip_longest(left[i1:i2], right[j1:j2]):
            step = f"{steps.get(a, ''):>4}" if a is not None else "    "
            limit = _SHOWN_BYTES if tag == "equal" else _SHOWN_BYTES_OF_DIFFERENCE
            shown = [escape(f, limit) if f is not None else "" for f in (a, b)]
            if len(shown[0]) > _COLUMN:
                shown[1] = "\n" + " " * (_COLUMN + 12) + shown[1]
            lines.append(f"  {sign} {step}  {shown[0]:<{_COLUMN}} | {shown[1]}")
    return lines
