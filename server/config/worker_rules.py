"""What a server of several workers cannot do, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.config.type_check import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.config.options import Options

SINGLE = "set server.workers = 1 to use it"


def find_worker_problems(options: Options) -> Iterator[Problem]:
    """Yield the settings that need a single process, where there are to be several."""
    if options.server.workers == 1:
        return
    limits, operator = options.limits, options.operator
    callout = options.authorization.auth_callout
    single = {
        ("leafnodes",): bool(options.leafnodes.port or options.leafnodes.remotes),
        ("cluster",): bool(options.cluster.port),
        ("recorder", "directory"): bool(options.recorder.directory),
        ("authorization", "auth_callout", "issuer"): bool(callout.issuer),
        ("operator",): bool(operator.jwts or operator.trusted_keys),
        ("limits", "max_connections_per_user"): limits.max_connections_per_user > 0,
        ("limits", "max_connections_per_address"): limits.max_connections_per_address > 0,
        ("monitoring", "console", "enabled"): options.monitoring.console.enabled,
    }
    reason = f"several workers do not support this; {SINGLE}"
    yield from (Problem(path, reason) for path, is_set in single.items() if is_set)
    for index, account in enumerate(options.accounts):
        if account.limits.max_connections >= 0:
            yield Problem(("accounts", index, "limits", "max_connections"), reason)
