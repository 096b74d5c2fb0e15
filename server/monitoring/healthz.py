"""The server's health: ready for clients, and with the requested streams and consumers."""

from typing import TYPE_CHECKING, Any

from midge.server.monitoring.arguments import Arguments

if TYPE_CHECKING:
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.state import State

_FLAGS = ("js-enabled-only", "js-server-only", "js-enabled", "js-meta-only", "details")

Health = tuple[int, dict[str, Any]]
"""The HTTP status and the document."""


def healthz(state: "State", arguments: Arguments) -> Health:
    """Return the HTTP status and the document."""
    given = {name: arguments.flag(name) for name in _FLAGS}
    account, stream = arguments.text("account"), arguments.text("stream")
    consumer = arguments.text("consumer")
    if stream and not account:
        return 400, _unwell("error", '"account" must not be empty when checking stream health')
    if consumer and not stream:
        return 400, _unwell("error", '"stream" must not be empty when checking consumer health')
    if state.broker.lame_duck:
        return 503, _unwell("unavailable", "server is in lame duck mode")
    failing = _failing_worker(state)
    if failing is not None:
        return 503, _unwell("unavailable", f"worker {failing} keeps ending")
    if state.jetstream is None:
        if state.broker.options.jetstream.enabled:
            return 503, _unwell("unavailable", "JetStream is not current with the meta leader")
        return 200, {"status": "ok"}
    if account and not given["js-enabled-only"] and not given["js-server-only"]:
        return _health_of(state.jetstream, account, stream, consumer)
    return 200, {"status": "ok"}


def _health_of(engine: "Engine", account: str, stream: str, consumer: str) -> Health:
    """Check the requested stream and consumer."""
    home = engine.accounts.get(account)
    if home is None or home.limits is None:
        return 404, _unwell("unavailable", f'JetStream account "{account}" not found')
    found = home.streams.streams.get(stream) if stream else None
    if stream and found is None:
        error = f'JetStream stream "{stream}" not found on account "{account}"'
        return 404, _unwell("unavailable", error)
    if consumer and found is not None and found.consumers.get(consumer.encode()) is None:
        error = f'JetStream consumer "{consumer}" not found for stream "{stream}"'
        return 404, _unwell("unavailable", f'{error} on account "{account}"')
    return 200, {"status": "ok"}


def _failing_worker(state: "State") -> int | None:
    """Return the number of a worker that waits to be started again after ending several times."""
    states = () if state.part is None else state.part.states
    for one in states:
        if one["failing"] and not one["ready"]:
            return int(one["worker"])
    return None


def _unwell(status: str, error: str) -> dict[str, Any]:
    return {"status": status, "error": error}
