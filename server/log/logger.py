"""Logging: bound loggers, in structlog's manner, over one output of the process that cannot fail.

    log = get_logger().bind(cid=7, peer="127.0.0.1:51044")
    log.info("client_connected", name="shop")

Events are past-tense snake_case with fields. Until `configure` is called they go to the standard
library's logger `midge`, as in any library; the daemon configures a format, a level and a file.
"""

from __future__ import annotations

import logging as standard_logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from midge.server.log.rate_limit import OffenderLimiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from midge.server.config.options import Logging
    from midge.server.log.formats import Form
    from midge.server.log.output import FileOutput, StreamOutput, SyslogOutput

TRACE = 5
"""The level of protocol traces, below DEBUG."""

LEVELS = {"trace": TRACE, "debug": 10, "info": 20, "warning": 30, "error": 40, "fatal": 50}
"""Level numbers by method name; the standard library's, with trace below and fatal on top."""


class Journal:
    """The process's single sink of log events, with level, form, offender limit and output."""

    def __init__(self) -> None:
        """Send all events to the standard library's logger until `configure`."""
        self.level = 0  # the standard logger filters by its own level, which may change
        self.form_name = ""  # a key of FORMS, once configured
        self._form: Form | None = None
        self._output: StreamOutput | FileOutput | SyslogOutput | None = None
        self._limiter = OffenderLimiter(0, time.monotonic)
        self._suppressed = 0
        self._lost = 0
        self._wall_clock: Callable[[], float] = time.time

    def configure(
        self,
        options: Logging,
        *,
        stream: TextIO | None = None,
        form: str = "",
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Configure by `options`; `form` is the format for `auto`.

        A further call (a reload) affects all loggers at once.
        """
        # Imported here: a server embedded in a program with its own log never needs it.
        from midge.server.log.formats import FORMS  # noqa: PLC0415
        from midge.server.log.output import (  # noqa: PLC0415
            FileOutput,
            StreamOutput,
            SyslogOutput,
        )

        stream = sys.stderr if stream is None else stream
        old = self._output
        if options.file:
            self._output = FileOutput(options, wall_clock)
        elif options.syslog or options.remote_syslog:
            self._output = SyslogOutput(options, wall_clock)
        else:
            self._output = StreamOutput(stream)
        if old is not None:
            self._lost += old.lost
            old.close()
        chosen: str = options.format
        if chosen == "auto":
            to_syslog = isinstance(self._output, SyslogOutput)
            chosen = "plain" if to_syslog else form or _natural(options, stream)
        self.form_name = chosen
        self._form = FORMS[chosen](options, os.getpid(), stream)
        self._suppressed += self._limiter.suppressed
        self._limiter = OffenderLimiter(options.max_lines_per_offender_per_s, clock)
        self._wall_clock = wall_clock
        traced = options.trace or options.trace_verbose
        self.level = TRACE if traced else LEVELS["debug" if options.debug else "info"]
        self.options = options

    def reset(self) -> None:
        """Return to the initial state, for tests."""
        if self._output is not None:
            self._output.close()
        self.__init__()  # type: ignore[misc]  # sets all attributes to their initial values

    def emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write one event, unless its peer has used up the lines of this second."""
        if LEVELS[level] >= LEVELS["warning"] and level != "fatal":
            peer = fields.get("peer")
            if peer is not None and not self._limiter.admit(str(peer), fields):
                return
        if self._form is None or self._output is None:
            _to_standard_logging(level, event, fields)
        elif level != "debug" or self.options.debug:
            # With -V but without -D, nats-server shows traces but no debug lines.
            output = self._output
            output.write(self._form(self._wall_clock(), level, event, fields), level)
            for rotation in tuple(output.events):
                output.write(self._form(self._wall_clock(), "info", *rotation))
            output.events.clear()

    def relay(self, line: str) -> None:
        """Write a line that another process of this server has formatted."""
        if self._output is not None:
            self._output.write(line)
        else:
            _to_standard_logging("info", line, {})

    @property
    def suppressed_lines(self) -> int:
        """Count the lines suppressed by the limit per peer."""
        return self._suppressed + self._limiter.suppressed

    @property
    def lost_lines(self) -> int:
        """Count the lines that could not be written."""
        return self._lost + (self._output.lost if self._output is not None else 0)

    @property
    def is_tracing(self) -> bool:
        """Return whether traces are written."""
        if self._form is None:
            return standard_logging.getLogger("midge").isEnabledFor(TRACE)
        return self.level <= TRACE

    def reopen(self) -> None:
        """Open the log file again, after another program has renamed it."""
        if self._output is not None:
            self._output.reopen()


JOURNAL = Journal()
"""The process's journal."""


class ServerLogger:
    """A bound logger with nats-server's levels; a suppressed event costs one comparison.

    It has structlog's interface of a bound logger, without importing structlog.
    """

    def __init__(self, logger: object, processors: object, context: dict[str, Any]) -> None:
        """Bind `context`; structlog passes the other two, which the journal replaces."""
        self._context = context

    def bind(self, **fields: Any) -> Self:
        """Return a logger with `fields` bound in addition."""
        return type(self)(None, None, {**self._context, **fields})

    def unbind(self, *names: str) -> Self:
        """Return a logger without the fields `names`. Raises: KeyError when one is not bound."""
        left = dict(self._context)
        for name in names:
            del left[name]
        return type(self)(None, None, left)

    def try_unbind(self, *names: str) -> Self:
        """Return a logger without the fields `names`, bound or not."""
        left = {name: value for name, value in self._context.items() if name not in names}
        return type(self)(None, None, left)

    def new(self, **fields: Any) -> Self:
        """Return a logger with only `fields` bound."""
        return type(self)(None, None, fields)

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        JOURNAL.emit(level, event, {**self._context, **fields})

    @property
    def is_tracing(self) -> bool:
        """Return whether traces are written; callers need not build the text otherwise."""
        return JOURNAL.is_tracing

    @property
    def is_debugging(self) -> bool:
        """Return whether debug lines may be written; callers need not build the text otherwise."""
        return JOURNAL.level <= 10

    def trace(self, event: str, **fields: Any) -> None:
        """Log a line of the protocol."""
        if JOURNAL.level <= TRACE:
            self._emit("trace", event, fields)

    def debug(self, event: str, **fields: Any) -> None:
        """Log at debug level."""
        if JOURNAL.level <= 10:
            self._emit("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an event of normal operation."""
        if JOURNAL.level <= 20:
            self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that needs attention."""
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log an error."""
        self._emit("error", event, fields)

    def fatal(self, event: str, **fields: Any) -> None:
        """Log the reason why the process ends."""
        self._emit("fatal", event, fields)

    critical = fatal

    def exception(self, event: str, **fields: Any) -> None:
        """Log an internal error with the exception that is being handled."""
        error = sys.exc_info()[1]
        self._emit("error", event, {**fields, "error": f"{type(error).__name__}: {error}"})


def check_file(options: Logging) -> None:
    """Check early that the log file can be written, or the syslog daemon be reached.

    Raises:
        OSError: it cannot.
        ValueError: the URL of the daemon is none.
    """
    if options.file:
        from pathlib import Path  # noqa: PLC0415 - most write to standard error

        with Path(options.file).open("ab"):
            pass
    elif options.syslog or options.remote_syslog:
        from midge.server.log.syslog import SyslogHandler  # noqa: PLC0415 - few use it

        SyslogHandler(options.remote_syslog).close()


def get_logger(**fields: Any) -> ServerLogger:
    """Return a logger with `fields` bound to it."""
    return ServerLogger(None, None, fields)


def configure(options: Logging, **choices: Any) -> None:
    """Configure the journal and let plain `structlog.get_logger()` write to it too."""
    JOURNAL.configure(options, **choices)
    adopt_structlog()


def adopt_structlog() -> None:
    """Route structlog's loggers to the journal, if structlog has been imported.

    A hook may import it; midge itself does not, since that takes as long as importing the whole
    server.
    """
    if "structlog" not in sys.modules:
        return
    import structlog  # noqa: PLC0415 - it is there already

    structlog.configure(
        processors=[],
        wrapper_class=ServerLogger,
        context_class=dict,
        logger_factory=lambda *_: JOURNAL,
        cache_logger_on_first_use=False,
    )


def _natural(options: Logging, stream: TextIO) -> str:
    return "human" if not options.file and stream.isatty() else "json"


def _to_standard_logging(level: str, event: str, fields: dict[str, Any]) -> None:
    logger = standard_logging.getLogger("midge")
    if logger.isEnabledFor(LEVELS[level]):
        details = " ".join(f"{name}={value!r}" for name, value in fields.items())
        logger.log(LEVELS[level], "%s %s", event, details)
