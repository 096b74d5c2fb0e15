"""Answers to the requests of `$SYS.REQ...`, as the `nats` command line sends them.

The first request imports this module, because with the pages that it needs it takes 4 ms.
"""

import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from midge.protocol.errors import MidgeError
from midge.server.clients.connection import Connection
from midge.server.monitoring import go_format, healthz, routez, whole
from midge.server.monitoring.accounts import known_accounts
from midge.server.monitoring.arguments import Arguments, BadArgument

if TYPE_CHECKING:
    from midge.server.auth.identity import Identity
    from midge.server.config.options import Options
    from midge.server.internal.service import Request
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.system_account.documents import Documents

Answer = dict[str, Any]


class SystemRequest(NamedTuple):
    """A request with its arguments, which are the JSON object in its payload."""

    account: "Account"
    publisher: "Client | None"
    given: Answer
    subject: bytes


Handler = Callable[[SystemRequest], Awaitable[Answer | None]]
"""Returns the answer to a request; None when another server is to answer."""

_STATES = ("open", "closed", "all")
_RENAMED = {"account": "acc", "subscriptions": "subs", "subject_filter": "filter_subject"}


class SystemRequests:
    """Answers by `documents`; `reload` loads the configuration. `handlers` are in `services.py`."""

    def __init__(
        self, documents: "Documents", reload: Callable[[], Awaitable[None]] | None
    ) -> None:
        self._documents = documents
        self._reload_configuration = reload
        self._state = documents.state
        self._broker = documents.state.broker
        self.handlers: dict[str, Handler] = {
            **self._pages(),
            "KICK": self._kick,
            "LDM": self._lame_duck,
            "RELOAD": self._reload,
            "USER": self._user_info,
            "OWN STATZ": self._own_statistics,
            "OWN CONNZ": self._own_connections,
            "ACCOUNT CONNZ": self._named(self._connz),
            "ACCOUNT SUBSZ": self._named(self._subsz, subscriptions=True),
            "ACCOUNT INFO": self._named(self._accountz),
            "ACCOUNT LEAFZ": self._page(lambda given: routez.leafz(self._state, given)),
            "ACCOUNT JSZ": self._account_jsz,
            "ACCOUNT STATZ": self._named_statistics,
            "ACCOUNT CONNS": self._named_connections,
        }

    # Answering.

    async def answer(self, name: str, request: "Request") -> bytes | None:
        """Return the answer of the handler `name` to `request`, or the error."""
        try:
            given = json.loads(request.payload) if request.payload.strip() else {}
            if not isinstance(given, dict):
                raise ValueError("expected a JSON object")  # noqa: TRY004 - the peer's value
            if not self._is_meant(given):
                return None
            answer = await self.handlers[name](
                SystemRequest(request.account, request.publisher, given, request.subject)
            )
        except (ValueError, RecursionError) as error:
            answer = self._refusal(400, str(error))
        except (BadArgument, MidgeError) as error:
            answer = self._refusal(500, str(error))
        return None if answer is None else msgspec.json.encode(answer)

    def _is_meant(self, given: Answer) -> bool:
        """Return whether a request to all servers includes this one."""
        cluster = self._state.cluster
        own = {
            "server_name": self._state.server_name,
            "host": self._broker.host,
            "cluster": cluster.name if cluster is not None else "",
        }
        for field, value in own.items():
            wanted = given.get(field) or value
            if not isinstance(wanted, str) or wanted not in value:
                return False
            if given.get("exact_match") is True and wanted != value:
                return False
        domain = given.get("domain") or self._broker.options.jetstream.domain
        is_of_domain = domain == self._broker.options.jetstream.domain
        return self._has_tags(given.get("tags") or []) and is_of_domain

    def _has_tags(self, wanted: Any) -> bool:
        """Return whether the server has all tags that a request names."""
        own = self._state.labels.get("tags", [])
        return isinstance(wanted, list) and all(
            isinstance(tag, str) and tag.strip().lower() in own for tag in wanted
        )

    def _refusal(self, code: int, text: str) -> Answer:
        # The error may quote the request, and JSON can express a lone surrogate, which cannot be
        # encoded.
        shown = text[:256].encode(errors="replace").decode()
        problem = {"code": code, "description": shown}
        return {"server": self._documents.server_info(), "error": problem}

    def _wrapped(self, data: Any) -> Answer:
        return {"server": self._documents.server_info(), "data": data}

    # The pages.

    def _pages(self) -> dict[str, Handler]:
        state = self._state
        plain: dict[str, Callable[[Arguments], Any]] = {
            "ROUTEZ": lambda given: routez.routez(state, given),
            "GATEWAYZ": lambda given: routez.gatewayz(state, given),
            "LEAFZ": lambda given: routez.leafz(state, given),
            "RAFTZ": lambda _: {},
            "IPQUEUESZ": lambda _: {},
            "EXPVARZ": lambda _: {"cmdline": [], "memstats": {}},
            "PROFILEZ": lambda _: {"profile": "", "error": "there is no profiler of Go"},
            "HEALTHZ": lambda given: _health(*healthz.healthz(state, given)),
        }
        pages: dict[str, Handler] = {name: self._page(page) for name, page in plain.items()}
        pages |= {"VARZ": self._varz, "ACCOUNTZ": self._whole_accountz}
        pages |= {"STATSZ": self._statsz, "IDZ": self._idz, "JSZ": self._jsz}
        return pages | {"CONNZ": self._connz, "SUBSZ": self._subsz}

    def _page(self, page: Callable[[Arguments], Any]) -> Handler:
        async def answer(asked: SystemRequest) -> Answer:
            return self._wrapped(page(_arguments(asked.given)))

        return answer

    async def _varz(self, _: SystemRequest) -> Answer:
        return self._wrapped(await whole.whole_varz(self._state))

    async def _whole_accountz(self, asked: SystemRequest) -> Answer:
        return self._wrapped(await whole.whole_accountz(self._state, _arguments(asked.given)))

    async def _statsz(self, _: SystemRequest) -> Answer:
        return self._documents.statistics(await whole.whole_totals(self._state))

    async def _idz(self, _: SystemRequest) -> Answer:
        info = self._documents.server_info()
        return {field: info[field] for field in ("name", "host", "id")}

    async def _connz(self, asked: SystemRequest) -> Answer:
        from midge.server.monitoring import connz  # noqa: PLC0415 - large, and seldom asked for

        options = connz.read_options(_arguments(asked.given))
        return self._wrapped(await whole.whole_connz(self._state, options))

    async def _subsz(self, asked: SystemRequest) -> Answer:
        return self._wrapped(await whole.whole_subsz(self._state, _arguments(asked.given)))

    async def _accountz(self, asked: SystemRequest) -> Answer:
        page = await whole.whole_accountz(self._state, _arguments(asked.given))
        return self._wrapped(page.get("account_detail", page))

    async def _jsz(self, asked: SystemRequest) -> Answer:
        from midge.server.monitoring import jsz  # noqa: PLC0415 - as above

        return self._wrapped(await jsz.jsz(self._state, _arguments(asked.given)))

    async def _account_jsz(self, asked: SystemRequest) -> Answer:
        """Return the JetStream page of the account in the subject."""
        name = _account_in(asked.subject)
        if self._state.jetstream is None:
            raise BadArgument("jetstream not enabled")
        home = self._state.jetstream.accounts.get(name)
        if home is None or home.limits is None:
            raise BadArgument("jetstream not enabled for account")
        from midge.server.monitoring import jsz  # noqa: PLC0415 - as above

        page = await jsz.jsz(self._state, _arguments({**asked.given, "acc": name}))
        return self._wrapped(page["account_details"][0])

    def _named(self, handler: Handler, **always: Any) -> Handler:
        """Return a handler for a page of the account in the subject, with fixed arguments."""

        async def answer(asked: SystemRequest) -> Answer | None:
            given = {**_about(_account_in(asked.subject), asked.given), **always}
            return await handler(asked._replace(given=given))

        return answer

    async def _named_statistics(self, asked: SystemRequest) -> Answer | None:
        name = _account_in(asked.subject)
        if name != "PING":
            return (
                await self._account_statistics([name])
                if name in known_accounts(self._broker)
                else None
            )
        wanted = asked.given.get("accounts")
        unused = bool(asked.given.get("include_unused"))
        found = known_accounts(self._broker)
        if isinstance(wanted, list):
            names = [one for one in wanted if isinstance(one, str) and one in found]
            return await self._account_statistics(names)
        answer = await self._account_statistics(sorted(found))
        if not unused:
            data = answer["data"]
            data["account_statz"] = [one for one in data["account_statz"] if one["conns"]]
        return answer

    async def _named_connections(self, asked: SystemRequest) -> Answer | None:
        found = await whole.whole_account_statistics(self._state, [_account_in(asked.subject)])
        return self._documents.account_connections(found[0]) if found else None

    async def _account_statistics(self, names: list[str]) -> Answer:
        page = await whole.whole_account_statistics(self._state, names)
        now = go_format.timestamp(self._broker.clock.wall())
        return self._wrapped(
            {"server_id": self._broker.keys.server_id, "now": now, "account_statz": page}
        )

    # Services of every account.

    async def _own_statistics(self, asked: SystemRequest) -> Answer:
        return await self._account_statistics([asked.account.name])

    async def _own_connections(self, asked: SystemRequest) -> Answer:
        return await self._connz(asked._replace(given=_about(asked.account.name, asked.given)))

    async def _user_info(self, asked: SystemRequest) -> Answer:
        data: Answer = {
            "user": "",
            "account": asked.account.name,
            "account_name": asked.account.name,
        }
        if isinstance(asked.publisher, Connection) and asked.publisher.identity is not None:
            data["user"] = asked.publisher.identity.user
            data |= _permissions(self._broker.options, asked.publisher.identity)
        return self._wrapped(data)

    # Services that change something.

    async def _kick(self, asked: SystemRequest) -> Answer:
        cid = asked.given.get("cid")
        if not isinstance(cid, int) or not await whole.end_client(self._state, cid):
            raise BadArgument("no such client or leafnode id")
        return {"server": self._documents.server_info()}

    async def _lame_duck(self, asked: SystemRequest) -> Answer:
        cid = asked.given.get("cid")
        if not isinstance(cid, int) or not await whole.send_client_away(self._state, cid):
            raise BadArgument("no such client id")
        return {"server": self._documents.server_info()}

    async def _reload(self, _: SystemRequest) -> Answer:
        if self._reload_configuration is None:
            raise BadArgument("this server has no configuration to load again")
        await self._reload_configuration()
        return {"server": self._documents.server_info()}


def _health(status: int, page: Answer) -> Answer:
    return {**page, "status_code": status}


def _account_in(subject: bytes) -> str:
    """Return the account in `$SYS.REQ.ACCOUNT.<account>.X`."""
    return b".".join(subject.split(b".")[3:-1]).decode("utf-8", "replace")


def _about(name: str, given: Answer) -> Answer:
    """Return the arguments `given`, with `name` as their account."""
    kept = {field: value for field, value in given.items() if _RENAMED.get(field, field) != "acc"}
    return {**kept, "acc": name}


def _arguments(given: Answer) -> Arguments:
    """Parse the JSON of a request to query arguments."""
    query = {}
    for name, value in given.items():
        if isinstance(value, bool):
            query[_RENAMED.get(name, name)] = "true" if value else "false"
        elif isinstance(value, str | int) and value != "":
            query[_RENAMED.get(name, name)] = str(value)
    if given.get("subscriptions_detail") is True:
        query["subs"] = "detail"
    if re.fullmatch("[0-9]{1,20}", query.get("state", "")):
        query["state"] = _STATES[min(int(query["state"]), len(_STATES) - 1)]
    return Arguments(query)


def _permissions(options: "Options", identity: "Identity") -> Answer:
    """Return a user's permissions in the form of the configuration."""
    users = [*options.authorization.users, *(one for acc in options.accounts for one in acc.users)]
    named = (one.permissions for one in users if identity.user == (one.user or one.nkey))
    table = next(named, None)
    if table is None:
        return {}
    shown: Answer = {
        name: {kind: list(getattr(side, kind)) for kind in ("allow", "deny") if getattr(side, kind)}
        for name, side in (("publish", table.publish), ("subscribe", table.subscribe))
    }
    grant = table.allow_responses
    if grant is not None:
        shown["responses"] = {
            "max": grant.max,
            "ttl": go_format.nanoseconds(grant.expires_s),
        }
    return {"permissions": shown}
