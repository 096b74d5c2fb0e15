"""Read a stream's table together with the messages that are not in it yet."""

import pyarrow.dataset as ds

from midge.client.errors import DataLossError
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.delta import StreamTable
from midge.pipeline.tables.landing import (
    Server,
    options_of,
    read_rows,
    same_stream,
    stream_state,
)


def scan(url: str, server: Server | None = "nats://127.0.0.1:4222") -> ds.Dataset:
    """Return the table at `url` and the later messages of its stream as one Arrow dataset.

    Each message that was acknowledged before the call is in it once, whatever a writer of the
    table does meanwhile. Rows up to the table's position come from its files, the rest is read from
    the stream and held in memory. Without a `server`, the table alone.

    Raises:
        ServerError: the server cannot be reached.
        TableError: there is no such table, or its stream was deleted and made again.
    """
    table = StreamTable(url)
    if server is None:
        return table.handle.to_pyarrow_dataset()
    options = options_of(table, server)
    decoder = Decoder(table.source.columns)
    end = stream_state(options).end_seq
    while True:
        # The state before the position: a message that the stream lost is in the table, or nowhere.
        state = same_stream(table, stream_state(options))
        table.reload()
        wanted = SequenceRange(max(table.position + 1, state.first_seq), end)
        try:
            rows = read_rows(options, state.created, wanted, decoder)
            break
        except DataLossError:
            continue
    landed = table.handle.to_pyarrow_dataset()
    return ds.dataset([landed, ds.dataset(rows.cast(landed.schema))])
