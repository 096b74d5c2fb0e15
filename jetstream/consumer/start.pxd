# C types for start.py.

cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.store.store cimport Store


@cython.final
cdef class Start:
    cdef readonly unsigned long long seq
    cdef readonly unsigned long long last_per_subject_upto


@cython.locals(start=Start, first="unsigned long long", last="unsigned long long",
               seq="unsigned long long")
cpdef Start start_of(ConsumerConfig config, Store store, long long max_msgs_per_subject)

@cython.locals(policy=str)
cdef Start _chosen(ConsumerConfig config, Store store, long long max_msgs_per_subject)
