"""Gold: the answers. Every function takes tables of silver and returns one table of gold.

All of them are computed from sums that the job keeps as it goes, so their cost follows the variety
of the traffic, not its volume.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from midge.pipeline.lake.settings import Period
from midge.pipeline.lake.silver import prefix_column
from midge.pipeline.records.format import SLOW_CONSUMER_REASON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from midge.pipeline.lake.tables import Lake

_CLIENT = ("server", "account", "cid")
_LONG_ACK_TOKENS = 11
"""An acknowledgement's subject with domain and account has at least as many tokens as this."""
_SUBSCRIPTION = (*_CLIENT, "sid", "since")


def rates(traffic: "DataFrame", window_s: int = 60) -> "DataFrame":
    """Return messages and bytes per second by subject prefix and window."""
    return traffic.groupBy("window_start", "account", "prefix").agg(
        *_use(),
        _deliveries(),
        (sf.sum("messages") / window_s).alias("messages_per_s"),
        (sf.sum("bytes") / window_s).alias("bytes_per_s"),
    )


def subjects(traffic: "DataFrame") -> "DataFrame":
    """Return all subjects with their traffic and their place among all, the busiest first."""
    publishers = sf.count_distinct("server", sf.when(_has_publisher(), sf.col("cid")))
    summed = traffic.groupBy("account", "subject", "prefix").agg(
        *_use(),
        _deliveries(),
        sf.when(publishers > 0, publishers).alias("publishers"),
        sf.min("first_time").alias("first_time"),
        sf.max("last_time").alias("last_time"),
    )
    return summed.withColumn("place", _place("account", "subject"))


def talkers(traffic: "DataFrame", sessions: "DataFrame") -> "DataFrame":
    """Return all publishing clients with what they sent and their place, the busiest first.

    A cid that was given twice is counted as one client under its latest name. Messages recorded by
    a listener have no publishers.
    """
    summed = (
        traffic.where(_has_publisher())
        .groupBy(*_CLIENT)
        .agg(sf.count_distinct("subject").alias("subjects"), *_use(), _deliveries())
    )
    names = sessions.groupBy(*_CLIENT).agg(
        sf.max_by("client_name", "connected").alias("client_name")
    )
    named = summed.join(names, list(_CLIENT), "left")
    return named.withColumn("place", _place(*_CLIENT))


def fan_out(traffic: "DataFrame") -> "DataFrame":
    """Return how many messages were delivered zero, one, two, … times; null: not counted."""
    deliveries = sf.when(_is_counted(), _each()).alias("deliveries")
    summed = traffic.groupBy("account", deliveries).agg(*_use())
    total = sf.sum("messages").over(Window.partitionBy("account"))
    return summed.withColumn("share", sf.col("messages") / total)


def no_interest(traffic: "DataFrame") -> "DataFrame":
    """Return the subjects with undelivered messages and the `share` of each subject's messages."""
    unheard = sf.col("no_interest") > 0
    summed = traffic.groupBy("account", "subject").agg(
        sf.sum("no_interest").alias("lost"),
        sf.sum(sf.when(unheard, sf.col("bytes"))).alias("lost_bytes"),
        sf.sum("messages").alias("all"),
        sf.max(sf.when(unheard, sf.col("last_time"))).alias("last_time"),
    )
    return summed.where("lost > 0").select(
        "account",
        "subject",
        sf.col("lost").alias("messages"),
        sf.col("lost_bytes").alias("bytes"),
        (sf.col("lost") / sf.col("all")).alias("share"),
        "last_time",
    )


def dead_subscriptions(
    subscriptions: "DataFrame", matches: "DataFrame", batches: "DataFrame"
) -> "DataFrame":
    """Return the subscriptions that no message matched, with how long they have been there.

    One that got messages under other subjects, as a consumer's inbox does, is left out as soon as
    its end is recorded with their number.
    """
    # What a later batch took back leaves a sum of nothing.
    sums = matches.groupBy(*_SUBSCRIPTION).agg(sf.sum("messages").alias("messages"))
    used = sums.where("messages > 0")
    newest = batches.agg(sf.max("last_time").alias("_newest"))
    age = sf.unix_micros(sf.coalesce("until", "_newest", "since")) - sf.unix_micros("since")
    return (
        subscriptions.where("coalesce(delivered, 0) = 0")
        .join(used, list(_SUBSCRIPTION), "left_anti")
        .crossJoin(sf.broadcast(newest))
        .withColumn("age_s", sf.greatest(age / 1_000_000, sf.lit(0.0)))
    )


def duplicate_subscriptions(subscriptions: "DataFrame", matches: "DataFrame") -> "DataFrame":
    """Return the patterns of a client whose messages it gets for another subscription as well.

    Of the plain subscriptions that match a message, the first one counts and the later ones waste
    it: `overlaps` are the patterns of those before, `copies` how often such a message came at most.
    A member of a queue group gets its messages instead of others, so it takes no part.
    """
    client = ("server", "account", "cid", "client_name")
    met = ("subject", "window_start")
    # What a later batch took back leaves a sum of nothing.
    heard = (
        matches.where("queue IS NULL")
        .groupBy(*client, "sid", "since", "pattern", *met)
        .agg(sf.sum("messages").alias("messages"))
        .where("messages > 0")
        .join(subscriptions.select(*_SUBSCRIPTION, "until"), list(_SUBSCRIPTION))
    )
    later, earlier = heard.alias("later"), heard.alias("earlier")
    condition = sf.expr(
        "(earlier.since, earlier.sid) < (later.since, later.sid) "
        "AND later.since <= coalesce(earlier.until, later.since)"
    )
    for key in (*client, *met):
        condition = condition & sf.col(f"later.{key}").eqNullSafe(sf.col(f"earlier.{key}"))
    pairs = later.join(earlier, condition).select(
        *(f"later.{name}" for name in (*client, "sid", "since", "pattern", *met)),
        sf.col("earlier.pattern").alias("other"),
        sf.least("later.messages", "earlier.messages").alias("both"),
    )
    wasted = pairs.groupBy(*client, "sid", "since", "pattern", *met).agg(
        sf.collect_set("other").alias("others"),
        (sf.count("*") + 1).alias("copies"),
        sf.max("both").alias("wasted"),
    )
    return wasted.groupBy(*client, "pattern").agg(
        sf.array_join(
            sf.array_sort(sf.array_distinct(sf.flatten(sf.collect_set("others")))), ", "
        ).alias("overlaps"),
        sf.max("copies").alias("copies"),
        sf.sum("wasted").alias("wasted_deliveries"),
    )


def queue_balance(subscriptions: "DataFrame") -> "DataFrame":
    """Return what each member of a queue group got; `skew` is its share over a fair share.

    What a subscription got is recorded when it ends, so members that are still there are left out.
    """
    members = subscriptions.where("queue IS NOT NULL AND delivered IS NOT NULL")
    group = Window.partitionBy("server", "account", "pattern", "queue")
    total = sf.sum("delivered").over(group)
    share = sf.when(total > 0, sf.col("delivered") / total).otherwise(0.0)
    fair = 1 / sf.count("*").over(group)
    return members.select(
        "*",
        sf.count("*").over(group).alias("members"),
        share.alias("share"),
        fair.alias("fair_share"),
        (share / fair).alias("skew"),
    )


def disconnects(sessions: "DataFrame") -> "DataFrame":
    """Return how often connections ended, by reason."""
    ended = sessions.where("disconnected IS NOT NULL")
    duration = sf.unix_micros("disconnected") - sf.unix_micros("connected")
    reason = sf.coalesce("reason", sf.lit("unknown")).alias("reason")
    return ended.groupBy("server", "account", reason).agg(
        sf.count("*").alias("disconnects"),
        sf.count_distinct("cid").alias("clients"),
        sf.sum(_is_slow().cast("long")).alias("slow_consumers"),
        (sf.avg(duration) / 1_000_000).alias("mean_duration_s"),
    )


def slow_consumers(sessions: "DataFrame") -> "DataFrame":
    """Return the clients that were disconnected because they were too slow, by name."""
    return (
        sessions.where(_is_slow())
        .groupBy("server", "account", "client_name")
        .agg(
            sf.count("*").alias("disconnects"),
            sf.max("disconnected").alias("last_time"),
            sf.max_by("reason", "disconnected").alias("reason"),
            sf.sum("out_msgs").alias("out_msgs"),
            sf.sum("out_bytes").alias("out_bytes"),
        )
    )


def latency(exchanges: "DataFrame", prefix_tokens: int = 2) -> "DataFrame":
    """Return percentiles of the time to the reply, by request subject and prefix of the reply's.

    `requests` counts those that were answered, `replies` all answers to them; the percentiles are
    of the first answers.
    """
    request = ("account", "subject", "reply", "requester", "asked")
    first = exchanges.groupBy(*request).agg(
        sf.min("latency_us").alias("latency_us"), sf.count("*").alias("replies")
    )
    prefix = prefix_column(sf.col("reply"), prefix_tokens).alias("reply_prefix")
    return first.groupBy("account", "subject", prefix).agg(
        sf.count("*").alias("requests"),
        sf.sum("replies").alias("replies"),
        *(_percentile(share).alias(f"p{round(share * 100)}_us") for share in (0.5, 0.9, 0.99)),
        sf.max("latency_us").alias("max_us"),
    )


def consumers(traffic: "DataFrame") -> "DataFrame":
    """Return the consumers of streams, by the subjects of their clients' replies.

    `$JS.ACK.` is followed, from some servers, by domain and account; then come stream, consumer,
    number of deliveries, sequences in the stream and of the consumer, time and pending messages.
    """
    tokens = sf.split("subject", r"\.")
    start = sf.when(sf.size(tokens) >= _LONG_ACK_TOKENS, 4).otherwise(2)
    names = ("stream", "consumer", "deliveries", "seq", "consumer_seq", "_time", "pending")
    parts = {name: sf.get(tokens, start + number) for number, name in enumerate(names)}
    numbers = {name: parts[name].try_cast("bigint") for name in names if name not in names[:2]}
    replies = (
        traffic.where(sf.col("subject").startswith("$JS.ACK."))
        .select(
            *("account", "messages", "last_time"),
            *(part.alias(name) for name, part in (parts | numbers).items()),
        )
        .where("pending IS NOT NULL")
    )
    repeated = sf.when(sf.col("deliveries") > 1, sf.col("consumer_seq"))
    return replies.groupBy("account", "stream", "consumer").agg(
        sf.count_distinct("seq").alias("messages"),
        sf.sum("messages").alias("replies"),
        sf.count_distinct(repeated).alias("redelivered"),
        sf.max("deliveries").alias("max_deliveries"),
        sf.max_by("pending", "consumer_seq").alias("lag"),
        sf.max("pending").alias("max_lag"),
        sf.max("seq").alias("last_seq"),
        sf.max("last_time").alias("last_time"),
    )


def late_data(batches: "DataFrame") -> "DataFrame":
    """Return how much of each batch came after the watermark."""
    share = sf.when(sf.col("messages") > 0, sf.col("late_messages") / sf.col("messages"))
    return batches.withColumn("share", sf.coalesce(share, sf.lit(0.0)))


def reconciliation(traffic: "DataFrame", matches: "DataFrame") -> "DataFrame":
    """Return what the server counted as plain deliveries beside what matching finds.

    They differ where permissions, `no echo` or a dying connection kept a message from a match,
    where records were lost, and by the deliveries to streams and of streams to their consumers.
    Messages recorded by a listener have no delivery counts and are left out.
    """
    counted = (
        traffic.where(_is_counted())
        .groupBy("server", "account")
        .agg(sf.sum(sf.col("plain_deliveries") * sf.col("messages")).alias("recorded"))
    )
    found = (
        matches.where("queue IS NULL")
        .groupBy("server", "account")
        .agg(sf.sum("messages").alias("matched"))
    )
    matched = sf.coalesce("matched", sf.lit(0))
    return counted.join(found, ["server", "account"], "left").select(
        "server",
        "account",
        "recorded",
        matched.alias("matched"),
        (sf.col("recorded") - matched).alias("difference"),
    )


def coverage(
    traffic: "DataFrame", subscriptions: "DataFrame", sessions: "DataFrame"
) -> "DataFrame":
    """Return the recorded numbers of each server; `midge record` has messages only."""
    who = ("server", "account")
    parts = (
        traffic.select(
            *who,
            "messages",
            sf.when(_is_counted(), sf.col("messages")).otherwise(0).alias("counted"),
            sf.lit(0).alias("subscriptions"),
            sf.lit(0).alias("sessions"),
        ),
        subscriptions.selectExpr(*who, "0L", "0L", "1", "0"),
        sessions.selectExpr(*who, "0L", "0L", "0", "1"),
    )
    sums = ("messages", "counted", "subscriptions", "sessions")
    return (
        parts[0]
        .union(parts[1])
        .union(parts[2])
        .groupBy(*who)
        .agg(*(sf.sum(name).alias(name) for name in sums))
    )


_SPANS = {
    "traffic": ("window_start", "window_start"),
    "matches": ("window_start", "window_start"),
    "exchanges": ("asked", "asked"),
    "batches": ("first_time", "last_time"),
    "subscriptions": ("since", "until"),
    "sessions": ("connected", "disconnected"),
}
"""The columns with the first and the last time of a row of silver; no last one is no end."""


def build(
    lake: "Lake", window_s: int = 60, prefix_tokens: int = 2, times: Period | None = None
) -> "Mapping[str, Build]":
    """Return how each gold table of a lake is made, by its name.

    With `times`, from the windows that begin in them and from the rest that they meet.
    """

    def read(name: str) -> "DataFrame":
        rows = lake.read(f"silver/{name}")
        if times is None:
            return rows
        first, last = _SPANS[name]
        is_over = sf.coalesce(sf.col(last) < sf.lit(times.first), sf.lit(False))
        return rows.where((sf.col(first) < sf.lit(times.end)) & ~is_over)

    traffic = read("traffic")
    builds: dict[str, Build] = {
        "rates": lambda: rates(traffic, window_s),
        "subjects": lambda: subjects(traffic),
        "talkers": lambda: talkers(traffic, read("sessions")),
        "fan_out": lambda: fan_out(traffic),
        "no_interest": lambda: no_interest(traffic),
        "dead_subscriptions": lambda: dead_subscriptions(
            read("subscriptions"), read("matches"), read("batches")
        ),
        "duplicate_subscriptions": lambda: duplicate_subscriptions(
            read("subscriptions"), read("matches")
        ),
        "queue_balance": lambda: queue_balance(read("subscriptions")),
        "disconnects": lambda: disconnects(read("sessions")),
        "slow_consumers": lambda: slow_consumers(read("sessions")),
        "latency": lambda: latency(read("exchanges"), prefix_tokens),
        "consumers": lambda: consumers(traffic),
        "late_data": lambda: late_data(read("batches")),
        "reconciliation": lambda: reconciliation(traffic, read("matches")),
        "coverage": lambda: coverage(traffic, read("subscriptions"), read("sessions")),
    }
    return {f"gold/{name}": make for name, make in builds.items()}


Build = Callable[[], "DataFrame"]


def _use() -> "tuple[Column, Column]":
    return sf.sum("messages").alias("messages"), sf.sum("bytes").alias("bytes")


def _each() -> "Column":
    return sf.col("plain_deliveries") + sf.col("queue_deliveries")


def _is_counted() -> "Column":
    """Return whether a server counted the deliveries of the traffic.

    A message that a server routed was delivered or had no interest. Messages recorded by a listener
    have neither, since it cannot know.
    """
    return (_each() > 0) | (sf.col("no_interest") > 0)


def _has_publisher() -> "Column":
    """Return whether the publisher is recorded; 0 is the server itself, or what a listener says."""
    return _is_counted() | (sf.col("cid") != 0)


def _deliveries() -> "Column":
    """Sum up deliveries; null where none were counted."""
    counted = sf.when(_is_counted(), _each() * sf.col("messages"))
    return sf.sum(counted).alias("deliveries")


def _place(*ties: str) -> "Column":
    """Number rows by their messages, the most first; equal ones by name."""
    return sf.row_number().over(Window.orderBy(sf.desc("messages"), sf.desc("bytes"), *ties))


def _is_slow() -> "Column":
    return sf.coalesce(sf.lower("reason").startswith(SLOW_CONSUMER_REASON), sf.lit(False))


def _percentile(share: float) -> "Column":
    return sf.percentile_approx("latency_us", share, 100_000)
