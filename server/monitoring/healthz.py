"""The server's health: ready for clients, and with the requested streams and consumers."""

from typing import TYPE_CHECKING, Any, NamedTuple

from midge.server.monitoring.arguments import Arguments

if TYPE_CHECKING:
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.state import State

_FLAGS = (
    *("js-enabled-only", "js-server-only", "js-enabled", "js-meta-only", "details"),
    "tables",  # midge's own
)

_BAD_REQUEST = "BAD_REQUEST"
_CONNECTION = "CONNECTION"

Health = tuple[int, dict[str, Any]]
"""The HTTP status and the document."""


class _Problem(NamedTuple):
    """Why the server is not well: the HTTP status, what kind of thing it is, and in words.

    `names` are the arguments that say which account, stream or consumer it is.
    """

    code: int
    kind: str
    error: str
    names: tuple[str, ...] = ()


def healthz(state: "State", arguments: Arguments) -> Health:
    """Return the HTTP status and the document."""
    given = {name: arguments.flag(name) for name in _FLAGS}
    asked = {name: arguments.text(name) for name in ("account", "stream", "consumer")}
    problem = _find_problem(state, given, asked)
    if problem is None:
        return 200, {"status": "ok"}
    if given["details"]:
        of = {name: asked[name] for name in problem.names}
        entry = {"type": problem.kind, **of, "error": problem.error}
        return problem.code, {"status": "error", "errors": [entry]}
    status = "error" if problem.kind == _BAD_REQUEST else "unavailable"
    return problem.code, {"status": status, "error": problem.error}


def _find_problem(state: "State", given: dict[str, bool], asked: dict[str, str]) -> _Problem | None:
    """Return the first thing that is not well; None when all is."""
    if asked["stream"] and not asked["account"]:
        error = '"account" must not be empty when checking stream health'
        return _Problem(400, _BAD_REQUEST, error)
    if asked["consumer"] and not asked["stream"]:
        error = '"stream" must not be empty when checking consumer health'
        return _Problem(400, _BAD_REQUEST, error)
    if state.broker.lame_duck:
        return _Problem(503, _CONNECTION, "server is in lame duck mode")
    if failing := _find_failing(state, with_tables=given["tables"]):
        return failing
    if state.jetstream is None:
        if state.broker.options.jetstream.enabled:
            error = "JetStream is not current with the meta leader"
            return _Problem(503, "JETSTREAM", error)
        return None
    if asked["account"] and not given["js-enabled-only"] and not given["js-server-only"]:
        return _find_missing(state.jetstream, **asked)
    return None


def _find_missing(engine: "Engine", account: str, stream: str, consumer: str) -> _Problem | None:
    """Return which of the account, the stream and the consumer is not there."""
    home = engine.accounts.get(account)
    if home is None or home.limits is None:
        error = f'JetStream account "{account}" not found'
        return _Problem(404, "ACCOUNT", error, ("account",))
    found = home.streams.streams.get(stream) if stream else None
    if stream and found is None:
        error = f'JetStream stream "{stream}" not found on account "{account}"'
        return _Problem(404, "STREAM", error, ("account", "stream"))
    if consumer and found is not None and found.consumers.get(consumer.encode()) is None:
        error = f'JetStream consumer "{consumer}" not found for stream "{stream}"'
        error += f' on account "{account}"'
        return _Problem(404, "CONSUMER", error, ("account", "stream", "consumer"))
    return None


def _find_failing(state: "State", *, with_tables: bool) -> _Problem | None:
    """Return which process of the server keeps ending, or which table is not kept up to date."""
    worker = _failing_worker(state)
    if worker is not None:
        return _Problem(503, _CONNECTION, f"worker {worker} keeps ending")
    if with_tables and state.tables is not None and (error := state.tables.problem()):
        return _Problem(503, "TABLES", error)
    return None


def _failing_worker(state: "State") -> int | None:
    """Return the number of a worker that waits to be started again after ending several times."""
    states = () if state.worker is None else state.worker.states
    for one in states:
        if one["failing"] and not one["ready"]:
            return int(one["worker"])
    return None
