"""Put the speed table of README.md in place, from RESULTS.md: `python -m bench.speed_table`.

`make bench` does it after a whole run, and a test compares the two pages.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from bench.report import UNCOMMITTED

_FOLDER = Path(__file__).resolve().parent
RESULTS = _FOLDER / "RESULTS.md"
README = _FOLDER.parent / "README.md"

SHOWN = (
    ("services, 20 to 400 B", "rate"),
    ("telemetry, 8 to 32 B", "rate"),
    ("services, 6 subscribers", "rate"),
    ("200 writers, 20,000/s", "latency p50"),
    ("publish only, 16 B", "rate"),
    ("one-to-one, 16 B", "rate"),
    ("one-to-one, 1 KiB", "rate"),
    ("fan-out 10, 16 B", "rate"),
    ("queue group of 4", "rate"),
    ("one-to-one over TLS, 16 B", "rate"),
    ("request/reply, alone", "latency p50"),
    ("stream, file, window 2,000", "rate"),
    ("stream, own replies and ids", "rate"),
    ("stream, memory, window 2,000", "rate"),
    ("pull, each acknowledged", "rate"),
    ("push consumer", "rate"),
    ("5,000 idle connections", "memory each"),
)
"""The scenarios of the table, and the metric of each."""

_BEGIN = "<!-- speed table: written by `python -m bench.speed_table` -->\n"
_END = "<!-- end of the speed table -->\n"
_MILLION = 1_000_000
_IN_MILLIONS_FROM = 100_000
_RATIO = re.compile(r"\d+\.\d\d")


class Row(NamedTuple):
    """One metric of one scenario, as RESULTS.md has it."""

    midge: str
    nats_server: str
    ratio: float


def read(results: str) -> dict[tuple[str, str], Row]:
    """Return the rows of a results page by scenario and metric."""
    rows: dict[tuple[str, str], Row] = {}
    title = ""
    for line in results.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 5 or not _RATIO.fullmatch(cells[4]):
            continue
        title = cells[0] or title
        rows[title, cells[1]] = Row(_median(cells[2]), _median(cells[3]), float(cells[4]))
    return rows


def table(results: str) -> str:
    """Return the table, and below it the facts about the measurement.

    Raises: KeyError when a scenario of `SHOWN` is not on the results page.
    """
    rows = read(results)
    lines = [
        "| | midge | nats-server | midge / nats-server | the same for CPU per message |",
        "|---|---|---|---|---|",
    ]
    for title, metric in SHOWN:
        row, cpu = rows[title, metric], rows.get((title, "server CPU"))
        name = title if metric == "rate" else f"{title}: {metric}"
        share = f"{cpu.ratio:.2f}" if cpu else ""
        cells = (name, _short(row.midge), _short(row.nats_server), f"{row.ratio:.2f}", share)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\n{_origin(results)}\n"


def replaced(readme: str, results: str) -> str:
    """Return the text of README.md with the table of `results`.

    Raises: ValueError when README.md has no place for it.
    """
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md: expected the lines {_BEGIN!r} and {_END!r}")
    return f"{before}{begin}\n{table(results)}\n{end}{after}"


def main() -> int:
    """Update README.md, unless the figures are of uncommitted code."""
    results = RESULTS.read_text()
    if UNCOMMITTED in results:
        print(f"README.md stays: {RESULTS.name} was measured {UNCOMMITTED}", file=sys.stderr)
        return 1
    README.write_text(replaced(README.read_text(), results))
    return 0


def _median(cell: str) -> str:
    return cell.partition(" ±")[0]


def _short(value: str) -> str:
    """Return `value`, a high rate in millions a second."""
    number = value.removesuffix("/s").replace(",", "")
    if not value.endswith("/s") or int(number) < _IN_MILLIONS_FROM:
        return value
    return f"{int(number) / _MILLION:.1f} M/s"


def _origin(results: str) -> str:
    facts = dict(re.findall(r"^- (\w[\w-]*): (.*)$", results, re.MULTILINE))
    version = facts["nats-server"].rpartition("v")[2]
    day = facts["date"].partition(" ")[0]
    return (
        f"Medians of both servers in alternation on {facts['machine']}, {facts['python']},\n"
        f"nats-server {version}, {day}, commit {facts['commit']}."
    )


if __name__ == "__main__":
    sys.exit(main())
