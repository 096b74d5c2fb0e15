"""Cut a range of stream sequences into parts that tasks read side by side. Pure arithmetic."""

import itertools
from dataclasses import dataclass

SMALL_PARTITION = 10_000
"""Below this many sequences a task costs more to start than it saves."""
LARGE_PARTITION = 1_000_000
"""Above it a failed task has too much to read again."""


@dataclass(frozen=True)
class SequenceRange:
    """Sequences from `start` up to but without `end`."""

    start: int
    end: int

    def __len__(self) -> int:
        """Count the sequences, whether or not each still has its message."""
        return max(0, self.end - self.start)


def split(
    start: int, end: int, parallelism: int, min_partitions: int | None
) -> list[SequenceRange]:
    """Return adjacent ranges that together are `start` up to `end`, differing by one at most.

    Without `min_partitions` there are as many as `parallelism`, fewer when they would be small and
    more when they would be large. `min_partitions` is a floor under that, as in Spark's Kafka
    source, but no range is ever empty.
    """
    span = end - start
    if span <= 0:
        return []
    wanted = min(parallelism, -(-span // SMALL_PARTITION))
    wanted = max(wanted, -(-span // LARGE_PARTITION), min_partitions or 1)
    count = min(wanted, span)
    bounds = [start + span * part // count for part in range(count + 1)]
    return [SequenceRange(*pair) for pair in itertools.pairwise(bounds)]
