"""All worker processes: started together, linked with one another, and started again when they end.

A worker takes clients only when it is linked with all others and every one knows the interest of
the rest. One that ends is started again at once; one that keeps ending has to wait longer each
time.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Protocol

from midge.protocol.errors import MidgeError
from midge.server.log.logger import get_logger
from midge.server.workers.balancer import Balancer
from midge.server.workers.control import GoneError
from midge.server.workers.process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from midge.server.clock import Clock

DEATHS_MAX = 3
"""A worker that ends so often within a minute is started again with a delay."""

DEATHS_WITHIN_S = 60.0
LONGEST_DELAY_S = 30.0

_PING_S = 2.0
_TRY_AGAIN_S = 5.0
PATIENCE_S = 2.0  # for what one worker asks the others, such as for a page
_LINK_BUFFER_BYTES = 2 << 20
"""Capacity of a link's socket, as far as the system allows (net.core.wmem_max): a batch of reads
makes 1 MiB of messages, and what does not fit makes the next ones slower."""

_RELINK_S = 0.1  # a link that ends most often means that a process does, which is soon known

log = get_logger()


class PoolOwner(Protocol):
    """The owner of a pool: supplies its workers, and handles their reports."""

    def first_notice(self, index: int) -> dict[str, Any]:
        """Return the first message to worker `index`."""

    def sockets_of(self, index: int) -> Iterable[tuple[str, socket.socket]]:
        """List the listening sockets that worker `index` serves itself, with their kinds."""

    async def answer(self, worker: int, kind: str, body: dict[str, Any]) -> Any:
        """Answer a worker's question. Raises: MidgeError."""

    def neighbours_changed(self, worker: int, found: dict[str, Any]) -> None:
        """Handle a worker's report about the cluster."""

    def states_changed(self) -> None:
        """Called when a worker has become ready or has ended."""


class WorkerPool:
    """`size` workers of `owner`; `changing` is held while settings change or a worker starts.

    `silence_max_s` is how long a worker may answer nothing before it is ended as stuck.
    """

    def __init__(self, owner: PoolOwner, size: int, clock: Clock, silence_max_s: float) -> None:
        self.size = size
        self.balancer = Balancer(size)
        self.connection_counts = ConnectionCounts()
        self.changing = asyncio.Lock()
        self.restarts = 0
        self._owner = owner
        self._clock = clock
        self._unanswered_max = max(2, round(silence_max_s / _PING_S))
        self._processes: dict[int, WorkerProcess] = {}
        self._deaths: list[deque[float]] = [deque() for _ in range(size)]
        self._relinking: set[tuple[int, int]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        self._empty = asyncio.Event()
        self._failed: asyncio.Future[Any] | None = None

    # Start and stop.

    async def start(self) -> None:
        """Start all workers and return when clients may come.

        Raises:
            MidgeError: one of them could not start; all have ended then.
        """
        self._failed = asyncio.get_running_loop().create_future()
        try:
            for worker in self.balancer.workers:
                await self._spawn(worker.index)
            starts = [self._begin(process) for process in self._processes.values()]
            together = asyncio.ensure_future(_all(starts))
            either: set[asyncio.Future[Any]] = {together, self._failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not together.done():
                together.cancel()
                self._failed.result()
            await together
            await self.ask_all("ping")  # each has taken what others said while they started
        except BaseException:
            await self.stop(0.0)
            raise
        finally:
            self._failed = None
        self._clock.call_later(_PING_S, self._ask_all_alive)

    async def stop(self, timeout_s: float) -> None:
        """Stop all workers; end those that take longer than `timeout_s`."""
        self._is_stopping = True
        for task in list(self._tasks):
            task.cancel()
        for process in list(self._processes.values()):
            process.control.send("stop")
        try:
            async with asyncio.timeout(timeout_s):
                await self._emptied()
        except TimeoutError:
            for process in list(self._processes.values()):
                process.kill()
            await self._emptied()

    async def _emptied(self) -> None:
        while self._processes:
            self._empty.clear()
            await self._empty.wait()

    async def _spawn(self, index: int) -> WorkerProcess:
        """Start a process and link it with those that are there."""
        process = WorkerProcess(index, self._answer, self._on_notice, self._exited)
        others = list(self._processes.values())
        self._processes[index] = process
        await process.connect()
        for kind, listening in self._owner.sockets_of(index):
            process.hand_over({"to": kind}, listening)
        for other in others:
            self._link(process, other)
        return process

    async def _begin(self, process: WorkerProcess) -> None:
        """Start `process`, and let it accept clients."""
        notice = self._owner.first_notice(process.index)
        process.has_notice = True
        await process.control.ask("start", handed=process.handed, **notice)
        if not self._is_stopping:
            self.balancer.workers[process.index].is_ready = True
            log.info("worker_started", worker=process.index, worker_pid=process.pid)
            self._owner.states_changed()

    # Links.

    def _link(self, one: WorkerProcess, other: WorkerProcess) -> None:
        """Give both processes an end of a new link; try again soon where that does not fit."""
        ends = socket.socketpair()
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LINK_BUFFER_BYTES)
        try:
            for process, peer, end in ((one, other, ends[0]), (other, one, ends[1])):
                if not process.hand_over({"to": "link", "peer": peer.index}, end):
                    self._link_again(one, other)
                    return
        finally:
            for end in ends:
                end.close()

    def _link_again(self, one: WorkerProcess, other: WorkerProcess) -> None:
        """Link two workers again after a moment, if both still run."""
        pair = (min(one.index, other.index), max(one.index, other.index))
        if pair not in self._relinking:
            self._relinking.add(pair)
            self._clock.call_later(_RELINK_S, self._relink, pair, one, other)

    def _relink(self, pair: tuple[int, int], one: WorkerProcess, other: WorkerProcess) -> None:
        self._relinking.discard(pair)
        present = self._processes.values()
        if one in present and other in present and not self._is_stopping:
            self._link(one, other)

    # What workers say.

    async def _answer(self, process: WorkerProcess, kind: str, body: dict[str, Any]) -> Any:
        if kind == "others":
            asked = body["asked"]
            return await self.ask_all(body["what"], PATIENCE_S, but=process.index, **asked)
        return await self._owner.answer(process.index, kind, body)

    def _on_notice(self, process: WorkerProcess, kind: str, body: dict[str, Any]) -> None:
        if kind == "load":
            self.balancer.workers[process.index].count(body["received"], body["open"])
        elif kind == "quota":
            answers = self.connection_counts.update(process.index, body["lines"])
            if answers:
                process.control.send("quota", answers=answers)
        elif kind == "neighbours":
            self._owner.neighbours_changed(process.index, body)
        elif kind == "link_lost":
            other = self._processes.get(body["peer"])
            if other is not None:
                self._link_again(process, other)

    def send_all(self, kind: str, *, but: int = -1, **body: Any) -> None:
        """Send a notice to every worker except `but`; a later one has it in its first notice."""
        for process in list(self._processes.values()):
            if process.has_notice and process.index != but:
                process.control.send(kind, **body)

    def send_starting(self, kind: str, **body: Any) -> None:
        """Send a notice to the workers that have had their first one, and take no clients yet."""
        ready = self._ready()
        for process in list(self._processes.values()):
            if process.has_notice and process not in ready:
                process.control.send(kind, **body)

    def send(self, index: int, kind: str, **body: Any) -> None:
        """Send a notice to worker `index`, if it is there."""
        process = self._processes.get(index)
        if process is not None:
            process.control.send(kind, **body)

    async def ask_all(
        self, kind: str, patience_s: float | None = None, *, but: int = -1, **body: Any
    ) -> list[Any]:
        """Ask every worker that has started, except `but`, and return the answers.

        Those that end meanwhile, or take longer than `patience_s`, are left out. Raises:
        MidgeError, the first that one has raised.
        """
        asked = [
            asyncio.wait_for(process.control.ask(kind, **body), patience_s)
            for process in self._ready()
            if process.index != but
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(
                answer, GoneError | TimeoutError
            ):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    def _ready(self) -> list[WorkerProcess]:
        workers = self.balancer.workers
        return [one for one in self._processes.values() if workers[one.index].is_ready]

    def process(self, index: int) -> WorkerProcess | None:
        """Return the process of worker `index`, if there is one."""
        return self._processes.get(index)

    def states(self) -> list[dict[str, Any]]:
        """Describe each worker for monitoring."""
        return [
            {
                "worker": worker.index,
                "pid": process.pid if (process := self._processes.get(worker.index)) else 0,
                "ready": worker.is_ready,
                "failing": len(self._deaths[worker.index]) >= DEATHS_MAX,
            }
            for worker in self.balancer.workers
        ]

    # Ends.

    def _ask_all_alive(self) -> None:
        """Ask every worker whether it is alive; end those that have not answered for long."""
        if self._is_stopping:
            return
        for process in self._ready():
            if process.unanswered >= self._unanswered_max:
                log.error("worker_stuck", worker=process.index, worker_pid=process.pid)
                process.kill()
            else:
                self._run(process.is_alive())
        self._clock.call_later(_PING_S, self._ask_all_alive)

    def _run(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _exited(self, process: WorkerProcess, code: int) -> None:
        """Start another process in place of one that has ended."""
        index = process.index
        if self._processes.get(index) is process:
            del self._processes[index]
        self._empty.set()
        self.balancer.workers[index].reset()
        self.connection_counts.forget(index)
        if self._is_stopping:
            return
        log.error("worker_ended", worker=index, worker_pid=process.pid, outcome=_outcome(code))
        if self._failed is not None:
            if not self._failed.done():
                text = f"worker {index} ended while it started: {_outcome(code)}"
                self._failed.set_exception(MidgeError(text))
            return
        delay_s = self._delay(index)
        if delay_s:
            log.error("worker_delayed", worker=index, delay_s=delay_s)
        self._clock.call_later(delay_s, self._restart, index)
        self._owner.states_changed()

    def _delay(self, index: int) -> float:
        """Note that worker `index` has ended; return the seconds before it is started again."""
        now, deaths = self._clock.monotonic(), self._deaths[index]
        deaths.append(now)
        while now - deaths[0] > DEATHS_WITHIN_S:
            deaths.popleft()
        more = len(deaths) - DEATHS_MAX
        return 0.0 if more < 0 else min(2.0**more, LONGEST_DELAY_S)

    def _restart(self, index: int) -> None:
        if not self._is_stopping:
            self._run(self._start_again(index))

    async def _start_again(self, index: int) -> None:
        async with self.changing:
            self.restarts += 1
            try:
                process = await self._spawn(index)
            except OSError as error:  # no process or descriptor is left
                log.error("worker_failed", worker=index, error=str(error))
                self._clock.call_later(_TRY_AGAIN_S, self._restart, index)
                return
            try:
                await self._begin(process)
            except MidgeError as error:
                log.error("worker_failed", worker=index, error=str(error))
                process.kill()


async def _all(works: list[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works)


def _outcome(code: int) -> str:
    """Return how a process has ended, in notice."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


Key = tuple[str, str]
"""The key of a count: a kind, and a name of that kind."""


class ConnectionCounts:
    """The connections that count towards limits, by worker and client id."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._held: dict[int, dict[int, list[Key]]] = {}

    def update(self, worker: int, lines: list[list[Any]]) -> list[tuple[int, str]]:
        """Do what a worker has written in `lines`; return the answers to what it asks.

        A line is `["take", cid, number, claims]`, answered where the number is not 0, or
        `["leave", cid]`.
        """
        answers: list[tuple[int, str]] = []
        for kind, cid, *rest in lines:
            if kind == "leave":
                self._leave(worker, cid)
                continue
            number, claims = rest
            limit = self._take(worker, cid, claims)
            if number:
                answers.append((number, limit))
        return answers

    def forget(self, worker: int) -> None:
        """Remove the connections of a worker that has ended."""
        for keys in self._held.pop(worker, {}).values():
            self._free(keys)

    def count(self, kind: str, name: str) -> int:
        """Return how many connections there are of one name."""
        return self._counts[kind, name]

    def _take(self, worker: int, cid: int, claims: list[tuple[str, str, int]]) -> str:
        """Count a connection in place of its earlier claims; return the limit that forbids it.

        A refused connection counts towards nothing.
        """
        self._leave(worker, cid)
        for kind, name, most in claims:
            if 0 <= most <= self._counts[kind, name]:
                return kind
        keys = [(kind, name) for kind, name, _ in claims]
        self._held.setdefault(worker, {})[cid] = keys
        self._counts.update(keys)
        return ""

    def _leave(self, worker: int, cid: int) -> None:
        self._free(self._held.get(worker, {}).pop(cid, ()))

    def _free(self, keys: list[Key] | tuple[()]) -> None:
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                self._counts.pop(key)
