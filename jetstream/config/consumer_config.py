"""A consumer's configuration, the request to create one, and the limits on it.

Durations are nanoseconds. As in Go, empty texts, zeros and empty lists mean that a key was absent.
"""

from __future__ import annotations

from operator import attrgetter

from midge.jetstream.config import names
from midge.jetstream.json.times import Timestamp

ATTRIBUTES = (
    *("durable_name", "name", "description", "deliver_policy", "opt_start_seq", "opt_start_time"),
    *("ack_policy", "ack_wait_ns", "max_deliver", "backoff_ns", "filter_subject"),
    *("filter_subjects", "replay_policy", "rate_limit_bps", "sample_freq", "max_waiting"),
    *("max_ack_pending", "flow_control", "headers_only", "max_batch", "max_expires_ns"),
    *("max_bytes", "deliver_subject", "deliver_group", "idle_heartbeat_ns"),
    *("inactive_threshold_ns", "num_replicas", "mem_storage", "direct", "sourcing", "metadata"),
    *("pause_until", "priority_groups", "priority_policy", "priority_timeout_ns"),
)
"""The attributes of a configuration, in nats-server's order of the keys."""

_values_of = attrgetter(*ATTRIBUTES)


class ConsumerConfig:
    """The configuration requested for a consumer, one attribute for each key of the JSON."""

    __slots__ = ATTRIBUTES

    def __init__(self, **given: object) -> None:
        self.durable_name = ""
        self.name = ""
        self.description = ""
        self.deliver_policy = "all"
        self.opt_start_seq = 0
        self.opt_start_time: Timestamp | None = None
        self.ack_policy = "none"
        self.ack_wait_ns = 0
        self.max_deliver = 0
        self.backoff_ns: list[int] = []
        self.filter_subject = ""
        self.filter_subjects: list[str] = []
        self.replay_policy = "instant"
        self.rate_limit_bps = 0
        self.sample_freq = ""
        self.max_waiting = 0
        self.max_ack_pending = 0
        self.flow_control = False
        self.headers_only = False
        self.max_batch = 0
        self.max_expires_ns = 0
        self.max_bytes = 0
        self.deliver_subject = ""
        self.deliver_group = ""
        self.idle_heartbeat_ns = 0
        self.inactive_threshold_ns = 0
        self.num_replicas = 0
        self.mem_storage = False
        self.direct = False
        self.sourcing = False
        self.metadata: dict[str, str] = {}
        self.pause_until: Timestamp | None = None
        self.priority_groups: list[str] = []
        self.priority_policy = "none"
        self.priority_timeout_ns = 0
        for name, value in given.items():
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConsumerConfig) and bool(_values_of(self) == _values_of(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = zip(ATTRIBUTES, _values_of(self), strict=True)
        return f"ConsumerConfig({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def copy(self) -> ConsumerConfig:
        """Return a copy whose lists and metadata are its own."""
        made = ConsumerConfig(**dict(zip(ATTRIBUTES, _values_of(self), strict=True)))
        made.backoff_ns = self.backoff_ns.copy()
        made.filter_subjects = self.filter_subjects.copy()
        made.metadata = self.metadata.copy()
        made.priority_groups = self.priority_groups.copy()
        return made

    def filters(self) -> tuple[bytes, ...]:
        """Return the filter subjects in their given order; empty for all subjects."""
        if not self.filter_subjects:
            return (names.to_bytes(self.filter_subject),) if self.filter_subject else ()
        found = []
        for subject in (*self.filter_subjects, self.filter_subject):
            if subject:
                found.append(names.to_bytes(subject))
        return tuple(found)

    def is_pull(self) -> bool:
        """Return whether it is a pull consumer."""
        return not self.deliver_subject

    def sampling(self) -> int:
        """Return the percentage of acks that are reported."""
        return int(self.sample_freq.removesuffix("%")) if self.sample_freq else 0


class CreateRequest:
    """The body of a request that makes or changes a consumer."""

    __slots__ = ("action", "config", "pedantic", "stream_name")

    def __init__(self) -> None:
        self.stream_name = ""
        self.config = ConsumerConfig()
        self.action = ""
        self.pedantic = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CreateRequest)
            and self.stream_name == other.stream_name
            and self.config == other.config
            and self.action == other.action
            and self.pedantic == other.pedantic
        )

    __hash__ = None  # type: ignore[assignment]


class Allowance:
    """Limits of the server and the account on consumers; 0 or less means no limit."""

    __slots__ = (
        "account_max_ack_pending",
        "max_consumers",
        "max_request_batch",
        "server_max_ack_pending",
    )

    def __init__(
        self,
        server_max_ack_pending: int = 0,
        account_max_ack_pending: int = 0,
        max_request_batch: int = 0,
        max_consumers: int = 0,
    ) -> None:
        self.server_max_ack_pending = server_max_ack_pending
        self.account_max_ack_pending = account_max_ack_pending
        self.max_request_batch = max_request_batch
        self.max_consumers = max_consumers
