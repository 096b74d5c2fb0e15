"""The process that puts the streams of `[[tables]]` into their tables.

The server starts it by command, since it needs packages that the server does without, and writes
the tables to its standard input. The process reads streams as a client of a listener of its own,
on loopback and in plain text, with a password that holds for this one process and nothing else, so
that neither TLS nor the way in which clients log in matters. It reports on its standard output.

A process that ends is started again after 1 s, 2 s, 4 s and so on, up to 60 s.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.jetstream.config.consumer import set_required_level
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.config.stream import INTEREST
from midge.jetstream.errors import JetStreamError
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.passwords import is_same_text
from midge.server.clock import sleep
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.listeners.tcp import Listener
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from midge.server.auth.identity import Login
    from midge.server.broker.broker import Broker
    from midge.server.config.jetstream import StreamTable
    from midge.server.jetstream.engine import Engine

COMMAND = (sys.executable, "-m", "midge", "table", "work")
_PASSWORD_BYTES = 32
_BACK_OFF_S = 1.0
_BACK_OFF_MAX_S = 60.0
_ACK_WAIT_NS = 30_000_000_000
_STOP_S = 12.0  # the process ends by itself within 10 s
_LINE_BYTES = 1 << 20

log = get_logger()


class _TablesListener(Listener):
    """A listener that only the process of the tables can log in to."""

    def _options_of_proxies(self) -> None:
        return None

    def __init__(self, broker: Broker, login: Login) -> None:
        Listener.__init__(self, broker)
        self._login = login

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        self._greet(accepted, self._broker.make_connection(peer, "TABLES", self._login))


class TableState:
    """A table of the settings, and what its process last reported."""

    def __init__(self, settings: StreamTable) -> None:
        self.settings = settings
        self.rows = 0
        self.quarantined = 0
        self.lost = 0
        self.commits = 0
        self.position = 0
        self.runs = 0
        self.error = ""

    @property
    def account(self) -> str:
        """The account of the stream."""
        return self.settings.account or GLOBAL_ACCOUNT

    def report(self, found: dict[str, Any]) -> None:
        """Take a report, and log a new error, or its end."""
        before = self.error
        for name in ("rows", "quarantined", "lost", "commits", "position", "runs", "error"):
            setattr(self, name, found[name])
        if self.error and self.error != before:
            log.error("table_failed", table=self.settings.name, error=self.error)
        elif before and not self.error:
            log.info("table_recovered", table=self.settings.name)


def keep_messages(engine: Engine | None, tables: Iterable[StreamTable]) -> None:
    """Make the consumers that keep the messages of interest streams until they are in a table.

    The process of a table makes its consumer too, as soon as the stream is there; publishers are
    accepted before that.
    """
    for table in tables:
        home = None if engine is None else engine.accounts.get(table.account or GLOBAL_ACCOUNT)
        if home is None or home.limits is None:
            continue
        stream = home.streams.streams.get(table.stream)
        name = consumer_of(table)
        if stream is None or stream.config.retention != INTEREST:
            continue
        if stream.consumers.get(name.encode()) is not None:
            continue
        config = ConsumerConfig(
            durable_name=name,
            name=name,
            ack_policy="all",
            ack_wait_ns=_ACK_WAIT_NS,
            max_ack_pending=-1,
            headers_only=True,
            filter_subjects=[part.strip() for part in table.subject.split(",") if part.strip()],
        )
        try:
            set_required_level(config)
            stream.consumers.create(config, "", home.streams.allowance())
        except JetStreamError as error:
            log.error("table_failed", table=table.name, error=str(error))


def consumer_of(table: StreamTable) -> str:
    """Return the name of the consumer of a table of an interest stream."""
    return f"table-{table.name}"


class TableService:
    """Runs the process of the tables, from `start` to `stop`."""

    def __init__(self, broker: Broker) -> None:
        self.tables: dict[str, TableState] = {}
        """The tables by name."""
        self.starts = 0
        """How often the process was started."""
        self._broker = broker
        self._listener = _TablesListener(broker, self._authenticate)
        self._url = ""
        self._password = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Listen, and start the process.

        Raises:
            OSError: there is no free port.
        """
        host, port = self._listener.open("127.0.0.1", 0)
        self._url = f"nats://{host}:{port}"
        self.reload()
        self._task = asyncio.ensure_future(self._run())

    def reload(self) -> None:
        """Pass the tables of the options to the process."""
        known = self.tables
        self.tables = {}
        for one in self._broker.options.tables:
            state = known.get(one.name)
            is_same = state is not None and state.settings == one
            self.tables[one.name] = state if state and is_same else TableState(one)
        self._send_jobs()

    async def stop(self) -> None:
        """End the process after a last commit to each table."""
        self._is_stopping = True
        if self._task is not None:
            self._end_input()
            if self._process is None:  # it waits to be started again
                self._task.cancel()
            await asyncio.wait([self._task], timeout=_STOP_S)
            self._task.cancel()
            await asyncio.wait([self._task])
        self._listener.close()

    def problem(self) -> str:
        """Return why a table is not kept up to date, or nothing."""
        if self.tables and self._process is None:
            return "the process of the tables keeps ending"
        for name, state in self.tables.items():
            if state.error:
                return f"table {name}: {state.error}"
        return ""

    async def _run(self) -> None:
        back_off_s = _BACK_OFF_S
        while True:
            runs = sum(state.runs for state in self.tables.values())
            code = await self._run_once()
            if self._is_stopping:
                return
            if sum(state.runs for state in self.tables.values()) > runs:
                back_off_s = _BACK_OFF_S
            log.error("table_process_ended", code=code, delay_s=back_off_s)
            await sleep(self._broker.clock, back_off_s)
            back_off_s = min(2 * back_off_s, _BACK_OFF_MAX_S)

    async def _run_once(self) -> int:
        """Start the process, read its reports to the end, and return its exit code."""
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        pipe = subprocess.PIPE
        loop = asyncio.get_running_loop()
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes 2 ms; the command is ours
            COMMAND, stdin=pipe, stdout=pipe, start_new_session=True
        )
        self._process = process
        self.starts += 1
        log.info("table_process_started", pid=process.pid, tables=len(self.tables))
        self._send_jobs()
        try:
            reader = asyncio.StreamReader(_LINE_BYTES)
            transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), process.stdout
            )
            async for line in reader:
                self._take(line)
            transport.close()
            return await asyncio.to_thread(process.wait)
        finally:
            self._end_input()
            self._process = None
            self._password = ""
            if process.poll() is None:
                process.kill()
                process.wait()

    def _send_jobs(self) -> None:
        """Write the tables to the process."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        jobs = [self._job(state) for state in self.tables.values()]
        try:
            self._process.stdin.write(json.dumps({"tables": jobs}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return  # it has ended, and is started again with these tables

    def _job(self, state: TableState) -> dict[str, Any]:
        settings = structs.asdict(state.settings)
        del settings["account"]
        is_typed = bool(settings["columns"] or settings["infer"])
        login = {"servers": self._url, "user": state.account, "password": self._password}
        settings["columns"] = settings["columns"] if is_typed else None
        return {**settings, "consumer": consumer_of(state.settings), "server": login}

    def _end_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                return  # it has ended

    def _take(self, line: bytes) -> None:
        found = json.loads(line)
        state = self.tables.get(found["name"])
        if state is not None:
            state.report(found)

    def _authenticate(self, request: AuthRequest) -> Verdict:
        """Return the identity of the process in the account that it names as its user."""
        accounts = {state.account for state in self.tables.values()}
        is_ours = bool(self._password) and is_same_text(self._password, request.password)
        if not is_ours or request.user not in accounts:
            return Refusal("only the process of the tables may log in here")
        return Identity(user="midge.tables", account=request.user)
