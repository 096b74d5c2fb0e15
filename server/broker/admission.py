"""Admission: the identity, account and permissions of clients, decided in this one place.

A login goes one way, from top to bottom of this list:

    introduce   The connection reads CONNECT and halts its parser (`Connection.on_connect`).
    identify    `_identify`: the authenticator decides by the configured users or by tokens; then,
                if there are any, the auth callout, the interceptor of connects and the parent
                process of several workers. Each may refuse, change the identity, or take its time.
    bind        `_bind`: the account with its limits, the permissions, the quotas.
    admit       `_conclude`: the connection goes on as this identity (`Connection.authenticated`),
                or gets an -ERR (`_send_away`).

Every path that could refuse a client asks here; `Rights` decides on the commands of an admitted
client. A reload replaces the known users and their permissions as a whole, and then identifies and
binds every connected client again.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.server.accounts.plan import plan_configured
from midge.server.auth import Authenticator, Identity, Refusal, Verdict
from midge.server.auth.authenticator import ANYBODY
from midge.server.auth.identity import ConnectionLimitRefusal
from midge.server.auth.permissions import Permissions
from midge.server.broker.identification import (
    PendingAuth,
    auth_timeout_s,
    refusal_of,
    request_of,
)
from midge.server.broker.server_keys import may_delegate
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.reading import AUTHENTICATING
from midge.server.clients.client_info import offered_by
from midge.server.clients.publish_quota import PublishQuotas
from midge.server.log.logger import get_logger
from midge.server.routing.slow_path import METERED

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from midge.server.accounts.from_tokens import TokenAccounts
    from midge.server.accounts.links import AccountLinks
    from midge.server.accounts.plan import AccountPlan
    from midge.server.auth.claims import TraceClaim
    from midge.server.broker.auth_callout import CalloutClient
    from midge.server.broker.connection_quota import ConnectionQuota
    from midge.server.broker.expiry import Expiries
    from midge.server.channels.host import Host
    from midge.server.clients.connection import Connection
    from midge.server.clients.observer import Observers
    from midge.server.clock import Timer
    from midge.server.config.options import Account as AccountTable
    from midge.server.config.options import Options
    from midge.server.interceptors.interception import Interception
    from midge.server.routing.account import Account

_NONCE_BYTES = 11

NO_LIMIT = -1

log = get_logger()


class Admission:
    """Admits the connections of one server, and gives each its identity and permissions."""

    def __init__(
        self,
        host: Host,
        clients: Mapping[int, Connection],
        account: Callable[[str], Account],
        links: AccountLinks,
        make_callout: Callable[[AccountLinks], CalloutClient],
        interception: Callable[[], Interception | None],
        elsewhere: Callable[[str], tuple[int, int]],
        observers: Observers,
    ) -> None:
        """Read the settings of `host`; `account` returns, or makes, the account of a name.

        `make_callout` makes the auth callout when settings may name a service, and `interception`
        returns the current interceptors. `elsewhere` counts an account's clients and leaf nodes on
        other servers. `observers` get refusals, and the results of scans in operator mode.

        Raises:
            ConfigError: the settings are invalid.
        """
        self.callout: CalloutClient | None = None
        self._make_callout = make_callout
        self._interception = interception
        self.elsewhere = elsewhere
        self._observers = observers
        self._host = host
        self._clients = clients
        self._account = account
        self.links = links
        self.quotas = PublishQuotas(host)
        options = host.options
        self.authenticator = Authenticator(options, wall_clock=host.clock.wall)
        self.links.max_payload = options.limits.max_payload_bytes
        self.links.apply(plan_configured(options))
        self._by_address: Counter[str] = Counter()
        self._by_user: Counter[str] = Counter()
        self._present: dict[int, Identity | None] = {}
        self._of_tokens: TokenAccounts | None = None
        self.quota: ConnectionQuota | None = None  # set if another process counts connections
        self._expiries: Expiries | None = None
        self._pending_auth = PendingAuth()
        self._scan_timer: Timer | None = None
        self._offer_callout(options)
        self._schedule_scan()

    def _offer_callout(self, options: Options) -> None:
        """Make the auth callout if `options`, or tokens that they trust, may name a service."""
        if self.callout is None and may_delegate(options):
            self.callout = self._make_callout(self.links)

    # Admitting.

    def prepare(self, connection: Connection) -> None:
        """Make the nonce for the INFO of a new connection, if clients may sign one."""
        if self.authenticator.needs_nonce:
            raw = os.urandom(_NONCE_BYTES)
            connection.nonce = base64.urlsafe_b64encode(raw).rstrip(b"=")

    def greet(self, connection: Connection, bare_socket: socket.socket, info: bytes) -> None:
        """Send `info` in plain text, after the timers that a client relies on are running.

        Raises:
            OSError: the client has gone.
        """
        if self.allows_no_connect(connection):
            connection.channel.keepalive.start()
        else:
            connection.require_connect(auth_timeout_s(self._host.options, connection))
        connection.channel.greet(bare_socket, info)

    def admit(self, connection: Connection) -> bool:
        """Admit a connection that has sent nothing yet; return False if it was closed."""
        limits = self._host.options.limits
        self._present[connection.cid] = None
        self._by_address[connection.peer_host] += 1
        per_address = limits.max_connections_per_address
        is_surplus = connection.cid in self._host.surplus
        self._host.surplus.discard(connection.cid)
        if is_surplus or len(self._clients) > limits.max_connections:
            self.turn_away(connection, "connections")
            return False
        if 0 < per_address < self._by_address[connection.peer_host]:
            self.turn_away(connection, "connections_per_address")
            return False
        quota = self._quota_for(connection)
        if quota is None or not self._await_quota(connection, quota):
            self._let_in(connection, self._silent_identity(connection))
        return connection.reason is None

    def _quota_for(self, connection: Connection) -> ConnectionQuota | None:
        """Return the process that counts `connection`, or None if none does."""
        return None if connection.own_login is not None else self.quota

    def _await_quota(self, connection: Connection, quota: ConnectionQuota) -> bool:
        """Ask for a slot for `connection`; return False if there is no answer to wait for."""
        verdict = quota.enter(connection, self._silent_identity(connection))
        if verdict is None or isinstance(verdict, Verdict):
            return False
        connection.channel.reading.halt(AUTHENTICATING)
        self._pending_auth.ask(connection, verdict, self._quota_answered)
        return True

    def _quota_answered(self, connection: Connection, verdict: Verdict) -> None:
        """Admit or close a connection that was waiting for its slot."""
        connection.channel.reading.unhalt(AUTHENTICATING)
        if isinstance(verdict, Refusal):
            self._send_away(connection, verdict)
        else:
            self._let_in(connection, self._silent_identity(connection))
        connection.channel.resume()

    def _let_in(self, connection: Connection, identity: Identity | None) -> None:
        """Start a connection as `identity`, or require a CONNECT if that is None."""
        if identity is not None and self._bind(connection, identity):
            if not connection.channel.keepalive.has_started:
                connection.channel.keepalive.start()
        elif connection.reason is None and not connection.parser.connect_required:
            connection.channel.keepalive.stop()
            connection.require_connect(auth_timeout_s(self._host.options, connection))

    def count_elsewhere(self, send: Callable[[list[Any]], object]) -> ConnectionQuota:
        """Count connections in another process, to which `send` sends lines; return its quota."""
        from midge.server.broker.connection_quota import ConnectionQuota  # noqa: PLC0415 - for workers only

        self.quota = ConnectionQuota(self._host, self.plan_for, send)
        return self.quota

    async def make_known(self, account: str) -> None:
        """Plan `account`, which a token may describe, in this process and all other workers."""
        self.plan_for(account)
        if self.quota is not None:
            await self.quota.make_known(account)

    def turn_away(self, connection: Connection, limit: str) -> None:
        """Close a connection that exceeds the limit called `limit`."""
        self._host.limit_hits[limit] += 1
        connection.close(ClosedReason.MAXIMUM_CONNECTIONS, errors.MAXIMUM_CONNECTIONS)

    def await_handshake(self, connection: Connection, bare_socket: socket.socket) -> None:
        """Limit the time for the TLS handshake of `connection`."""
        handshake_s = self._host.options.tls.timeout_s
        connection.require_handshake(
            bare_socket, min(handshake_s, auth_timeout_s(self._host.options, connection))
        )

    def authenticate(self, connection: Connection) -> None:
        """Authenticate the client of `connection`; then call `authenticated` or send -ERR."""
        verdict = self._identify(connection)
        if isinstance(verdict, Verdict):
            self._pending_auth.drop(connection)
            self._conclude(connection, verdict)
        else:
            self._pending_auth.ask(connection, verdict, self._conclude_and_resume)

    def allows_no_connect(self, connection: Connection) -> bool:
        """Return whether the client may go without CONNECT."""
        authenticator = self.authenticator
        if authenticator.callout is not None or self._intercepts_connects:
            return False
        if connection.own_login is not None:
            return False
        return authenticator.admits_silent_clients(connection.listener_kind)

    def requires_auth(self, connection: Connection) -> bool:
        """Return whether a CONNECT may change the identity of a client admitted without one."""
        return (
            self.authenticator.is_required_by(connection.listener_kind) or self._intercepts_connects
        )

    @property
    def _intercepts_connects(self) -> bool:
        interception = self._interception()
        return interception is not None and interception.wants_connects

    def _identify(self, connection: Connection) -> Verdict | Awaitable[Verdict]:
        """Ask the authenticator, the callout, the interceptor and the parent process, in turn."""
        if connection.own_login is not None:
            return connection.own_login(request_of(connection))
        verdict = self._ask_authenticator(connection)
        if self.callout is not None:
            timeout_s = auth_timeout_s(self._host.options, connection)
            request = request_of(connection)
            verdict = self.callout.decide(self.authenticator, request, verdict, timeout_s)
            if not isinstance(verdict, Verdict):
                connection.stop_auth_timer()  # the service may take all of that time
        interception = self._interception()
        if interception is not None:
            verdict = interception.connect(connection, verdict)
        return verdict if self.quota is None else self.quota.decide(connection, verdict)

    def _ask_authenticator(self, connection: Connection) -> Verdict | Awaitable[Verdict]:
        """Return its verdict, without a request where it checks nothing."""
        if connection.listener_kind in self.authenticator.open_listeners:
            return ANYBODY
        return self.authenticator.authenticate(request_of(connection))

    def release(self, connection: Connection) -> None:
        """Forget a connection that has ended; do nothing for one that was never admitted."""
        if connection.cid not in self._present:
            return
        self._pending_auth.drop(connection)
        self._unbind(connection)
        quota = self._quota_for(connection)
        if quota is not None:
            quota.leave(connection)
        del self._present[connection.cid]
        self._by_address[connection.peer_host] -= 1
        if not self._by_address[connection.peer_host]:
            self._by_address.pop(connection.peer_host)

    def close(self) -> None:
        """Release what outlives connections."""
        self._pending_auth.close()
        if self._expiries is not None:
            self._expiries.close()
        if self._scan_timer is not None:
            self._scan_timer.cancel()
        self.authenticator.close()

    def trace_claim(self, account: str) -> TraceClaim | None:
        """Return the trace settings in the token of `account`; None outside operator mode."""
        known = {} if self._of_tokens is None else self._of_tokens.claims
        claims = known.get(account)
        return None if claims is None else claims.nats.trace

    # Changes while serving.

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return the function that puts them in force.

        Raises:
            ConfigError: they are invalid; nothing has changed.
        """
        authenticator = Authenticator(options, wall_clock=self._host.clock.wall)
        plans = plan_configured(options)

        def put_in_force() -> None:
            self._offer_callout(options)
            authenticator.keep_tokens_of(self.authenticator)
            self.authenticator.close()
            self.authenticator = authenticator
            self._of_tokens = None
            self.links.max_payload = options.limits.max_payload_bytes
            self.links.apply(plans)
            self._schedule_scan()
            for connection in list(self._clients.values()):
                self._reauthenticate(connection)

        return put_in_force

    def _reauthenticate(self, connection: Connection) -> None:
        """Re-authenticate a connected client.

        A pending answer follows the old rules and is dropped.
        """
        if self._pending_auth.conclusion_of(connection) == self._conclude_and_resume:
            self.authenticate(connection)
            if connection not in self._pending_auth:
                connection.channel.resume()
            return
        if connection.identity is None:
            if not connection.introduced and not self.allows_no_connect(connection):
                connection.require_connect(auth_timeout_s(self._host.options, connection))
            return
        verdict = self._identify(connection)
        if isinstance(verdict, Verdict):
            self._pending_auth.drop(connection)
            self._apply_reauth(connection, verdict)
        else:
            self._pending_auth.ask(connection, verdict, self._apply_reauth)

    def _apply_reauth(self, connection: Connection, verdict: Verdict) -> None:
        """Apply the new permissions to a client, or close it."""
        before = connection.identity
        if isinstance(verdict, Refusal):
            has_left = self.authenticator.has_lost(connection.options, connection.account.name)
        else:
            has_left = before is not None and before.account != verdict.account
        if has_left:
            # The client may reconnect at once; after an error, some clients would not.
            connection.close(ClosedReason.CLIENT_CLOSED, None)
        elif isinstance(verdict, Refusal):
            self._send_away(connection, verdict)
        else:
            self._bind(connection, verdict)
            self._end_forbidden(connection)

    def _end_forbidden(self, connection: Connection) -> None:
        """End the subscriptions that the permissions of `connection` no longer allow."""
        permissions = connection.commands.permissions
        if permissions is None:
            return
        for subscription in list(connection.subscriptions.values()):
            if not permissions.may_subscribe(subscription.subject, subscription.queue):
                connection.send_error(
                    errors.removed_subscription(
                        subscription.subject, subscription.queue, subscription.sid
                    )
                )
                connection.unsubscribe(subscription, "unsubscribed")

    def _schedule_scan(self) -> None:
        """Schedule the regular check of account tokens, which may change or expire."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        if self.authenticator.operator is not None:
            delay_s = max(self._host.options.operator.resolver_interval_s, 1.0)
            self._scan_timer = self._host.clock.call_later(delay_s, self._scan)

    def scan_tokens(self) -> None:
        """Check all tokens soon, because one has changed."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
        self._scan_timer = self._host.clock.call_later(0, self._scan)

    def _scan(self) -> None:
        """Close the clients whose account, key or token has been revoked.

        Clients of an account whose token has changed otherwise are re-authenticated.
        """
        self._scan_timer = None
        mode = self.authenticator.operator
        if mode is None:
            return
        from midge.server.broker.expiry import scan_tokens  # noqa: PLC0415 - few have operators

        accounts, now_s = self._token_accounts(), self._host.clock.wall()
        clients = [one for one in self._clients.values() if one.own_login is None]
        found = scan_tokens(mode, accounts, clients, now_s)
        for connection, ended in found.ended:
            self._send_away(connection, ended)
        for connection in found.changed:
            self._reauthenticate(connection)
        self._observers.show("tokens_scanned", found.why_ended)
        self._schedule_scan()

    # Conclusions.

    def _silent_identity(self, connection: Connection) -> Identity | None:
        """Return the identity of a client until its CONNECT, or None if it must send one."""
        if not self.allows_no_connect(connection):
            return None
        verdict = self._ask_authenticator(connection)
        if not isinstance(verdict, Verdict):
            asyncio.ensure_future(verdict).cancel()
        return verdict if isinstance(verdict, Identity) else None

    def _conclude_and_resume(self, connection: Connection, verdict: Verdict) -> None:
        self._conclude(connection, verdict)
        connection.channel.resume()

    def _conclude(self, connection: Connection, verdict: Verdict) -> None:
        if isinstance(verdict, Refusal):
            self._send_away(connection, verdict)
        elif _is_bound_as(connection, verdict) or self._bind(connection, verdict):
            header_support = self._host.options.limits.header_support
            refusal = refusal_of(connection.options, header_support=header_support)
            if refusal is None:
                connection.authenticated(verdict)
            else:
                connection.close(*refusal)

    def _send_away(self, connection: Connection, refusal: Refusal) -> None:
        """Close `connection`: log the reason, and send the client nats-server's text."""
        if refusal.limit:
            self._host.limit_hits[refusal.limit] += 1
        if isinstance(refusal, ConnectionLimitRefusal):
            connection.close(ClosedReason(refusal.reason), refusal.wire)
            return
        self.note_refused(connection, refusal.detail)
        if refusal.reason == ClosedReason.AUTHENTICATION_FAILURE.value:
            self._observers.show("client_refused", connection, refusal)
        connection.close(ClosedReason(refusal.reason), refusal.wire)

    def note_refused(self, connection: Connection, detail: str) -> None:
        """Log that the client of `connection` was not admitted, with the user that it claimed."""
        offered = offered_by(connection.options)
        cid, peer = connection.cid, connection.peer
        log.error("authentication_failed", cid=cid, peer=peer, detail=detail, offered=offered)

    def _bind(self, connection: Connection, identity: Identity) -> bool:
        """Put `connection` into its account, with its permissions and limits.

        Returns False if a limit is reached or the account is missing; the connection is closed.
        """
        self._unbind(connection)
        limits = self._host.options.limits
        plan = self.plan_for(identity.account)
        if plan is None:
            self._send_away(connection, Refusal("the account cannot be", reason="Missing Account"))
            return False
        account = self._account(plan.name)
        if 0 <= plan.max_connections <= len(account.clients) + self.elsewhere(account.name)[0]:
            connection.close(
                ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS, errors.MAXIMUM_ACCOUNT_CONNECTIONS
            )
            return False
        per_user = limits.max_connections_per_user
        if identity.user and 0 < per_user <= self._by_user[_user_key(identity)]:
            self.turn_away(connection, "connections_per_user")
            return False
        self._by_user[_user_key(identity)] += 1
        self._present[connection.cid] = identity
        connection.identity = identity
        connection.join(account)
        account.clients.add(connection.cid)
        connection.restrict(None if identity.rules is None else Permissions(identity.rules))
        connection.max_subscriptions = _tightest(
            limits.max_subscriptions or NO_LIMIT, plan.max_subscriptions, identity.max_subscriptions
        )
        connection.parser.max_payload = _tightest(
            limits.max_payload_bytes, plan.max_payload_bytes, identity.max_payload_bytes
        )
        connection.commands.check(METERED, self.quotas.apply(connection.cid, plan, identity))
        if connection.max_subscriptions == 0:
            # As in nats-server, a client that may have no subscriptions is not admitted.
            connection.close(ClosedReason.MAXIMUM_SUBSCRIPTIONS, errors.MAXIMUM_SUBSCRIPTIONS)
            return False
        if identity.expires_at_s is not None:
            self._watched().watch(connection, identity)
        return True

    def _unbind(self, connection: Connection) -> None:
        """Remove `connection` from its account."""
        connection.account.clients.discard(connection.cid)
        if self._expiries is not None:
            self._expiries.forget(connection)
        identity = self._present.get(connection.cid)
        if identity is not None:
            key = _user_key(identity)
            self._by_user[key] -= 1
            if not self._by_user[key]:
                self._by_user.pop(key)  # faster than `del` of a Counter
            self._present[connection.cid] = None

    def plan_for(self, account: str) -> AccountPlan | None:
        """Return the plan of the account; in operator mode, make it on first use."""
        mode = self.authenticator.operator
        if mode is not None:
            included = self._token_accounts().include(mode, account, self._host.clock.wall())
            if not included:
                return None
        return self.links.plans.get(account)

    def token_tables(self, account: str) -> list[AccountTable]:
        """Return the table of an account of operator mode, without its imports; empty elsewhere."""
        mode = self.authenticator.operator
        if mode is None:
            return []
        from midge.server.accounts.from_tokens import account_tables  # noqa: PLC0415 - seldom
        from midge.server.auth.claims import BadTokenError  # noqa: PLC0415 - as above

        now_s = self._host.clock.wall()
        try:
            return account_tables({account: mode.account(account, now_s)}, now_s)
        except BadTokenError:
            return []

    def _token_accounts(self) -> TokenAccounts:
        """Return the accounts of operator mode; make them on first use."""
        if self._of_tokens is None:
            from midge.server.accounts.from_tokens import TokenAccounts  # noqa: PLC0415 - seldom

            self._of_tokens = TokenAccounts(self.links)
        return self._of_tokens

    def _watched(self) -> Expiries:
        """Return the watched expiries; make them on first use."""
        if self._expiries is None:
            from midge.server.broker.expiry import Expiries  # noqa: PLC0415 - few have any

            self._expiries = Expiries(self._host)
        return self._expiries


def _is_bound_as(connection: Connection, identity: Identity) -> bool:
    """Return whether `identity` is the one that the client was bound to before CONNECT."""
    is_same = identity is connection.identity
    return is_same and identity.rules is None and identity.expires_at_s is None


def _user_key(identity: Identity) -> str:
    """Return the key of a user in the counts: the name within its account."""
    return f"{identity.account} {identity.user}"


def _tightest(*limits: int) -> int:
    """Return the smallest of `limits`, where a negative one means unlimited."""
    return min([limit for limit in limits if limit >= 0], default=NO_LIMIT)
