"""Silver: tables that interpret the records. Every function takes DataFrames and returns one.

Functions with `batch` in their name follow a growing lake: from the rows of a batch and the rows
before it they return exactly the rows that the batch adds. The union over all batches equals the
result of one run over all records.
"""

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as sf

from midge.pipeline.lake.tables import INBOX
from midge.pipeline.match import match
from midge.pipeline.matching.strategies import BROADCAST_MAX_PATTERNS, Strategy
from midge.pipeline.matching.sublist_matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CLIENT = ("server", "account", "cid")
_INTERVAL = (*_CLIENT, "sid", "since")
_ROUTE = ("account", "subject", "reply")
_MATCHED = (*_INTERVAL, "client_name", "pattern", "queue", "subject")
_ACK = "$JS.ACK."
"""How the reply subjects of a stream's deliveries begin."""


def messages(bronze: "DataFrame", prefix_tokens: int = 2) -> "DataFrame":
    """Return the recorded messages with their subjects taken apart; see `silver/messages`."""
    tokens = sf.split("subject", r"\.")
    return bronze.select(
        "*",
        tokens.alias("tokens"),
        sf.size(tokens).alias("token_count"),
        prefix_column(sf.col("subject"), prefix_tokens).alias("prefix"),
        sf.col("headers").isNotNull().alias("has_headers"),
        (sf.col("plain_deliveries") + sf.col("queue_deliveries")).alias("deliveries"),
    ).drop("payload", "headers")


def prefix_column(subject: "Column", tokens: int) -> "Column":
    """Return the first tokens of subjects, closed by `.>` where more follow.

    All inboxes have the prefix `_INBOX.>`: their second token is another one for every client.
    """
    start = sf.substring_index(subject, ".", tokens)
    prefix = sf.when(start == subject, subject).otherwise(sf.concat(start, sf.lit(".>")))
    return sf.when(subject.startswith(INBOX), sf.lit(f"{INBOX}>")).otherwise(prefix)


def window_column(time: "Column", window_s: int) -> "Column":
    """Return the beginning of the window of `window_s` seconds that holds `time`."""
    seconds = sf.unix_timestamp(time)
    return sf.timestamp_seconds(seconds - seconds % window_s)


def traffic(silver_messages: "DataFrame", window_s: int = 60) -> "DataFrame":
    """Sum up messages; see `silver/traffic`. Sums of parts add up to the sum of the whole."""
    keys = (*_CLIENT, "subject", "prefix", "plain_deliveries", "queue_deliveries")
    start = window_column(sf.col("time"), window_s).alias("window_start")
    return silver_messages.groupBy(start, *keys).agg(
        sf.count("*").alias("messages"),
        sf.sum("size").alias("bytes"),
        sf.sum(sf.col("no_interest").cast("long")).alias("no_interest"),
        sf.min("time").alias("first_time"),
        sf.max("time").alias("last_time"),
    )


def sessions(clients: "DataFrame") -> "DataFrame":
    """Return one row for every connection; see `silver/sessions`.

    The cid of a client that was there when its server died is given again later. Its session ends
    where that next one begins, with the reason null.
    """
    order = Window.partitionBy("server", "cid").orderBy("time", *_recorded_order())
    following = {name: sf.lead(name).over(order) for name in ("time", "event", *_CLOSING)}
    ended = following["event"] == "disconnect"
    rows = clients.select(
        "*",
        *(column.alias(f"_next_{name}") for name, column in following.items()),
        ended.alias("_ended"),
    ).where("event = 'connect'")
    return rows.select(
        *_CLIENT,
        *("client_name", "lang", "version", "host", "port"),
        sf.col("time").alias("connected"),
        sf.col("_next_time").alias("disconnected"),
        *(sf.when(sf.col("_ended"), sf.col(f"_next_{name}")).alias(name) for name in _CLOSING),
    )


_CLOSING = ("reason", "in_msgs", "out_msgs", "in_bytes", "out_bytes")


def subscriptions(interest: "DataFrame", silver_sessions: "DataFrame") -> "DataFrame":
    """Return the interval of every subscription; see `silver/subscriptions`.

    A subscription without an end ends with the session it belongs to, if that has one.
    """
    order = Window.partitionBy("server", "cid", "sid").orderBy("time", *_recorded_order())
    following = {name: sf.lead(name).over(order) for name in ("time", "event", "delivered")}
    begun = interest.select(
        "*", *(column.alias(f"_next_{name}") for name, column in following.items())
    ).where("event = 'sub'")
    ended = sf.coalesce(sf.col("_next_event") != "sub", sf.lit(False))
    bounds = begun.select(
        *_CLIENT,
        *("sid", "client_name", "queue"),
        sf.col("subject").alias("pattern"),
        sf.col("time").alias("since"),
        sf.col("_next_time").alias("_until"),
        sf.when(ended, sf.col("_next_event")).alias("_ended_by"),
        sf.when(ended, sf.col("_next_delivered")).alias("delivered"),
    )
    of_client = silver_sessions.select(
        sf.col("server").alias("_server"), sf.col("cid").alias("_cid"), "connected", "disconnected"
    )
    belongs = sf.expr(
        "server = _server AND cid = _cid AND since >= connected "
        "AND (disconnected IS NULL OR since <= disconnected)"
    )
    with_session = bounds.join(of_client, belongs, "left")
    until = sf.coalesce(sf.least("_until", "disconnected"), "_until")
    return with_session.select(
        "*",
        until.alias("until"),
        sf.coalesce("_ended_by", sf.when(until.isNotNull(), sf.lit("session"))).alias("ended_by"),
    ).drop("_until", "_ended_by", "_server", "_cid", "connected", "disconnected")


def intervals(silver_subscriptions: "DataFrame") -> "DataFrame":
    """Return subscriptions with the time that a batch has to match: all that they lasted."""
    return silver_subscriptions.select(
        "*",
        sf.col("since").alias("begin"),
        sf.col("until").alias("end"),
        sf.lit(1).alias("sign"),
    )


def interval_changes(before: "DataFrame", now: "DataFrame") -> "DataFrame":
    """Return what became known of subscriptions since `before`, as intervals.

    Interest may be recorded after messages that it concerns. A subscription that is new adds its
    time; one whose end is new takes away, with the sign -1, what it was believed to last longer.
    """
    known = before.select(*_INTERVAL, sf.col("until").alias("_was"), sf.lit(True).alias("_known"))
    compared = now.join(known, list(_INTERVAL), "left")
    fresh = intervals(compared.where("_known IS NULL"))
    shorter = compared.where(
        "_known AND until IS NOT NULL AND (_was IS NULL OR until < _was)"
    ).select("*", _just_after("until"), sf.col("_was").alias("end"), sf.lit(-1).alias("sign"))
    longer = compared.where(
        "_known AND _was IS NOT NULL AND (until IS NULL OR until > _was)"
    ).select("*", _just_after("_was"), sf.col("until").alias("end"), sf.lit(1).alias("sign"))
    return fresh.unionByName(shorter).unionByName(longer).drop("_was", "_known")


def matches(
    silver_messages: "DataFrame",
    subscription_intervals: "DataFrame",
    window_s: int = 60,
    strategy: Strategy = "auto",
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS,
) -> "DataFrame":
    """Return how many messages each subscription matched; see `silver/matches`.

    A message meets the intervals of its account on its server that hold its time, and counts with
    their sign. What a stream delivers to its consumers is left out: it is recorded with the subject
    of the stored message, but goes to the consumer's own subscription alone.
    """
    scope = ("server", "account")
    silver_messages = silver_messages.where(~_is_delivery_of_a_stream())
    slim = silver_messages.select(*scope, "subject", "time", "size")
    patterns = subscription_intervals.select(*scope, "pattern").distinct()
    subjects = silver_messages.select(*scope, "subject").distinct()
    pairs = match(
        subjects,
        patterns,
        strategy=strategy,
        scope=scope,
        broadcast_max_patterns=broadcast_max_patterns,
    )
    interested = pairs.join(subscription_intervals, [*scope, "pattern"])
    met = slim.join(interested, [*scope, "subject"]).where(
        "time >= begin AND (end IS NULL OR time <= end)"
    )
    start = window_column(sf.col("time"), window_s).alias("window_start")
    return met.groupBy(start, *_MATCHED).agg(
        sf.sum("sign").alias("messages"), sf.sum(sf.col("sign") * sf.col("size")).alias("bytes")
    )


def matches_here(
    silver_messages: pa.Table, silver_subscriptions: pa.Table, window_s: int = 60
) -> pa.Table:
    """Return what `matches` returns for few messages and subscriptions, by this process alone."""
    scope = ("server", "account")
    is_delivery = pc.and_(
        pc.equal(silver_messages["cid"], 0), pc.starts_with(silver_messages["reply"], _ACK)
    )
    others = silver_messages.filter(pc.invert(pc.fill_null(is_delivery, False)))
    messages = others.select([*scope, "subject", "time", "size"]).combine_chunks()
    matcher = Matcher(silver_subscriptions, scope)
    nothing = np.empty(0, np.int64)
    batches = messages.to_batches()  # one, or none
    pairs = [(nothing, nothing), *(pair for each in batches for pair in matcher.pairs(each))]
    rows, found = (pa.array(np.concatenate(side)) for side in zip(*pairs, strict=True))
    met = messages.take(rows)
    for name, column in zip(
        matcher.patterns.column_names, matcher.patterns.take(found).columns, strict=True
    ):
        met = met if name in scope else met.append_column(name, column)
    time = met["time"].cast(met["since"].type)
    has_begun = pc.greater_equal(time, met["since"])
    is_on = pc.or_kleene(pc.is_null(met["until"]), pc.less_equal(time, met["until"]))
    window_us = window_s * 1_000_000
    start = pc.multiply(pc.divide(time.cast(pa.int64()), window_us), window_us).cast(time.type)
    lasting = met.append_column("window_start", start).filter(pc.and_(has_begun, is_on))
    sums = lasting.group_by(["window_start", *_MATCHED]).aggregate(
        [([], "count_all"), ("size", "sum")]
    )
    return sums.rename_columns({"count_all": "messages", "size_sum": "bytes"})


def _is_delivery_of_a_stream() -> "Column":
    """Select the server's own messages whose receivers acknowledge them."""
    is_delivery = (sf.col("cid") == 0) & sf.col("reply").startswith(_ACK)
    return sf.coalesce(is_delivery, sf.lit(False))


def exchanges_batch(
    added: "DataFrame",
    before: "DataFrame",
    bounds: tuple[datetime, datetime],
    timeout_s: float = 30.0,
) -> "DataFrame":
    """Return the requests and replies that a batch completes; see `silver/exchanges`.

    `bounds` are the times of the batch's first and last message. `before` are the messages of the
    batches before; those too old to belong to the batch are passed over. A reply is a message to
    the reply subject of a request, at most `timeout_s` later.
    """
    near = before.where(_within(*bounds, timeout_s))
    both = added.withColumn("_new", sf.lit(True)).unionByName(
        near.withColumn("_new", sf.lit(False))
    )
    return exchanges(both, timeout_s).where("_asked_new OR _answered_new")


def exchanges(messages: "DataFrame", timeout_s: float = 30.0) -> "DataFrame":
    """Return requests and replies, each marked whether its message is `_new`."""
    asked = messages.where("reply IS NOT NULL").select(
        *_ROUTE,
        sf.col("cid").alias("requester"),
        sf.col("time").alias("asked"),
        sf.col("_new").alias("_asked_new"),
    )
    answered = messages.select(
        "account",
        sf.col("subject").alias("reply"),
        sf.col("cid").alias("responder"),
        sf.col("time").alias("answered"),
        sf.col("_new").alias("_answered_new"),
    )
    latency = sf.unix_micros("answered") - sf.unix_micros("asked")
    return (
        asked.join(answered, ["account", "reply"])
        .withColumn("latency_us", latency)
        .where(sf.col("latency_us").between(0, int(timeout_s * 1_000_000)))
    )


def _just_after(name: str) -> "Column":
    """Return the first moment after a time, to begin there."""
    return sf.timestamp_micros(sf.unix_micros(name) + 1).alias("begin")


def _within(low: datetime, high: datetime, timeout_s: float) -> "Column":
    """Select the times from which a message can belong to a batch that spans `low` to `high`."""
    time = sf.unix_micros("time")
    reach_us = int(timeout_s * 1_000_000)
    low_us, high_us = sf.unix_micros(sf.lit(low)), sf.unix_micros(sf.lit(high))
    return time.between(low_us - reach_us, high_us + reach_us)


def _recorded_order() -> "tuple[Column, ...]":
    """Order rows of one server with equal times as it wrote them."""
    number = sf.regexp_extract("segment", r"-(\d+)\.parquet$", 1).cast("long")
    return number, sf.col("row")
