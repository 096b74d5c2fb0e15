"""`/why`: explain why a message on a subject reaches a client, or does not.

It follows the path of a message (permissions, mapping, account, interest, delivery), and with a
sequence the path of a stored message through its stream and consumers. Each finding names the rule
that decides, with the setting that it comes from. Nothing is published, and nothing changes.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from midge.protocol.text import decode, encode
from midge.server.accounts.stream_link import StreamLink
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.type_check import nearest
from midge.server.monitoring.arguments import BadArgument
from midge.sublist import subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream
    from midge.server.clients.connection import Connection
    from midge.server.config.options import Options
    from midge.server.monitoring.arguments import Arguments
    from midge.server.monitoring.state import State
    from midge.server.routing.account import Account
    from midge.sublist.result import SubListResult

_SHOWN_MAX = 100
"""Most receivers that an answer names."""

_HEAD_BYTES = 16
"""Bytes that a stored message counts at least, besides its contents."""

_COMPARED_MAX = 500
"""Most subjects that are compared with one without subscribers: 5 ms."""


class Finding(NamedTuple):
    """One step of the path: whether it `stops` the message, the `rule`, and its setting."""

    stops: bool
    rule: str
    text: str
    setting: str = ""


def why(state: State, arguments: Arguments) -> dict[str, Any]:
    """Return the page; its arguments are `subject`, `from`, `to`, `account`, `stream`, `seq`, `id`.

    Raises:
        BadArgument: an argument is invalid, or names nothing.
    """
    text = arguments.text("subject")
    subject = encode(text)
    if not (subjects.is_valid_subject(subject) and subjects.is_literal(subject)):
        raise BadArgument(f"subject: expected one that can be published to, got {text!r}")
    path = _Path(state, arguments)
    found = [finding._asdict() for finding in path.findings(subject)]
    return {
        "subject": text,
        "account": path.account.name,
        "arrives": not any(one["stops"] for one in found),
        "findings": found,
    }


class _Path:
    """The path of one message from a publisher to a receiver, of which either may be unknown."""

    def __init__(self, state: State, arguments: Arguments) -> None:
        self.state = state
        self.options: Options = state.broker.options
        self.arguments = arguments
        self.publisher = self._client(arguments.text("from"), "from")
        self.ended = ""
        self.receiver = self._client(arguments.text("to"), "to")
        self.account = self._account(arguments.text("account"))

    def _client(self, name: str, argument: str) -> Connection | None:
        """Return the client of a name or cid; None if none is asked about, or if it has ended."""
        if not name:
            return None
        clients = list(self.state.broker.clients.values())
        found = [one for one in clients if name in (str(one.cid), one.options.name)]
        if len(found) == 1:
            return found[0]
        if found:
            cids = ", ".join(str(one.cid) for one in found)
            raise BadArgument(f"{argument}: clients {cids} are called {name!r}; give a cid")
        for one in reversed(list(self.state.broker.closed)):
            if argument == "to" and name in (str(one.cid), one.name):
                self.ended = f"client {name} has left: {one.reason}"
                return None
        hint = nearest(name, [one.options.name for one in clients if one.options.name])
        raise BadArgument(f"{argument}: no client is called {name!r}{hint}")

    def _account(self, name: str) -> Account:
        known = self.state.broker.accounts
        if not name:
            client = self.publisher or self.receiver
            return known[GLOBAL_ACCOUNT] if client is None else client.account
        if name not in known:
            raise BadArgument(f"account: no account is called {name!r}{nearest(name, list(known))}")
        return known[name]

    def findings(self, subject: bytes) -> Iterator[Finding]:
        """Yield the findings in the order of the path."""
        if self.ended:
            yield Finding(True, "connection", self.ended)
        if self.publisher is not None:
            yield from self._may_publish(self.publisher, subject)
        mapped = None if self.account.mapper is None else self.account.mapper.map(subject)
        if self.account.mapper is not None and mapped != subject:
            yield self._mapping(subject, mapped)
            if mapped is None:
                return
            subject = mapped
        result = self.account.sublist.match(subject)
        yield from self._interest(subject, result)
        if self.receiver is not None:
            yield from self._delivery(self.receiver, subject, result)
        jetstream = self.state.jetstream
        if jetstream is not None and self.account.name in jetstream.accounts:
            streams = jetstream.accounts[self.account.name].streams
            yield from self._streams(subject, streams.streams)

    def _may_publish(self, client: Connection, subject: bytes) -> Iterator[Finding]:
        rules = None if client.identity is None else client.identity.rules
        if rules is None:
            return
        who, place = _described(client), self._permissions_of(client)
        denied = _first_match(rules.table.publish.deny, subject)
        if denied:
            text = f"{who} may not publish: {denied!r} is denied"
            yield Finding(True, "permissions", text, f"{place}.publish.deny")
        elif not rules.check_publish(subject):
            text = f"{who} may not publish: no allowed subject matches"
            yield Finding(True, "permissions", text, f"{place}.publish.allow")
        else:
            yield Finding(False, "permissions", f"{who} may publish", place)

    def _mapping(self, subject: bytes, mapped: bytes | None) -> Finding:
        tables = self.options.mappings
        place = "mappings"
        for number, account in enumerate(self.options.accounts):
            if account.name == self.account.name:
                tables, place = account.mappings, f"accounts[{number}].mappings"
        for number, table in enumerate(tables):
            if subjects.matches(subject, encode(table.source)):
                place = f"{place}[{number}]"
                break
        if mapped is None:
            return Finding(True, "mapping", "a mapping drops its share of these messages", place)
        return Finding(False, "mapping", f"the subject becomes {decode(mapped)!r}", place)

    def _interest(self, subject: bytes, result: SubListResult) -> Iterator[Finding]:
        plain: list[Any] = [one for one in result.plain if getattr(one, "client", None) is not None]
        for one in plain[:_SHOWN_MAX]:
            who = _described(one.client)
            yield Finding(False, "interest", f"{who} subscribes to {decode(one.subject)!r}")
        if len(plain) > _SHOWN_MAX:
            yield Finding(False, "interest", f"and {len(plain) - _SHOWN_MAX} other clients do")
        for group in result.queues[:_SHOWN_MAX]:
            text = f"one of {len(group.members)} members of queue group {decode(group.name)!r}"
            yield Finding(False, "interest", text)
        for one in result.plain:
            if isinstance(one, StreamLink):
                text = f"account {one.importer.name} imports {decode(one.subject)!r}"
                yield Finding(False, "account", text, self._imports_of(one.importer.name))
        if result.remotes is not None:
            yield from self._links(result)
        if not (result.plain or result.queues or result.remotes):
            known = sorted(
                {decode(one) for one, _ in islice(self.account.interest(), _COMPARED_MAX)}
            )
            hint = nearest(decode(subject), known)
            text = f"nobody in account {self.account.name} subscribes to it{hint}"
            yield Finding(True, "interest", text)

    def _links(self, result: SubListResult) -> Iterator[Finding]:
        assert result.remotes is not None
        members = chain(result.remotes.plain, *(one.members for one in result.remotes.queues))
        names: dict[str, None] = {}
        for one in members:
            branch = getattr(one, "remote", one)
            link = getattr(branch, "link", branch)
            names[str(getattr(link, "name", ""))] = None
        for name in list(names)[:_SHOWN_MAX]:
            yield Finding(False, "link", f"server {name} has interest behind its link")

    def _delivery(
        self, client: Connection, subject: bytes, result: SubListResult
    ) -> Iterator[Finding]:
        who = _described(client)
        if client.account is not self.account:
            yield from self._border(client, subject, result)
            return
        own = [one for one in client.subscriptions.values() if one is not None]
        matching = [one for one in own if subjects.matches(subject, one.subject)]
        if not matching:
            hint = nearest(decode(subject), [decode(one.subject) for one in own])
            text = f"none of the {len(own)} subscriptions of {who} matches{hint}"
            yield Finding(True, "interest", text)
        rules = None if client.identity is None else client.identity.rules
        for one in matching:
            pattern = decode(one.subject)
            if rules is not None and not rules.check_deliver(subject, one.queue):
                denied = _first_match(rules.table.subscribe.deny, subject)
                text = f"{who} may not receive it by {pattern!r}: {denied!r} is denied"
                setting = f"{self._permissions_of(client)}.subscribe.deny"
                yield Finding(True, "permissions", text, setting)
            elif client is self.publisher and not client.options.echo:
                yield Finding(True, "echo", f"{who} has switched the echo of its messages off")
            elif one.queue is not None:
                queue = decode(one.queue)
                text = f"{who} gets it when it is its turn in queue group {queue!r}"
                yield Finding(False, "queue", text)
            else:
                yield Finding(False, "delivery", f"{who} gets it by {pattern!r}")

    def _border(
        self, client: Connection, subject: bytes, result: SubListResult
    ) -> Iterator[Finding]:
        """Explain a client of another account: it gets only subjects that its account imports."""
        name = client.account.name
        links = [one for one in result.plain if isinstance(one, StreamLink)]
        if any(one.importer is client.account for one in links):
            yield Finding(False, "account", f"{_described(client)}: account {name} imports it")
            return
        text = f"{_described(client)} is in account {name}, which does not import this subject"
        setting = self._imports_of(name)
        if not self._exports(subject):
            text += f", and account {self.account.name} does not export it"
        yield Finding(True, "account", text, setting)

    def _exports(self, subject: bytes) -> bool:
        return any(
            subjects.matches(subject, encode(export.stream))
            for account in self.options.accounts
            if account.name == self.account.name
            for export in account.exports
            if export.stream
        )

    def _imports_of(self, name: str) -> str:
        names = [account.name for account in self.options.accounts]
        return f"accounts[{names.index(name)}].imports" if name in names else ""

    def _streams(self, subject: bytes, streams: dict[str, Any]) -> Iterator[Finding]:
        name, seq = self.arguments.text("stream"), self.arguments.integer("seq")
        if name and name not in streams:
            hint = nearest(name, list(streams))
            raise BadArgument(f"stream: no stream is called {name!r}{hint}")
        taking = [
            stream
            for stream in streams.values()
            if stream.config.name == name
            or any(subjects.matches(subject, encode(one)) for one in stream.config.subjects)
        ]
        if seq and not taking:
            raise BadArgument("seq: no stream takes this subject")
        for stream in taking:
            found = (
                stored_findings(stream, subject, seq)
                if seq
                else stream_findings(stream, subject, encode(self.arguments.text("id")))
            )
            for stops, rule, text, setting in found:
                yield Finding(stops, rule, text, setting)

    def _permissions_of(self, client: Connection) -> str:
        """Return where the permissions of a client's user are configured."""
        identity, options = client.identity, self.options
        user = "" if identity is None else identity.user
        places: list[tuple[str, Any]] = [("authorization", options.authorization)]
        places += [(f"accounts[{number}]", one) for number, one in enumerate(options.accounts)]
        for place, table in places:
            for number, one in enumerate(table.users):
                if user and user in (one.user, one.nkey):
                    if one.permissions is None:
                        return f"{place}.default_permissions"
                    return f"{place}.users[{number}].permissions"
        return "the user's token"


def _described(client: Any) -> str:
    name = client.options.name if hasattr(client, "options") else ""
    return f"client {client.cid} ({name})" if name else f"client {client.cid}"


def _first_match(patterns: tuple[str, ...], subject: bytes) -> str:
    """Return the first pattern that matches, without its queue group; "" without one."""
    found = (one for one in patterns if subjects.matches(subject, encode(one.split(" ")[0])))
    return next(found, "")


Row = tuple[bool, str, str, str]
"""Whether the message stops here, the rule, the text, and the setting."""

_SECOND_NS = 1_000_000_000


def stream_findings(stream: Stream, subject: bytes, msg_id: bytes) -> Iterator[Row]:
    """Yield what a stream does with a new message, and which consumers deliver it."""
    config, store = stream.config, stream.store
    name = config.name
    known = stream.dedup.find(msg_id, stream.clock.wall_ns()) if msg_id else 0
    if known:
        text = f"stream {name} has a message with this id, as {known}"
        yield True, "dedup", text, f"stream {name}: duplicate_window"
        return
    if config.sealed:
        yield True, "limits", f"stream {name} is sealed", f"stream {name}: sealed"
        return
    full = _full(config, store, subject) if config.discard == "new" else ""
    if full:
        text = f"stream {name} is full, and refuses new messages (discard=new)"
        yield True, "limits", text, f"stream {name}: {full}"
        return
    yield False, "stream", f"stream {name} stores it as {store.last_seq + 1} or later", ""
    for consumer in stream.consumers:
        if _filters(consumer, subject):
            held = _held(consumer)
            text = f"{_consumer_text(consumer, name)} delivers it"
            yield (True, *held) if held else (False, "consumer", text, "")
        else:
            yield _filtered(consumer, name)


def stored_findings(stream: Stream, subject: bytes, seq: int) -> Iterator[Row]:
    """Yield where a stored message is, and what each consumer has done with it."""
    name, store = stream.config.name, stream.store
    message = store.load(seq)
    if message is None:
        if seq > store.last_seq:
            yield True, "stream", f"stream {name} has come to {store.last_seq}", ""
        else:
            yield True, "expiry", f"stream {name} has removed {seq}: {_removal(stream, seq)}", ""
        return
    stored = message.subject
    if stored != subject:
        yield False, "stream", f"{seq} in stream {name} is on {decode(stored)!r}", ""
    else:
        yield False, "stream", f"stream {name} has it as {seq}", ""
    for consumer in stream.consumers:
        yield _state_of(consumer, name, stored, seq)


def _state_of(consumer: Consumer, stream: str, subject: bytes, seq: int) -> Row:
    """Return what a consumer has done with a stored message."""
    who = _consumer_text(consumer, stream)
    if not _filters(consumer, subject):
        return _filtered(consumer, stream)
    again = max(consumer.acks.redelivered.get(seq, 0), 0)
    entry = consumer.acks.pending.get(seq)
    left_ns = 0 if entry is None else entry.due_ns - consumer.host.clock.monotonic_ns()
    is_last = 0 < consumer.config.max_deliver <= again + 1
    if is_last and left_ns <= 0 and (entry is not None or seq in consumer.acks.redelivered):
        text = f"{who} has given up after {again + 1} deliveries without an ack"
        return True, "max_deliver", text, f"consumer {decode(consumer.name)}: max_deliver"
    if entry is not None:
        due = f"for {max(left_ns, 0) / _SECOND_NS:.1f} s more"
        text = f"{who} has delivered it {again + 1} times, and awaits the ack {due}"
        return False, "ack", text, f"consumer {decode(consumer.name)}: ack_wait"
    if seq >= consumer.acks.next_seq:
        held = _held(consumer)
        return (True, *held) if held else (False, "consumer", f"{who} delivers it next", "")
    if consumer.config.ack_policy == "none":
        return False, "delivery", f"{who} has delivered it", ""
    return False, "ack", f"{who} has delivered it, and it was acknowledged", ""


def _held(consumer: Consumer) -> tuple[str, str, str] | None:
    """Return why a consumer delivers nothing now: the rule, the text, the setting."""
    name = decode(consumer.name)
    if consumer.is_paused():
        return "pause", f"consumer {name} is paused", f"consumer {name}: pause_until"
    most, waiting = consumer.config.max_ack_pending, len(consumer.acks.pending.entries)
    if 0 < most <= waiting and consumer.config.ack_policy != "none":
        text = f"consumer {name} waits for acks of {waiting} messages"
        return "limits", text, f"consumer {name}: max_ack_pending"
    if consumer.config.is_pull():
        if not consumer.receivers.num_waiting():
            return "interest", f"no client asks consumer {name} for messages", ""
    elif not consumer.receivers.is_bound():
        subject = consumer.config.deliver_subject
        text = f"nobody subscribes to {subject!r}, where consumer {name} delivers"
        return "interest", text, f"consumer {name}: deliver_subject"
    return None


def _filters(consumer: Consumer, subject: bytes) -> bool:
    filters = consumer.config.filters()
    return not filters or any(subjects.matches(subject, one) for one in filters)


def _filtered(consumer: Consumer, stream: str) -> Row:
    name = decode(consumer.name)
    filters = ", ".join(repr(decode(one)) for one in consumer.config.filters())
    text = f"{_consumer_text(consumer, stream)} takes only {filters}"
    return False, "filter", text, f"consumer {name}: filter_subjects"


def _consumer_text(consumer: Consumer, stream: str) -> str:
    return f"consumer {decode(consumer.name)} of stream {stream}"


def _full(config: Any, store: Any, subject: bytes) -> str:
    """Return the limit that leaves no room for an empty message, or nothing."""
    if 0 < config.max_msgs <= store.messages:
        return "max_msgs"
    return "max_bytes" if 0 < config.max_bytes < store.bytes + len(subject) + _HEAD_BYTES else ""


def _removal(stream: Stream, seq: int) -> str:
    """Return what may have removed a message: the settings that remove any, or a request."""
    config = stream.config
    causes = [
        f"{name}={value}"
        for name, value in (
            ("max_age", f"{config.max_age_ns / _SECOND_NS:g} s" if config.max_age_ns else ""),
            ("max_msgs", config.max_msgs if config.max_msgs > 0 else ""),
            ("max_bytes", config.max_bytes if config.max_bytes > 0 else ""),
            ("max_msgs_per_subject", max(config.max_msgs_per_subject, 0) or ""),
            ("retention", config.retention if config.retention != "limits" else ""),
        )
        if value
    ]
    if seq >= stream.store.first_seq:
        causes.append("a deletion")
    return ", ".join(causes) or "a purge or a deletion"
