cimport cython

from midge.jetstream.config cimport consumer as configuration
from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_tracker cimport AckTracker
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.consumer.receivers cimport Receivers
from midge.jetstream.json.object_writer cimport ObjectWriter

cdef ObjectWriter _out


@cython.locals(acks=AckTracker, receivers=Receivers, config=ConsumerConfig, out=ObjectWriter,
               consumer_seq="unsigned long long", seq="unsigned long long")
cpdef bytes written_report(Consumer consumer, bytes head)

cdef void _write_sequence(
    ObjectWriter out, bytes name, unsigned long long consumer_seq, unsigned long long stream_seq,
    long long last_active_ns
) except *
