"""Output of the pipeline's commands: progress bars on a terminal, plain lines elsewhere."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from midge.client.errors import ClientError, OptionError
from midge.pipeline.errors import PipelineError
from midge.protocol.errors import MidgeError


class ProgressBars:
    """Progress bars on standard error, each with a name and its own progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def update(
        self, name: str, completed: float, total: float | None = None, note: str = ""
    ) -> None:
        """Set the progress of `name`; without `total`, its end is unknown."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, note="")
        self._progress.update(self._tasks[name], completed=completed, total=total, note=note)


@contextmanager
def bars() -> Iterator[ProgressBars]:
    """Show progress bars while the block runs."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield ProgressBars(progress)


def say(text: str) -> None:
    """Print one line of result to standard output."""
    sys.stdout.write(text + "\n")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a count with its noun, as in "1 message" and "2,000 messages"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def warn(text: str) -> None:
    """Print one line to standard error."""
    sys.stderr.write(text + "\n")


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; numbers are right-aligned, with separators."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        is_number = all(isinstance(row[index], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    width = None if sys.stdout.isatty() else 160
    Console(width=width).print(table)


@contextmanager
def errors_reported(program: str, codes: list[int]) -> Iterator[None]:
    """Print an error that midge raises on purpose as one line, and append its exit code.

    It is 2 for a wrong argument, else 1.
    """
    try:
        yield
    except MidgeError as error:
        kind = "" if isinstance(error, ClientError | PipelineError) else f"{type(error).__name__}: "
        warn(f"{program}: {kind}{error}")
        codes.append(2 if isinstance(error, OptionError) else 1)


@contextmanager
def termination_reported() -> Iterator[None]:
    """Raise `PipelineError` in the block when SIGTERM arrives, so that it ends with a line."""

    def end(*_: object) -> None:
        raise PipelineError("ended by SIGTERM")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM has arrived."""
    asked: list[bool] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: asked.append(True)) for number in numbers]
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Make Ctrl-C only raise, because PySpark's own handler calls the JVM, which may be busy."""

    def is_ours(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    # py4j writes a trace of each interrupt to the root logger.
    root, before = logging.getLogger(), signal.getsignal(signal.SIGINT)
    root.addFilter(is_ours)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        root.removeFilter(is_ours)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
