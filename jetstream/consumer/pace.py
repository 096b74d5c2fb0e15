"""The pace of deliveries: the pace at which messages were stored, or a number of bits a second."""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.host import ConsumerHost

_SECOND_NS = 1_000_000_000
_LEAST_GAP_NS = 1_000_000  # a shorter gap is not waited for


class Pace:
    """The rate limit and the replay of one consumer.

    A bucket of `burst_bytes` fills at the rate limit, 0 for none; a message takes its bytes from
    the bucket, which may leave a debt to wait for. Messages up to `replay_upto`, 0 for none, come
    in the time in which they were stored.
    """

    __slots__ = (
        "_bytes",
        "_last_time_ns",
        "_seen_ns",
        "burst_bytes",
        "rate_limit_bps",
        "replay_upto",
    )

    def __init__(self, rate_limit_bps: int, burst_bytes: int, replay_upto: int) -> None:
        self.rate_limit_bps = rate_limit_bps
        self.burst_bytes = burst_bytes
        self.replay_upto = replay_upto
        self._bytes = float(burst_bytes)
        self._seen_ns = 0
        self._last_time_ns = 0

    def delay_ns(self, seq: int, time_ns: int, size: int, now_ns: int) -> int:
        """Return how long to wait before a message may go, and count it as gone then."""
        gap_ns = 0
        if self.replay_upto:
            if self._last_time_ns:
                gap_ns = time_ns - self._last_time_ns
            self._last_time_ns = time_ns
            if seq >= self.replay_upto:
                self.replay_upto = 0
            if gap_ns <= _LEAST_GAP_NS:
                gap_ns = 0
        if not self.rate_limit_bps:
            return gap_ns
        return max(gap_ns, self._debt_ns(size, now_ns + gap_ns) + gap_ns)

    def _debt_ns(self, size: int, now_ns: int) -> int:
        bytes_per_s = self.rate_limit_bps // 8
        if bytes_per_s == 0:
            return 0
        if self._seen_ns and now_ns > self._seen_ns:
            filled = (now_ns - self._seen_ns) * bytes_per_s / _SECOND_NS
            self._bytes = min(self._bytes + filled, float(self.burst_bytes))
        self._seen_ns = max(now_ns, self._seen_ns)
        self._bytes -= size
        return 0 if self._bytes >= 0 else int(-self._bytes * _SECOND_NS / bytes_per_s)


def pace_of(
    config: ConsumerConfig, host: ConsumerHost, last_seq: int, present: Pace | None
) -> Pace | None:
    """Return the pace that a configuration asks for, `present` if it is that; None for none."""
    if not config.rate_limit_bps and config.replay_policy == "instant":
        return None
    if present is not None and present.rate_limit_bps == config.rate_limit_bps:
        return present
    burst = host.max_msg_size if host.max_msg_size > 0 else host.around.max_payload
    upto = last_seq if config.replay_policy == "original" else 0
    return Pace(config.rate_limit_bps, burst, present.replay_upto if present else upto)
