"""JetStream of one server: its accounts, its limits, its store, from start to stop."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from midge.jetstream.account.limits import JetStreamAccountLimits
from midge.jetstream.environment.surroundings import Bounds
from midge.jetstream.store.disk import SuppliedDisk
from midge.jetstream.store.file.log_identity import establish
from midge.jetstream.store.interface import GroupListener, StoreError, StoreKeyError
from midge.jetstream.store.real_disk import RealDisk
from midge.jetstream.stream.contents import Usage
from midge.server.clients.observer import Observer
from midge.server.errors import ConfigError
from midge.server.histogram import Histogram
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.internal.service import Services
from midge.server.jetstream import capacity
from midge.server.jetstream.account import AccountEngine
from midge.server.jetstream.context import Context
from midge.server.jetstream.filesystem import strangers_in, unread_nats_streams, weakness_of
from midge.server.jetstream.stores import FileStores, MemoryStores, keys_of
from midge.server.jetstream.stream_clock import StreamClock
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from midge.jetstream.store.disk import Disk
    from midge.server.broker.broker import Broker
    from midge.server.config.jetstream import AccountJetStream as AccountOptions
    from midge.server.config.jetstream import JetStream
    from midge.server.config.options import Options
    from midge.server.routing.account import Account

log = get_logger()

_MESSAGE_MAX_BYTES = 1 << 30  # the largest `max_payload` that may be set

_REQUESTS_MAX = 10_000
"""Most API requests of one account that may wait, as in nats-server."""


class Failures(GroupListener):
    """Notifies the streams when the disk has failed to sync what they stored."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def failed(self, group: int, error: StoreError) -> None:
        """Undo the lost messages, and refuse new ones until the server is restarted."""
        log.error("jetstream_store_failed", error=str(error))
        for account in self._engine.accounts.values():
            account.streams.lost(error)
            if account.limits is not None:
                account.streams.list_again(
                    self._engine.context.stores.recovered(account.account.name)
                )


class Engine(Observer):
    """JetStream of one server; `accounts` by name, made as the server's accounts are.

    `disk` takes the place of the store's directory where it is given.
    """

    def __init__(self, broker: Broker, disk: SuppliedDisk | None = None) -> None:
        self.context = self._make_context(broker)
        self.disk = disk
        self.sync_seconds = Histogram()
        self.accounts: dict[str, AccountEngine] = {}
        self._broker = broker

    def _make_context(self, broker: Broker) -> Context:
        options: Options = broker.options
        asked = options.jetstream
        publisher = InternalPublisher(broker.router)
        waiting_max = asked.request_queue_limit or _REQUESTS_MAX
        limits = capacity.server_limits(asked)
        return Context(
            options=asked,
            server_name=options.server_name or broker.keys.server_id,
            max_payload=_largest_message(options.limits.max_payload_bytes),
            publisher=publisher,
            links=broker.admission.links,
            services=Services(
                publisher, waiting_max=waiting_max, overfull=self._overfull, is_prompt=True
            ),
            turns=broker.turns,
            clock=StreamClock(broker.clock),
            random=broker.random,
            store_directory=capacity.store_directory(asked),
            stores=MemoryStores(),
            limits=limits,
            memory=Usage(limits.max_memory),
            storage=Usage(limits.max_storage),
            bounds=Bounds(
                capacity.batch_limits(asked.limits),
                capacity.backlog_limits(asked),
                self._overloaded,
            ),
            purge=self.purge,
        )

    def start(self) -> None:
        """Open the store, recover its streams, and begin to answer requests.

        Raises:
            ConfigError: the store's directory cannot be used.
        """
        context = self.context
        self._open_stores()
        for account in self._broker.accounts.values():
            self.account_made(account)
        self._broker.observers.append(self)
        self._recover_accounts_of_tokens()
        log.info(
            "jetstream_started",
            memory_bytes=context.limits.max_memory,
            file_bytes=context.limits.max_storage,
            store_dir="" if context.options.in_memory else str(context.store_directory),
            sync_interval=context.options.sync_interval,
        )

    def _open_stores(self) -> None:
        context = self.context
        loop = asyncio.get_running_loop()
        if context.options.in_memory and self.disk is None:
            context.stores = MemoryStores(loop)
            return
        with _as_setting_error(context.store_directory):
            context.stores = FileStores(
                self._open_disk(loop),
                loop,
                self._broker.clock,
                Failures(self),
                context.options.sync_interval_ns,
                keys_of(context.options),
            )
        for damage in context.stores.damages():
            log.error("jetstream_data_lost", damage=str(damage))
        for file in context.stores.aside():
            log.warning("jetstream_file_put_aside", file=file)

    def _open_disk(self, loop: asyncio.AbstractEventLoop) -> Disk:
        """Return the disk that was supplied, or a disk for the store's directory."""
        if self.disk is None:
            place = self.context.store_directory
            unread = unread_nats_streams(self.context.options)
            if unread and not self.context.options.ignore_nats_streams:
                raise ConfigError(unread, key="jetstream.store_dir")
            if not self.context.options.store_dir:
                log.warning("jetstream_store_temporary", store_dir=str(place))
            disk = self._lock_directory(loop)
            self._time_syncs(disk)
            place = self.context.store_directory
            if weakness := weakness_of(place):
                log.warning("jetstream_store_at_risk", reason=weakness, store_dir=str(place))
            if strangers := strangers_in(place):
                log.warning("jetstream_foreign_files", names=strangers, store_dir=str(place))
            return disk
        self.disk.work_by(self._broker.clock.call_later)
        return self.disk

    def _lock_directory(self, loop: asyncio.AbstractEventLoop) -> RealDisk:
        """Open the store's directory, or a new one beside the default if that is in use.

        Raises:
            StoreError: another process uses a directory that was asked for.
        """
        place = self.context.store_directory
        callbacks = partial(self._add_reader, loop), loop.remove_reader
        try:
            return RealDisk(str(place), *callbacks)
        except StoreError:
            if self.context.options.store_dir:
                raise
            other = place.parent.with_name(f"{place.parent.name}-{os.getpid()}") / place.name
            self.context.store_directory = other
            log.warning("jetstream_store_moved", in_use=str(place), store_dir=str(other))
            return RealDisk(str(other), *callbacks)

    def _time_syncs(self, disk: RealDisk) -> None:
        """Count the times of syncs for `/metrics`, on a server with monitoring."""
        table = self._broker.options.monitoring
        if table.http_port or table.https_port:
            disk.timing = perf_counter, self.sync_seconds.observe

    def _add_reader(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], None]
    ) -> None:
        """Handle results of the disk in a callback of `loop`, and write their output at once.

        Writing it in another call of the loop would take 3,300 more instructions, and delay a
        publisher that waits for a single acknowledgement by that much.
        """
        loop.add_reader(descriptor, partial(self._broker.router.write_after, callback))

    def stop(self) -> None:
        """Refuse new messages, acknowledge the accepted ones, and close the store."""
        if self in self._broker.observers:
            self._broker.observers.remove(self)
        for account in self.accounts.values():
            account.close()
            account.account.remove_listener(account.interest)
        self.context.services.close()
        self.context.stores.close()
        self.accounts.clear()

    def limits_of(self, name: str) -> dict[str, JetStreamAccountLimits] | None:
        """Return what the account of this name may use; None when it may not use JetStream."""
        plan = self._broker.admission.links.plans.get(name)
        if plan is None or plan.is_system or not plan.jetstream:
            return None
        return {tier: _limits(asked) for tier, asked in plan.jetstream.items()}

    def purge(self, name: str) -> None:
        """Delete the streams of an account, and its stores on the disk that no stream uses.

        Raises:
            StoreError: the disk has failed.
        """
        account = self.accounts.get(name)
        if account is not None:
            account.streams.delete_all()
        for store in list(self.context.stores.recovered(name)):
            self.context.stores.delete(store)
        log.info("jetstream_account_purged", account=name)

    def reload(self, asked: JetStream) -> None:
        """Take settings that may change while JetStream is on."""
        context = self.context
        before, context.options = context.options, asked
        after = capacity.server_limits(asked)
        limits = context.limits
        # The machine's share stays as it was measured at the start.
        if asked.max_memory_bytes != before.max_memory_bytes:
            limits.max_memory = context.memory.limit = after.max_memory
        if asked.max_file_bytes != before.max_file_bytes:
            limits.max_storage = context.storage.limit = after.max_storage
        limits.duplicate_window_max_ns = after.duplicate_window_max_ns
        limits.max_ack_pending = after.max_ack_pending
        limits.max_request_batch = after.max_request_batch
        context.bounds.batches.change(capacity.batch_limits(asked.limits))

    # As an observer of the broker.

    def account_made(self, account: Account) -> None:
        """Offer JetStream in a new account, if it may have it."""
        is_system = account is self._broker.system_account
        made = AccountEngine(self.context, account, self.limits_of(account.name), is_system)
        self.accounts[account.name] = made
        made.open()

    def accounts_planned(self) -> None:
        """Give accounts the limits that they have by now, and JetStream to those that may have it.

        Streams of an account that may not any more stay on the disk.
        """
        for name, account in self.accounts.items():
            account.interest.accounts_planned()
            limits = self.limits_of(name)
            is_system = account.account is self._broker.system_account
            if limits == account.limits and is_system == account.is_system:
                continue
            account.is_system = is_system
            if limits is not None and account.limits is not None:
                account.limits = limits
                account.streams.set_limits(limits)
            else:
                account.reopen(limits)

    def _recover_accounts_of_tokens(self) -> None:
        """Make the accounts that have streams and are known by their tokens alone."""
        broker = self._broker
        for name in self.context.stores.accounts() - broker.accounts.keys():
            if broker.admission.plan_for(name) is not None:
                broker.account(name)

    def _overfull(self) -> None:
        """Count a request that is dropped because too many wait."""
        self._broker.limit_hits["jetstream_requests"] += 1

    def _overloaded(self) -> None:
        """Count a message that is refused because too much waits for the disk."""
        self._broker.limit_hits["jetstream_messages"] += 1


def check_directory(asked: JetStream) -> None:
    """Check that a store can be opened in the directory that is asked for; it is made if need be.

    Raises:
        ConfigError: it cannot be used, or not with the keys that are asked for.
    """
    if asked.in_memory:
        return
    place = capacity.store_directory(asked)
    with _as_setting_error(place):
        disk = RealDisk(str(place), lambda *_: None, lambda _: None)
        try:
            establish(disk, keys_of(asked))
        finally:
            disk.close()


@contextmanager
def _as_setting_error(place: Path) -> Iterator[None]:
    """Raise errors of a store's directory as a ConfigError that names the setting."""
    try:
        yield
    except StoreKeyError as error:
        raise ConfigError(str(error), key="jetstream.encryption_key") from None
    except (NotADirectoryError, FileExistsError):
        text = "storage directory is not a directory"
        raise ConfigError(text, key="jetstream.store_dir") from None
    except StoreError as error:
        raise ConfigError(str(error), key="jetstream.store_dir") from None
    except OSError as error:
        text = f"{place / (error.filename or '')}: {error.strerror}"
        raise ConfigError(text, key="jetstream.store_dir") from None


def _limits(asked: AccountOptions) -> JetStreamAccountLimits:
    return JetStreamAccountLimits(
        max_memory=asked.max_memory_bytes,
        max_storage=asked.max_file_bytes,
        max_streams=asked.max_streams,
        max_consumers=asked.max_consumers,
        max_ack_pending=asked.max_ack_pending,
        memory_max_stream_bytes=asked.memory_max_stream_bytes,
        storage_max_stream_bytes=asked.file_max_stream_bytes,
        max_bytes_required=asked.max_bytes_required,
    )


def _largest_message(max_payload_bytes: int) -> int:
    """Return the bound of a stored message; streams have one even if clients have none."""
    return max_payload_bytes if max_payload_bytes >= 0 else _MESSAGE_MAX_BYTES
