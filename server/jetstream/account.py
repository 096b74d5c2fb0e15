"""JetStream of one account: its own subjects, its streams' subjects, and the turns of consumers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors
from midge.jetstream.account.account import UNFINISHED, JetStreamAccount
from midge.jetstream.api import dispatch, routes
from midge.jetstream.archive.transfers import PREFIX
from midge.jetstream.archive.work import Work
from midge.jetstream.config.names import to_bytes
from midge.jetstream.environment.surroundings import OriginNotes, Surroundings
from midge.jetstream.json import type_names
from midge.jetstream.json.encode import encode, text
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.interface import StoreError
from midge.server.jetstream import api_subjects
from midge.server.jetstream.account_sink import AccountSink, Interest
from midge.server.jetstream.ack_intake import AckIntake
from midge.server.jetstream.api_subjects import ApiService, InternalSubscription
from midge.server.jetstream.audit import Answering, Audit
from midge.server.jetstream.delivery import Deliveries
from midge.server.jetstream.ingest import StreamSubscription
from midge.server.jetstream.message_requests import MessageRequests
from midge.server.log.logger import get_logger
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.account.limits import JetStreamAccountLimits
    from midge.jetstream.stream.stream import Stream
    from midge.server.internal.service import Request
    from midge.server.jetstream.context import Context
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription

log = get_logger()

_PURGE = b"ACCOUNT.PURGE."
_SUBSCRIBED_AT_ONCE = 1_000
_OF_CLUSTER = (b"META.LEADER.STEPDOWN", b"SERVER.REMOVE")
_QUARANTINE_HINT = "its messages stay on the disk; deleting the stream removes them"


class LoggedNotes(OriginNotes):
    """Logs what the operator should know of origins in other domains."""

    def __init__(self, account: str) -> None:
        self._account = account

    def gap(self, stream: str, origin: str, first_seq: int, last_seq: int) -> None:
        """Log that a mirror lacks messages, for the origin has them no more."""
        log.warning(
            "stream_origin_gap",
            account=self._account,
            stream=stream,
            origin=origin,
            first_seq=first_seq,
            last_seq=last_seq,
        )

    def recreated(self, stream: str, origin: str) -> None:
        """Log that an origin is another stream than before."""
        log.warning("stream_origin_recreated", account=self._account, stream=stream, origin=origin)

    def refused(self, stream: str, origin: str, error: str) -> None:
        """Log that an origin gives no consumer."""
        log.warning(
            "stream_origin_refused",
            account=self._account,
            stream=stream,
            origin=origin,
            error=error,
        )


class AccountEngine:
    """JetStream in one account, from `open` to `close`.

    `limits` is None where the account may not use JetStream: then requests are answered with that.
    The system account never may; its clients request what an operator may do, such as purging
    another account.
    """

    def __init__(
        self,
        context: Context,
        account: Account,
        limits: dict[str, JetStreamAccountLimits] | None,
        is_system: bool,
    ) -> None:
        self.account = account
        self.limits = limits
        self.is_system = is_system
        self.interest = Interest(account, context.links)
        account.add_listener(self.interest)
        self.sink = AccountSink(account, context.publisher, self.interest)
        self.deliveries = Deliveries(
            context.turns, account, self.sink.turn, context.publisher.router, context.clock
        )
        self._context = context
        self._own: list[RoutedSubscription] = []
        self._of_streams: dict[Stream, dict[str, StreamSubscription]] = {}
        self.streams = self._make_streams()
        self.audit = Audit(context, self.sink, self._new_id)

    def open(self) -> None:
        """Subscribe to JetStream's own subjects, and recover the stored streams."""
        domain = self._context.options.domain
        self._own.append(self._api(api_subjects.API))
        if domain:
            prefix = b"$JS.%b.API." % domain.encode()
            self._own.append(self._api(prefix, self.sink))
        if self.limits is not None:
            self._own.append(AckIntake(self.streams))
            self._own.append(
                InternalSubscription(api_subjects.FLOW_CONTROL + b">", self._take_flow_control)
            )
            self._own.append(InternalSubscription(PREFIX + b">", self._take_transfer))
        for subscription in self._own:
            self.account.add(subscription)
        if self.limits is not None:
            self._recover()

    def _recover(self) -> None:
        stores = self._context.stores
        for store in stores.recovered(self.account.name):
            name = text(store.name) if isinstance(store, FileStore) else ""
            if store.config() == UNFINISHED:
                # A restore was cut short, and no client knows of it; or its last record is lost.
                if not any(True for _ in stores.damages()):
                    stores.delete(store)
                continue
            if name in self.streams.streams:
                log.error("jetstream_stream_left_out", account=self.account.name, stream=name)
                continue
            stream = self.streams.recover(store)
            if stream is not None:
                stores.adopt(store, stream.config)

    def _stream_quarantined(self, name: str, problem: str) -> None:
        """Log that a stream's store holds what must not leave it."""
        log.error(
            "jetstream_stream_quarantined",
            account=self.account.name,
            stream=name,
            reason=problem,
            hint=_QUARANTINE_HINT,
        )

    def close(self) -> None:
        """Unsubscribe; answer the consumers' waiting requests with a shutdown status."""
        for stream in list(self._of_streams):
            self._stream_removed(stream)
            stream.readers.shut_down()
        for subscription in self._own:
            self.account.remove(subscription)
        self._own.clear()
        self.streams.stop()

    def reopen(self, limits: dict[str, JetStreamAccountLimits] | None) -> None:
        """Turn JetStream on or off; file streams stay on the disk, and are recovered later."""
        self.close()
        self.streams.release()
        self.limits = limits
        self.streams = self._make_streams()
        self.open()

    def _api(self, prefix: bytes, domain_sink: AccountSink | None = None) -> ApiService:
        services = self._context.services
        requests = None if self.limits is None else MessageRequests(self.streams)
        return ApiService(
            services,
            self.account,
            prefix,
            self._answer_operator if self.is_system else self.answer,
            requests,
            domain_sink,
            is_system=self.is_system,
        )

    def _new_id(self) -> str:
        return self.streams.surroundings.new_id()

    def _make_streams(self) -> JetStreamAccount:
        context = self._context
        surroundings = Surroundings(
            self.sink,
            context.clock,
            context.random,
            context.options.domain,
            context.max_payload,
            account=self.account.name,
            ready=self.deliveries.ready,
            has_second_acks=context.options.ack_format == "v2",
        )
        surroundings.bounds = context.bounds
        surroundings.turns = context.stores.turns.share()
        surroundings.origin_notes = LoggedNotes(self.account.name)
        streams = JetStreamAccount(
            self.account.name,
            surroundings,
            lambda config: context.stores.make(self.account.name, config),
            context.limits,
            self.limits,
            context.memory,
            context.storage,
        )
        streams.is_enabled = self.limits is not None
        streams.is_strict = context.options.strict
        streams.server_name = context.server_name
        streams.delete_store = context.stores.delete
        streams.stream_added = self._stream_added
        streams.stream_changed = self._listen
        streams.stream_removed = self._stream_removed
        streams.stream_quarantined = self._stream_quarantined
        streams.transfers.wait_turn = self._wait_turn
        return streams

    # What clients ask for.

    def answer(self, request: Request) -> None:
        """Answer a request to the API; the answer may come later, once it is durable."""
        to = Answering(self.sink, self.audit, request)
        headers = request.headers or b""
        dispatch.handle(
            self.streams,
            request.subject,
            headers,
            request.payload,
            to.respond,
            to.client,
            to.is_wanted,
        )

    def _answer_operator(self, request: Request) -> None:
        """Answer a request to the API in the system account, as nats-server does.

        Requests about the cluster stay unanswered, as by a server that is in none. All others but
        INFO and the purge are refused by the server that has the requester's connection.
        """
        asked = request.subject[len(api_subjects.API) :]
        if asked == b"INFO":
            self.answer(request)
        elif asked.startswith(_PURGE) and asked.count(b".") == _PURGE.count(b"."):
            self._purge(request, text(asked[len(_PURGE) :]))
        elif asked not in _OF_CLUSTER and not asked.startswith(b"ACCOUNT."):
            publisher = request.publisher
            if publisher is not None and publisher.role in (Role.CLIENT, Role.LEAF):
                error = errors.NOT_ENABLED_FOR_ACCOUNT
                self._respond(request, "system_response", {"error": error.fields()})

    def _purge(self, request: Request, name: str) -> None:
        """Delete all streams of the account `name`, which may have been removed meanwhile."""
        answer: dict[str, Any] = {"initiated": True}
        try:
            self._context.purge(name)
        except StoreError as error:
            answer = {"error": errors.STREAM_STORE_FAILED.fill(err=error).fields()}
        self._respond(request, "account_purge_response", answer)

    def _respond(self, request: Request, kind: str, fields: dict[str, Any]) -> None:
        answer = encode({"type": type_names.API + kind, **fields})
        Answering(self.sink, self.audit, request).respond(answer)

    def _take_flow_control(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        """Take the answer to a flow control request; False if the consumer does not exist."""
        return routes.take_flow_control(self.streams, subject, headers)

    def _take_transfer(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bool:
        """Take a piece of an archive, or the ack of one; False when nothing is under way."""
        return self.streams.transfers.take(subject, reply, payload)

    def _wait_turn(self, work: Work, most: int) -> None:
        """Do a piece of work for a transfer in one of the next turns of the loop."""
        self._context.turns.wait(partial(self._take_turn, work, most))

    def _take_turn(self, work: Work, most: int) -> None:
        turns = self._context.turns
        share = turns.share()
        spent = work(min(share, most))
        turns.give_back(max(share - spent, 0))

    # What streams are there.

    def _stream_added(self, stream: Stream) -> Iterator[None]:
        self._of_streams[stream] = {}
        return self._listen(stream)

    def _stream_removed(self, stream: Stream) -> None:
        for subscription in self._of_streams.pop(stream, {}).values():
            self.account.remove(subscription)

    def _listen(self, stream: Stream) -> Iterator[None]:
        """Unsubscribe from all but a stream's subjects and subscribe to these, in steps."""
        held = self._of_streams[stream]
        gate = None if stream.is_memory else self._context.stores.gate
        wanted = dict.fromkeys(stream.config.subjects)
        changing = [one for one in held if one not in wanted]
        changing += [one for one in wanted if one not in held]
        for count, subject in enumerate(changing, 1):
            if subject in held:
                self.account.remove(held.pop(subject))
            else:
                held[subject] = StreamSubscription(to_bytes(subject), stream, gate)
                self.account.add(held[subject])
            if not count % _SUBSCRIBED_AT_ONCE:
                yield
