"""Subject matching at scale: messages and subscriptions in, pairs of them out.

Two strategies give the same answer. `broadcast` sends the patterns to every worker, which matches
them by the SubList that routes live traffic. `shuffle` joins by shape (see
`midge.pipeline.matching.pattern_shapes`) and broadcasts only the few patterns with hardly a literal
token. `auto` chooses by size.
"""

import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from midge.client.errors import OptionError
from midge.pipeline.matching.pattern_shapes import (
    INVALID_PATTERN,
    INVALID_SUBJECT,
    Shape,
    candidates_column,
    general_column,
    key_column,
    mask_column,
)
from midge.pipeline.matching.strategies import BROADCAST_MAX_PATTERNS, STRATEGIES, Strategy
from midge.pipeline.matching.sublist_matcher import Matcher, worker_matcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def match(
    messages: "DataFrame",
    patterns: "DataFrame",
    *,
    strategy: Strategy = "auto",
    scope: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS,
) -> "DataFrame":
    """Return every row of `messages` with every row of `patterns` that matches it.

    `messages` has a column `subject` and `patterns` a column `pattern`. Both have the columns named
    in `scope`, such as `account`; only rows of equal scope are paired, and these columns appear
    once. An invalid pattern, and a subject with an empty token, match nothing. `columns` selects
    the returned columns of both sides. The default is all of them, but fewer are much faster,
    because there are many pairs.

    Raises:
        OptionError: a column is missing or is on both sides, or the strategy is unknown.
    """
    _check(messages, patterns, strategy, scope, columns)
    if strategy == "auto":
        few = patterns.limit(broadcast_max_patterns + 1).count() <= broadcast_max_patterns
        strategy = "broadcast" if few else "shuffle"
    if strategy == "broadcast":
        return match_broadcast(messages, patterns, scope, columns)
    return match_shuffle(messages, patterns, scope, columns)


def match_counts(
    messages: "DataFrame",
    patterns: "DataFrame",
    *,
    strategy: Strategy = "auto",
    scope: Sequence[str] = (),
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS,
) -> "DataFrame":
    """Return every row of `patterns` that matches anything with its count of `messages`.

    Every distinct subject is matched once. Equal rows of `patterns` become one, with the counts of
    all of them.
    """
    counted = messages.groupBy(*scope, "subject").agg(sf.count("*").alias("messages"))
    pairs = match(
        counted,
        patterns,
        strategy=strategy,
        scope=scope,
        broadcast_max_patterns=broadcast_max_patterns,
    )
    return pairs.groupBy(*patterns.columns).agg(sf.sum("messages").alias("messages"))


def match_broadcast(
    messages: "DataFrame",
    patterns: "DataFrame",
    scope: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> "DataFrame":
    """Match with the patterns broadcast; see `match`."""
    schema = _joined_schema(messages, patterns, scope, columns)
    of_message = [name for name in schema.names if name in messages.columns]
    of_pattern = [name for name in schema.names if name not in messages.columns]
    table = patterns.select(*{"pattern", *scope, *of_pattern}).toArrow()
    needed = messages.select(*dict.fromkeys([*of_message, "subject", *scope]))
    by_side = StructType([schema[name] for name in (*of_message, *of_pattern)])

    shared = messages.sparkSession.sparkContext.broadcast(_to_ipc(table))
    matcher_name = uuid.uuid4().hex

    def match_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = worker_matcher(matcher_name, lambda: Matcher(_from_ipc(shared.value), scope))
        pattern_values = matcher.patterns.select(of_pattern)
        for batch in batches:
            message_values = batch.select(of_message)
            for rows, found in matcher.pairs(batch):
                left = message_values.take(pa.array(rows))
                right = pattern_values.take(pa.array(found))
                arrays = [*left.columns, *(_only_chunk(column) for column in right.columns)]
                yield pa.RecordBatch.from_arrays(arrays, names=[*of_message, *of_pattern])

    return needed.mapInArrow(match_partition, by_side).select(*schema.names)


def match_shuffle(
    messages: "DataFrame",
    patterns: "DataFrame",
    scope: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> "DataFrame":
    """Match by shape through shuffles; see `match`."""
    # Computed once, because it is used twice and is much smaller than the messages.
    distinct = messages.select(*scope, "subject").distinct().localCheckpoint()
    distinct = distinct.where(~sf.col("subject").rlike(INVALID_SUBJECT))
    shaped = patterns.where(~sf.col("pattern").rlike(INVALID_PATTERN)).withColumn(
        "_mask", mask_column(sf.col("pattern"))
    )
    general = general_column(sf.col("_mask"))
    shapes = [Shape(row[0]) for row in shaped.where(~general).select("_mask").distinct().collect()]
    pairs = _join_by_shape(distinct, shaped.where(~general), shapes, scope).unionByName(
        _match_general(distinct, shaped.where(general).drop("_mask"), scope)
    )
    joined = messages.join(pairs.hint("shuffle_hash"), [*scope, "subject"])
    return joined.select(*_joined_schema(messages, patterns, scope, columns).names)


def _join_by_shape(
    subjects: "DataFrame", shaped: "DataFrame", shapes: list[Shape], scope: Sequence[str]
) -> "DataFrame":
    """Return the distinct subjects with the patterns they match, joined by shape and key."""
    keyed = shaped.withColumn("_key", key_column(sf.col("pattern")))
    candidates = subjects.select(
        "*", sf.explode(candidates_column(sf.col("subject"), shapes)).alias("_candidate")
    ).select(
        *subjects.columns,
        sf.col("_candidate.mask").alias("_mask"),
        sf.col("_candidate.key").alias("_key"),
    )
    joined = candidates.join(keyed.hint("shuffle_hash"), [*scope, "_mask", "_key"])
    return joined.drop("_mask", "_key")


def _match_general(
    subjects: "DataFrame", patterns: "DataFrame", scope: Sequence[str]
) -> "DataFrame":
    """Match the patterns with hardly a literal, whose keys would each attract a large share.

    Few of them are distinct, so the distinct ones are broadcast, and their rows joined afterwards.
    """
    few = patterns.select(*scope, "pattern").distinct()
    matched = match_broadcast(subjects, few, scope)
    return matched.join(patterns.hint("shuffle_hash"), [*scope, "pattern"])


def _check(
    messages: "DataFrame",
    patterns: "DataFrame",
    strategy: str,
    scope: Sequence[str],
    columns: Sequence[str] | None,
) -> None:
    if strategy not in STRATEGIES:
        raise OptionError(f"strategy: expected one of {', '.join(STRATEGIES)}, got {strategy!r}")
    for side, frame, needed in (
        ("messages", messages, "subject"),
        ("patterns", patterns, "pattern"),
    ):
        for column in (needed, *scope):
            if column not in frame.columns:
                raise OptionError(f"{side}: expected a column {column!r}, got {frame.columns}")
    shared = set(messages.columns) & set(patterns.columns) - set(scope)
    if shared:
        raise OptionError(f"columns of both sides, rename them on one: {', '.join(sorted(shared))}")
    unknown = set(columns or ()) - set(messages.columns) - set(patterns.columns)
    if unknown:
        raise OptionError(f"columns: on neither side: {', '.join(sorted(unknown))}")


def _joined_schema(
    messages: "DataFrame",
    patterns: "DataFrame",
    scope: Sequence[str],
    columns: Sequence[str] | None,
) -> StructType:
    fields = list(messages.schema.fields)
    fields += [field for field in patterns.schema.fields if field.name not in scope]
    if columns is None:
        return StructType(fields)
    by_name = {field.name: field for field in fields}
    return StructType([by_name[name] for name in columns])


def _to_ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_ipc(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _only_chunk(column: Any) -> pa.Array:
    """Return a combined column as one array; an empty table has no chunk at all."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
