cimport cython

from midge.jetstream.store cimport numbers, removing
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.file_store cimport FileStore, StoredConsumers
from midge.jetstream.store.file.record_writer cimport RecordWriter
from midge.jetstream.store.indexes cimport AppendedMessage, Run

cdef Py_ssize_t _HEAD
cdef int _MESSAGE

@cython.locals(kind=int, seq="unsigned long long", end=Py_ssize_t, position=Py_ssize_t,
               time_ns="long long", subject=bytes)
cpdef void replay(
    FileStore store, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
) except *
cpdef void lose(FileStore store, unsigned long long seq, Segment segment) except *
cpdef void lose_through(FileStore store, unsigned long long last_seq) except *
cpdef set finish(FileStore store)
@cython.locals(notes=RecordWriter)
cpdef void reset(FileStore store) except *
cpdef Py_ssize_t index_size(FileStore store) except -1
@cython.locals(stored=StoredConsumers, notes=RecordWriter)
cpdef Py_ssize_t copied_size(FileStore store) except -1
@cython.locals(stored=StoredConsumers, notes=RecordWriter, run=Run)
cpdef void save(FileStore store, object out) except *
@cython.locals(stored=StoredConsumers, notes=RecordWriter, run=Run, live=Py_ssize_t,
               live_bytes="unsigned long long", found_live=Py_ssize_t)
cpdef void restore(FileStore store, object source, object segments) except *
@cython.locals(seq="unsigned long long", kind="unsigned int", extra=Py_ssize_t,
               end=Py_ssize_t, incoming=AppendedMessage, headers=Py_ssize_t, size=Py_ssize_t)
cdef void _replay_message(
    FileStore store, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
) except *
cdef void _replay_bounds(
    FileStore store, unsigned long long first_seq, unsigned long long last_seq
) except *
cdef void _replay_config(FileStore store, unsigned long long version, bytes body) except *
cdef void _replay_consumer(
    FileStore store, int kind, unsigned long long seq, bytes body, Segment segment
) except *
cdef void _forget(FileStore store, unsigned long long seq) except *
