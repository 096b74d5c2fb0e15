"""Where a new consumer begins, by its deliver policy."""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.store.store import Store

_LATEST_NS = (1 << 63) - 1  # in the year 2262; a request may name the years 1 to 9999


class Start:
    """The first sequence to look at.

    Up to `last_per_subject_upto` only the last message of each subject is delivered; 0 when all
    are.
    """

    __slots__ = ("last_per_subject_upto", "seq")

    def __init__(self, seq: int, last_per_subject_upto: int = 0) -> None:
        self.seq = seq
        self.last_per_subject_upto = last_per_subject_upto


def start_of(config: ConsumerConfig, store: Store, max_msgs_per_subject: int) -> Start:
    """Return where a new consumer begins."""
    start = _chosen(config, store, max_msgs_per_subject)
    first, last = store.first_seq, store.last_seq
    if first == 0 and config.opt_start_seq == 0:
        return Start(1)  # a stream that never held a message
    seq = max(start.seq, first)
    if start.seq > last and config.opt_start_seq == 0:
        seq = last + 1
    return start if seq == start.seq else Start(seq, start.last_per_subject_upto)


def _chosen(config: ConsumerConfig, store: Store, max_msgs_per_subject: int) -> Start:
    policy = config.deliver_policy
    if config.opt_start_seq:
        return Start(config.opt_start_seq)
    if policy == "all":
        return Start(store.first_seq)
    if policy == "last":
        return Start(_last(config.filters(), store))
    if policy == "last_per_subject":
        return _last_per_subject(config.filters(), store, max_msgs_per_subject)
    if config.opt_start_time is not None:
        return Start(_at_time(config, store))
    return Start(store.last_seq + 1)


def _last(filters: tuple[bytes, ...], store: Store) -> int:
    if not filters:
        return store.last_seq
    return max(store.last_matching(one) for one in filters)


def _last_per_subject(filters: tuple[bytes, ...], store: Store, max_msgs_per_subject: int) -> Start:
    if max_msgs_per_subject == 1:
        return Start(store.first_seq)  # every message is its subject's last
    seq = store.next_last_seq(filters, store.first_seq, store.last_seq) if store.messages else 0
    return Start(seq, store.last_seq) if seq else Start(store.last_seq)


def _at_time(config: ConsumerConfig, store: Store) -> int:
    """Return the first sequence from the start time on; go ahead to the first that matches."""
    assert config.opt_start_time is not None
    seq = store.seq_at_time(in_reach(config.opt_start_time.ns))
    nearest = store.last_seq
    for one in config.filters():
        first = store.next_seq((one,), store.first_seq)
        if seq <= first < nearest:
            nearest = first
    return nearest if config.filters() and seq < nearest < store.last_seq else seq


def in_reach(time_ns: int) -> int:
    """Return the moment nearest to `time_ns` that messages can be stored at."""
    return min(max(time_ns, 0), _LATEST_NS)
