"""What-if routing: the fan-out, bytes and load per server that recorded traffic would cause.

The traffic of the lake is routed again, in sums: each distinct subject is matched with each
subscription that existed at the time, after a proposed change (`midge.pipeline.what_if.change`) to
both. Servers form a full mesh, as NATS clusters do: a message crosses once to each other server
with interest, and a queue group is served on the publisher's server if it has a member there.

There are three simplifications. Clients are placed on servers by a hash of their cid. The choice
among the members of a queue group is even, so their load is an expected value. A message that
reaches a server for a plain subscription and for a queue group counts as one crossing, which is
exact, but crossings to several possible members of several groups are added up to at most one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from midge.pipeline.lake.silver import prefix_column
from midge.pipeline.match import match
from midge.pipeline.matching.strategies import BROADCAST_MAX_PATTERNS, Strategy
from midge.pipeline.subject_rewriting import Rewrite
from midge.pipeline.what_if.change import Change, Removed, Split

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from midge.pipeline.lake.tables import Lake

_FLOW = ("flow", "account", "subject", "home", "messages", "bytes", "first_time", "last_time")


@dataclass(frozen=True)
class PlanTotals:
    """The load of all servers together."""

    messages: int
    bytes: int
    plain_deliveries: int
    queue_deliveries: int
    delivered_bytes: int
    unheard: int
    """Messages without a receiver."""
    crossings: int
    """Messages from server to server. With queue groups, this is partly an expected value."""

    @property
    def fan_out(self) -> float:
        """Deliveries per message."""
        return (self.plain_deliveries + self.queue_deliveries) / max(1, self.messages)


@dataclass(frozen=True)
class ServerLoad:
    """The load of one server. With queue groups, parts of it are expected values."""

    server: int
    clients: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    routed_in: int
    routed_out: int
    peak_in_msgs_per_s: float
    """Average rate over the busiest window."""


@dataclass(frozen=True)
class SubjectFanOut:
    """The fan-out of the subjects with one prefix."""

    prefix: str
    messages: int
    deliveries: int


@dataclass(frozen=True)
class PlanOutcome:
    """The outcome of a change."""

    totals: PlanTotals
    servers: Sequence[ServerLoad]
    prefixes: Sequence[SubjectFanOut]


def plan(
    lake: "Lake",
    change: Change,
    *,
    strategy: Strategy = "auto",
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS,
    window_s: int = 60,
    prefix_tokens: int = 2,
) -> PlanOutcome:
    """Return the outcome of the recorded traffic of a lake after `change`."""
    sessions = lake.read("silver/sessions")
    flows = proposed_flows(lake.read("silver/traffic"), sessions, change).localCheckpoint()
    subscriptions = proposed_subscriptions(
        lake.read("silver/subscriptions"), change, _span(flows)
    ).localCheckpoint()
    reached = deliveries(flows, subscriptions, strategy, broadcast_max_patterns).localCheckpoint()
    return PlanOutcome(
        _totals(flows, reached),
        _server_loads(flows, subscriptions, reached, change.servers, window_s),
        _prefixes(flows, reached, prefix_tokens),
    )


def proposed_flows(traffic: "DataFrame", sessions: "DataFrame", change: Change) -> "DataFrame":
    """Return the traffic as it would be published, with a row for each account that gets it.

    `home` is the publisher's server. If a second account shares a flow, its rows have the same
    `flow`, and `is_copy` is true for all except the first.
    """
    names = sessions.groupBy("server", "account", "cid").agg(
        sf.max_by("client_name", "connected").alias("client_name")
    )
    flows = traffic.join(names, ["server", "account", "cid"], "left").select(
        sf.monotonically_increasing_id().alias("flow"),
        "account",
        sf.coalesce("client_name", sf.lit("")).alias("client_name"),
        "subject",
        _home(change.servers).alias("home"),
        *("messages", "bytes", "window_start", "first_time", "last_time"),
        sf.lit(False).alias("is_copy"),
    )
    for removed in change.remove:
        if removed.subject is None:
            flows = flows.where(~_is_of(removed))
    if change.split:
        # The number of a flow must be the same in all of its copies.
        flows = flows.localCheckpoint()
    for mapped in change.mapping:
        rewritten = _rewrite_column(mapped.rule)
        applies = sf.col("account") == mapped.account
        subject = sf.when(applies, sf.coalesce(rewritten, "subject")).otherwise(sf.col("subject"))
        flows = flows.withColumn("subject", subject)
    for split in change.split:
        flows = _split_flows(flows, split)
    return flows


def proposed_subscriptions(
    subscriptions: "DataFrame", change: Change, span: tuple[Any, Any]
) -> "DataFrame":
    """Return the proposed subscriptions; added ones exist during `span`."""
    kept = subscriptions.select(
        "account",
        sf.coalesce("client_name", sf.lit("")).alias("client_name"),
        sf.concat_ws("/", "server", "cid").alias("client"),
        "pattern",
        "queue",
        "since",
        "until",
        _home(change.servers).alias("at"),
    )
    for removed in change.remove:
        goes = _is_of(removed)
        if removed.subject is not None:
            goes = goes & (sf.col("pattern") == removed.subject)
        kept = kept.where(~goes)
    for split in change.split:
        kept = kept.withColumn("account", _account_after(split))
    rows = [
        (
            added.account,
            added.client,
            f"added/{number}",
            added.subject,
            added.queue,
            *span,
            number % change.servers,
        )
        for number, added in enumerate(one for one in change.add for _ in range(one.copies))
    ]
    if not rows:
        return kept
    return kept.unionByName(subscriptions.sparkSession.createDataFrame(rows, kept.schema))


def deliveries(
    flows: "DataFrame",
    subscriptions: "DataFrame",
    strategy: Strategy = "auto",
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS,
) -> "DataFrame":
    """Return a row for every flow and subscription that it reaches, with its `share` of the flow.

    The share is 1 for a plain subscription. In a queue group, each possible receiver has an equal
    share: the members on the flow's own server, or all members if that server has none.
    """
    subjects = flows.select("account", "subject").distinct()
    patterns = subscriptions.select("account", "pattern").distinct()
    pairs = match(
        subjects,
        patterns,
        strategy=strategy,
        scope=["account"],
        broadcast_max_patterns=broadcast_max_patterns,
    )
    met = (
        flows.select(*_FLOW)
        .join(pairs, ["account", "subject"])
        .join(subscriptions.drop("client_name"), ["account", "pattern"])
        .where("since <= last_time AND (until IS NULL OR until >= first_time)")
        .withColumn("is_local", sf.col("at") == sf.col("home"))
    )
    group = ("flow", "account", "queue")
    sizes = (
        met.where("queue IS NOT NULL")
        .groupBy(*group)
        .agg(sf.count("*").alias("members"), sf.sum(sf.col("is_local").cast("int")).alias("local"))
    )
    plain = met.where("queue IS NULL").withColumn("share", sf.lit(1.0))
    chosen = (
        met.join(sizes, list(group))
        .where("is_local OR local = 0")
        .withColumn(
            "share",
            1.0 / sf.when(sf.col("local") > 0, sf.col("local")).otherwise(sf.col("members")),
        )
        .drop("members", "local")
    )
    return plain.unionByName(chosen)


def _is_of(removed: Removed) -> "Column":
    """Return the condition that a row belongs to a client that the entry names."""
    named = sf.col("client_name").rlike(removed.name_pattern)
    return named if removed.account is None else named & (sf.col("account") == removed.account)


def _split_flows(flows: "DataFrame", split: Split) -> "DataFrame":
    """Move the flows of the moving clients; copy shared flows to both accounts."""
    moves = _moves(split)
    moved = flows.withColumn("account", _account_after(split))
    if not split.shared:
        return moved
    pattern = "|".join(f"(?:{_subject_regex(subject)})" for subject in split.shared)
    is_either_side = sf.col("account").isin(split.account, split.into)
    is_new_side = moves | (sf.col("account") == split.into)
    other_side = sf.when(is_new_side, sf.lit(split.account)).otherwise(sf.lit(split.into))
    copies = (
        flows.where(is_either_side & sf.col("subject").rlike(pattern))
        .withColumn("account", other_side)
        .withColumn("is_copy", sf.lit(True))
    )
    return moved.unionByName(copies)


def _moves(split: Split) -> "Column":
    return (sf.col("account") == split.account) & sf.col("client_name").rlike(split.name_pattern)


def _account_after(split: Split) -> "Column":
    return sf.when(_moves(split), sf.lit(split.into)).otherwise(sf.col("account"))


def _home(servers: int) -> "Column":
    """Place a client on a server by a hash of its identifying columns."""
    return sf.pmod(sf.xxhash64("server", "cid"), sf.lit(servers)).cast("int")


def _rewrite_column(rule: Rewrite) -> "Column":
    rewrite = sf.udf(lambda subject: rule.apply(subject), "string", useArrow=False)
    return rewrite("subject")


def _subject_regex(pattern: str) -> str:
    """Return a subject pattern as a regular expression that Java knows."""
    tokens = [
        r"[^.]+" if token == "*" else r"\Q" + token.replace(r"\E", r"\E\\E\Q") + r"\E"
        for token in pattern.split(".")
    ]
    if pattern.rsplit(".", maxsplit=1)[-1] == ">":
        tokens[-1] = ".+"
    return "^" + r"\.".join(tokens) + "$"


def _span(flows: "DataFrame") -> tuple[Any, Any]:
    row = flows.agg(sf.min("first_time"), sf.max("last_time")).first()
    return (row[0], row[1]) if row else (None, None)


def _totals(flows: "DataFrame", reached: "DataFrame") -> PlanTotals:
    sent = flows.where("NOT is_copy").agg(sf.sum("messages"), sf.sum("bytes")).first()
    per_flow = reached.groupBy("flow").agg(sf.first("messages").alias("messages"))
    heard = per_flow.agg(sf.sum("messages")).first()
    # A queue group counts once per flow and account, however its members share the flow.
    weight = sf.col("share") * sf.col("messages")
    is_plain = sf.col("queue").isNull()
    done = reached.agg(
        sf.sum(sf.when(is_plain, weight)),
        sf.sum(sf.when(~is_plain, weight)),
        sf.sum(sf.col("share") * sf.col("bytes")),
    ).first()
    crossings = _crossings(reached).agg(sf.sum("crossing")).first()
    messages, size = (int(value or 0) for value in sent)
    plain, queued, delivered = (round(value or 0) for value in done)
    unheard = messages - int(heard[0] or 0)
    crossed = round(crossings[0] or 0)
    return PlanTotals(messages, size, plain, queued, delivered, unheard, crossed)


def _crossings(reached: "DataFrame") -> "DataFrame":
    """Return the number of messages of a flow that cross from its home to each other server."""
    return (
        reached.where("NOT is_local")
        .groupBy("flow", "home", "at")
        .agg((sf.least(sf.sum("share"), sf.lit(1.0)) * sf.first("messages")).alias("crossing"))
    )


def _server_loads(
    flows: "DataFrame",
    subscriptions: "DataFrame",
    reached: "DataFrame",
    servers: int,
    window_s: int,
) -> list[ServerLoad]:
    published = flows.where("NOT is_copy")
    inward = _by(published.groupBy("home").agg(sf.sum("messages"), sf.sum("bytes")))
    share = sf.col("share")
    outward = _by(
        reached.groupBy("at").agg(
            sf.sum(share * sf.col("messages")), sf.sum(share * sf.col("bytes"))
        )
    )
    crossings = _crossings(reached)
    arriving = _by(crossings.groupBy("at").agg(sf.sum("crossing")))
    leaving = _by(crossings.groupBy("home").agg(sf.sum("crossing")))
    windows = published.groupBy("home", "window_start").agg(sf.sum("messages").alias("messages"))
    peaks = _by(windows.groupBy("home").agg(sf.max("messages") / window_s))
    clients = _by(subscriptions.groupBy("at").agg(sf.count_distinct("client")))
    return [
        ServerLoad(
            server,
            *(
                round(value)
                for counts, none in (
                    (clients, (0,)),
                    (inward, (0, 0)),
                    (outward, (0, 0)),
                    (arriving, (0,)),
                    (leaving, (0,)),
                )
                for value in counts.get(server, none)
            ),
            *peaks.get(server, (0.0,)),
        )
        for server in range(servers)
    ]


def _by(frame: "DataFrame") -> dict[int, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in frame.collect()}


def _prefixes(flows: "DataFrame", reached: "DataFrame", tokens: int) -> list[SubjectFanOut]:
    prefix = prefix_column(sf.col("subject"), tokens).alias("prefix")
    sent = flows.where("NOT is_copy").groupBy(prefix).agg(sf.sum("messages").alias("messages"))
    got = reached.groupBy(prefix).agg(
        sf.round(sf.sum(sf.col("share") * sf.col("messages"))).cast("long").alias("deliveries")
    )
    rows = sent.join(got, "prefix", "left").orderBy(sf.desc("messages"), "prefix").collect()
    return [SubjectFanOut(row.prefix, row.messages, row.deliveries or 0) for row in rows]
