"""Run a server as a process: logging, pid and ports files, signals, exit codes.

SIGTERM, SIGINT   stop, exit 0 (SIGTERM waits when lame duck mode is under way)
SIGHUP            reload the configuration; a broken one changes nothing
SIGUSR1           reopen the log file
SIGUSR2           lame duck mode, then exit 0
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from midge.platforms import handle_signals, new_event_loop
from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.errors import MidgeError
from midge.server.auth.passwords import has_plain_ones
from midge.server.listeners.sockets import INHERITED
from midge.server.log import logger as logging
from midge.server.process.gc_pauses import shorten_pauses
from midge.server.process.names import PROGRAM
from midge.version import __version__, is_compiled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.config.load import Loaded
    from midge.server.config.options import Options
    from midge.server.process.pid_and_ports import PortsFile
    from midge.server.process.systemd import ServiceManager
    from midge.server.server import Server
    from midge.server.workers.supervisor import Supervisor

log = logging.get_logger()

_INTERPRETED = (
    "running interpreted, several times slower than compiled; "
    "build midge with a C compiler and without MIDGE_PURE"
)

LISTENERS = {
    "monitoring": "monitoring_started",
    "websocket": "websocket_listener_started",
    "nats": "client_listener_started",
}
"""Event that announces each kind of listener, in the order in which they open."""

TLS_LISTENERS = {("monitoring", "https"): "monitoring_tls_started"}
"""Event for a kind of listener when it is encrypted and has a name of its own."""

_TEXTS = {
    "SIGTERM": "terminated",
    "SIGINT": "interrupt",
    "SIGHUP": "hangup",
    "SIGUSR1": "user defined signal 1",
    "SIGUSR2": "user defined signal 2",
}
SIGNAL_TEXTS = {one: _TEXTS[one.name] for one in signal.Signals if one.name in _TEXTS}
"""The names of the signals in nats-server's log."""


class Daemon:
    """One server process, from its first log line to its exit code."""

    def __init__(
        self,
        load: Callable[[], Loaded],
        make_server: Callable[[Options], Server | Supervisor],
        when_ready: Callable[[Server | Supervisor, Options], None] | None = None,
        *,
        log_form: str = "",
        source: str = "",
    ) -> None:
        """Keep the functions that load options and make servers.

        `load` is called again for every reload, `when_ready` once clients can connect; `source` is
        the configuration file's name; `log_form` is what `logging.format = "auto"` means.
        """
        self._load = load
        self._make_server = make_server
        self._when_ready = when_ready
        self._log_form = log_form
        self._source = source
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._is_lame_duck = False
        self._ports_file: PortsFile | None = None
        self._service_manager = _service_manager()

    async def run(self) -> int:
        """Serve until a signal ends it; return the exit code.

        Raises: MidgeError when not even a log can be written.
        """
        loaded = self._load()
        self._configure_logging(loaded.options)
        self._server = self._make_server(loaded.options)
        self._server.reload_on_request(self._reload_in_turn)
        digest = self._digest(loaded)
        self._server.name_configuration(digest)
        logging.adopt_structlog()  # structlog, which a hook may have imported
        self._options = loaded.options
        self._announce(loaded, digest)
        handle_signals(asyncio.get_running_loop(), SIGNAL_TEXTS, self._receive)
        if self._service_manager is not None:
            self._service_manager.keep_alive()
        try:
            self._write_pid_file(loaded.options)
            await self._start()
        except MidgeError as error:
            log.fatal("server_failed", error=str(error))
            return 1
        try:
            self._report_ready(loaded.options)
            await self._stopping.wait()
            await self._stop()
        finally:
            self._remove_ports_file()
        return 0

    def _configure_logging(self, options: Options) -> None:
        """Configure the log by `options`; on failure keep the old log and raise MidgeError."""
        try:
            logging.check_file(options.logging)
        except (OSError, ValueError) as error:
            if options.logging.file and isinstance(error, OSError):
                raise MidgeError(f"error opening log file: {_explain(error)}") from None
            raise MidgeError(f"error connecting to syslog: {error}") from None
        logging.configure(options.logging, form=self._log_form)

    async def _start(self) -> None:
        """Start the server; the error names an address that cannot be bound."""
        try:
            await self._server.start()
            for port in INHERITED:
                text = f"no listener has port {port}, of a socket that systemd passes on"
                log.warning("setting_doubtful", text=text)
        except OSError as error:
            reason = _reason(error)
            text = f'Error listening on port: {error.filename}, "{reason}"'
            raise MidgeError(text if error.filename else reason) from None

    def _announce(self, loaded: Loaded, digest: str) -> None:
        log.info("server_starting", program=PROGRAM)
        log.info("version_announced", version=__version__)
        log.info("compatibility_announced", version=COMPATIBLE_VERSION)
        name = loaded.options.server_name or self._server.server_id
        log.info("name_announced", name=name)
        log.info("id_announced", server_id=self._server.server_id)
        if self._source:
            log.info("configuration_used", file=self._source, digest=digest)
        if not is_compiled():
            log.warning("server_interpreted", text=_INTERPRETED)
        self._warn(loaded)
        if has_plain_ones(loaded.options):
            log.warning("plaintext_passwords_configured")

    def _digest(self, loaded: Loaded) -> str:
        """Return the fingerprint of the configuration file; "" without one."""
        return loaded.digest if self._source else ""

    def _warn(self, loaded: Loaded) -> None:
        for warning in loaded.warnings + loaded.notes + loaded.file_warnings:
            log.warning("setting_doubtful", text=warning)

    def _write_pid_file(self, options: Options) -> None:
        path = options.process.pid_file
        if not path:
            return
        from midge.server.process.pid_and_ports import write_pid_file  # noqa: PLC0415 - seldom set

        try:
            write_pid_file(path)
        except OSError as error:
            raise MidgeError(f"Could not write pidfile: {_explain(error)}") from None

    def _report_ready(self, options: Options) -> None:
        urls = self._server.urls()
        for kind, event in LISTENERS.items():
            for url in urls.get(kind, ()):
                scheme, _, address = url.partition("://")
                log.info(TLS_LISTENERS.get((kind, scheme), event), url=url, address=address)
        self._write_ports_file(options)
        log.info("server_ready")
        if self._service_manager is not None:
            self._service_manager.ready()
        # The first client need not wait for what the start could do without.
        loop = asyncio.get_running_loop()
        loop.call_soon(import_connections)
        if self._when_ready is not None:
            loop.call_soon(self._when_ready, self._server, options)

    def _write_ports_file(self, options: Options) -> None:
        self._remove_ports_file()
        if not options.process.ports_file_dir:
            return
        from midge.server.process.pid_and_ports import PortsFile  # noqa: PLC0415 - seldom set

        self._ports_file = PortsFile(options.process.ports_file_dir)
        try:
            self._ports_file.write(self._server.urls(), is_encrypted=options.tls.enabled)
        except OSError as error:
            log.warning("ports_file_failed", error=_explain(error))

    def _remove_ports_file(self) -> None:
        if self._ports_file is not None:
            with contextlib.suppress(OSError):
                self._ports_file.remove()

    def _receive(self, number: signal.Signals) -> None:
        log.info("signal_received", signal=SIGNAL_TEXTS[number])
        if number == signal.SIGINT or (number == signal.SIGTERM and not self._is_lame_duck):
            self._stopping.set()
        elif number.name == "SIGHUP":
            self._begin(self._reload_on_signal())
        elif number.name == "SIGUSR1":
            logging.JOURNAL.reopen()
            log.info("log_reopened")
        elif number.name == "SIGUSR2" and not self._is_lame_duck:
            self._is_lame_duck = True
            self._begin(self._lame_duck())

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload_on_signal(self) -> None:
        with contextlib.suppress(MidgeError):  # which has been logged
            await self._reload_in_turn()

    async def _reload_in_turn(self) -> None:
        """Reload after earlier requests; raise MidgeError when nothing has changed."""
        async with self._reloading:
            if self._service_manager is not None:
                self._service_manager.reloading()
            try:
                await self._reload()
            except MidgeError as error:
                for line in str(error).splitlines():
                    log.error("configuration_refused", error=line)
                raise
            finally:
                if self._service_manager is not None:
                    self._service_manager.ready()

    async def _reload(self) -> None:
        """Load the options again, off the loop, and apply all or none."""
        loaded = await asyncio.to_thread(self._load)
        options = loaded.options
        await self._server.reload(options)
        digest = self._digest(loaded)
        self._server.name_configuration(digest)
        old, self._options = self._options, options
        if options.logging != old.logging:
            self._configure_logging(options)
        if options.process != old.process:
            self._write_pid_file(options)
            self._write_ports_file(options)
        self._warn(loaded)
        from midge.server.config.reload_rules import changes  # noqa: PLC0415 - most never reload

        for change in changes(old, options):
            log.info("option_reloaded", option=f"{change.setting.key} = {change.text(change.new)}")
        log.info("configuration_reloaded", digest=digest or "no file")

    async def _lame_duck(self) -> None:
        log.info("lame_duck_started")
        try:
            await self._server.lame_duck()
        finally:
            self._stopping.set()

    async def _stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        log.info("shutdown_started")
        if self._service_manager is not None:
            self._service_manager.stopping()
        await self._server.stop()
        log.info("server_stopped")


def _service_manager() -> ServiceManager | None:
    """Return the service manager that has started this process, if one has."""
    if not {"NOTIFY_SOCKET", "LISTEN_FDS"} & os.environ.keys():
        return None
    from midge.server.process import systemd  # noqa: PLC0415 - for services only

    systemd.inherit_sockets(os.environ)
    return systemd.ServiceManager(os.environ)


def run(daemon_of: Callable[[], Daemon]) -> int:
    """Run the daemon that `daemon_of` makes, on uvloop; return the exit code."""
    shorten_pauses()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        code = runner.run(_run(daemon_of))
    # The loop's handlers are gone; a second SIGTERM must not turn a clean exit into a kill.
    for number in SIGNAL_TEXTS:
        signal.signal(number, signal.SIG_IGN)
    return code


async def _run(daemon_of: Callable[[], Daemon]) -> int:
    return await daemon_of().run()


def import_connections() -> None:
    """Import what the first connection would else import when it comes."""
    from midge.server.broker import server_info  # noqa: F401, PLC0415 - see above
    from midge.server.channels import plain_transport  # noqa: F401, PLC0415 - see above
    from midge.server.clients import connection  # noqa: F401, PLC0415 - see above


def _explain(error: OSError) -> str:
    """Return the error of a file in nats-server's form: `open /x: permission denied`."""
    return f"open {error.filename}: {_reason(error)}" if error.filename else _reason(error)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
