"""Gold by hand: each table of a recording in DuckDB's SQL, straight from the recorded rows.

It shares nothing with the lake: it matches each message with each subscription by a pattern.
"""

from datetime import datetime

import duckdb
from deltalake import DeltaTable

from midge.pipeline.lake.tables import GOLD

_VIEWS = """
CREATE VIEW traffic AS SELECT *,
    plain_deliveries + queue_deliveries AS deliveries,
    plain_deliveries + queue_deliveries > 0 OR no_interest AS counted,
    CASE WHEN subject LIKE '\\_INBOX.%' ESCAPE '\\' THEN '_INBOX.>'
         WHEN length(subject) - length(replace(subject, '.', '')) < 2 THEN subject
         ELSE split_part(subject, '.', 1) || '.' || split_part(subject, '.', 2) || '.>'
    END AS prefix,
    date_trunc('minute', time) AS minute
  FROM messages;
CREATE VIEW sessions AS SELECT * FROM (
    SELECT *, lead(time) OVER w AS ended, lead(event) OVER w AS next_event,
           lead(reason) OVER w AS why,
           lead(out_msgs) OVER w AS got, lead(out_bytes) OVER w AS got_bytes
    FROM clients WINDOW w AS (PARTITION BY server, cid ORDER BY time, segment, file_row_number)
  ) WHERE event = 'connect';
CREATE VIEW subscriptions AS SELECT i.*, least(i.gone, s.ended) AS until FROM (
    SELECT *, lead(time) OVER w AS gone, lead(delivered) OVER w AS got
    FROM interest
    WINDOW w AS (PARTITION BY server, cid, sid ORDER BY time, segment, file_row_number)
  ) i JOIN sessions s ON i.server = s.server AND i.cid = s.cid WHERE i.event = 'sub';
CREATE TABLE met AS
  SELECT s.cid, s.client_name, s.sid, s.subject AS pattern, s.queue, s.time AS since,
    m.server, m.account, m.subject, m.time, m.segment, m.file_row_number
  FROM traffic m JOIN subscriptions s
    ON m.server = s.server AND m.account = s.account
   AND m.time BETWEEN s.time AND coalesce(s.until, m.time)
   AND regexp_full_match(m.subject,
         replace(replace(regexp_escape(s.subject), '\\*', '[^.]+'), '\\>', '.+'))
  WHERE NOT (m.cid = 0 AND coalesce(m.reply, '') LIKE '$JS.ACK.%');
"""

QUERIES = {
    "rates": """
        SELECT minute, account, prefix, count(*), sum(size), sum(deliveries) FILTER (counted),
               count(*) / 60, sum(size) / 60
        FROM traffic GROUP BY ALL""",
    "subjects": """
        SELECT account, subject, prefix, count(*) AS n, sum(size) AS b,
               sum(deliveries) FILTER (counted),
               nullif(count(DISTINCT (server, cid)) FILTER (counted OR cid <> 0), 0),
               min(time), max(time), row_number() OVER (ORDER BY n DESC, b DESC, account, subject)
        FROM traffic GROUP BY account, subject, prefix""",
    "talkers": """
        SELECT t.server, t.account, t.cid, any_value(c.name), count(DISTINCT subject),
               count(*) AS n, sum(size) AS b, sum(deliveries) FILTER (counted),
               row_number() OVER (ORDER BY n DESC, b DESC, t.server, t.account, t.cid)
        FROM traffic t LEFT JOIN
             (SELECT server, cid, arg_max(client_name, time) AS name FROM sessions GROUP BY ALL) c
             ON t.server = c.server AND t.cid = c.cid
        WHERE counted OR t.cid <> 0 GROUP BY t.server, t.account, t.cid""",
    "fan_out": """
        SELECT account, CASE WHEN counted THEN deliveries END, count(*) AS n, sum(size),
               n / sum(n) OVER (PARTITION BY account)
        FROM traffic GROUP BY 1, 2""",
    "no_interest": """
        SELECT account, subject, count(*) FILTER (no_interest), sum(size) FILTER (no_interest),
               count(*) FILTER (no_interest) / count(*), max(time) FILTER (no_interest)
        FROM traffic GROUP BY ALL HAVING bool_or(no_interest)""",
    "dead_subscriptions": """
        SELECT server, account, cid, sid, client_name, subject, queue, time, until,
               greatest(0, epoch_us(coalesce(until, (SELECT max(time) FROM messages), time))
                           - epoch_us(time)) / 1e6
        FROM subscriptions s ANTI JOIN met m
          ON s.cid = m.cid AND s.sid = m.sid AND s.time = m.since
        WHERE coalesce(got, 0) = 0""",
    "duplicate_subscriptions": """
        WITH copies AS (
          SELECT a.server, a.account, a.cid, a.client_name, a.pattern, a.segment, a.file_row_number,
                 list(DISTINCT b.pattern) AS others, count(*) + 1 AS copies
          FROM met a JOIN met b ON a.segment = b.segment AND a.file_row_number = b.file_row_number
           AND a.cid = b.cid AND (b.since, b.sid) < (a.since, a.sid)
          WHERE a.queue IS NULL AND b.queue IS NULL GROUP BY ALL)
        SELECT server, account, cid, client_name, pattern,
               list_aggregate(list_sort(list_distinct(flatten(list(others)))), 'string_agg', ', '),
               max(copies), count(*)
        FROM copies GROUP BY ALL""",
    "queue_balance": """
        SELECT server, account, subject, queue, cid, sid, client_name, count(*) OVER g,
               got, got / sum(got) OVER g, 1 / count(*) OVER g,
               got / sum(got) OVER g * count(*) OVER g
        FROM subscriptions WHERE queue IS NOT NULL AND got IS NOT NULL
        WINDOW g AS (PARTITION BY server, account, subject, queue)""",
    "disconnects": """
        SELECT server, account, why, count(*), count(DISTINCT cid),
               count(*) FILTER (why ILIKE 'slow consumer%'),
               avg(epoch_us(ended) - epoch_us(time)) / 1e6
        FROM sessions WHERE ended IS NOT NULL GROUP BY ALL""",
    "slow_consumers": """
        SELECT server, account, client_name, count(*), max(ended), arg_max(why, ended),
               sum(got), sum(got_bytes)
        FROM sessions WHERE why ILIKE 'slow consumer%' GROUP BY ALL""",
    "latency": """
        WITH answers AS (
          SELECT q.account, q.subject, a.prefix, q.reply, q.cid, q.time,
                 min(epoch_us(a.time) - epoch_us(q.time)) AS us, count(*) AS replies
          FROM traffic q JOIN traffic a ON q.account = a.account AND q.reply = a.subject
           AND a.time BETWEEN q.time AND q.time + INTERVAL 30 SECONDS
          GROUP BY ALL)
        SELECT account, subject, prefix, count(*), sum(replies), quantile_disc(us, 0.5),
               quantile_disc(us, 0.9), quantile_disc(us, 0.99), max(us)
        FROM answers GROUP BY ALL""",
    "consumers": """
        WITH acks AS (
          SELECT account, time, string_split(subject, '.') AS token FROM traffic
          WHERE subject LIKE '$JS.ACK.%')
        SELECT account, token[3], token[4], count(DISTINCT token[6]), count(*),
               count(DISTINCT token[7]) FILTER (token[5]::INT > 1), max(token[5]::INT),
               arg_max(token[9]::INT, token[7]::INT), max(token[9]::INT), max(token[6]::INT),
               max(time)
        FROM acks GROUP BY ALL""",
    "reconciliation": """
        SELECT server, account, recorded, matched, recorded - matched
        FROM (SELECT server, account, sum(plain_deliveries) AS recorded
              FROM traffic WHERE counted GROUP BY ALL),
             (SELECT count(*) AS matched FROM met WHERE queue IS NULL)""",
    "coverage": """
        SELECT server, account, count(*), count(*) FILTER (counted),
               (SELECT count(*) FROM subscriptions), (SELECT count(*) FROM sessions)
        FROM traffic GROUP BY ALL""",
}
"""Each query has its table's columns in their order; `late_data` is about the job's batches."""


def by_hand(records):
    """Return what DuckDB makes of a recording: rows by table."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for data_set in ("messages", "interest", "clients"):
            connection.execute(
                f"CREATE VIEW {data_set} AS SELECT * FROM read_parquet("
                f"'{records}/{data_set}/**/*.parquet', hive_partitioning = false,"
                " filename = 'segment', file_row_number = true)"
            )
        connection.execute(_VIEWS)
        return {name: connection.execute(query).fetchall() for name, query in QUERIES.items()}


def in_lake(lake):
    """Return the gold tables of a lake, as `by_hand` does."""
    found = {}
    for table in GOLD:
        rows = DeltaTable(f"{lake}/{table.name}").to_pyarrow_table().to_pydict()
        columns = [column.split()[0] for column in table.columns.split(", ")]
        found[table.name.removeprefix("gold/")] = list(
            zip(*(rows[name] for name in columns), strict=True)
        )
    return found


def plain(rows):
    """Return rows of either in one order, with rounded numbers and times without zone: UTC."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value):
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value if value is None or isinstance(value, str) else float(f"{float(value):.9g}")
