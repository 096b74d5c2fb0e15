# C types for counting.py.

cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.message_index cimport Block, MessageIndex

cdef int _WANTED


@cython.locals(count="unsigned long long", i=Py_ssize_t, block=Block, first="unsigned long long",
               low=Py_ssize_t, high=Py_ssize_t, rows=bytearray, position=Py_ssize_t,
               limit=Py_ssize_t, subject=Py_ssize_t)
cpdef unsigned long long count_wanted(
    MessageIndex index, bytearray noted, unsigned long long start, unsigned long long end
) except? 0
@cython.locals(number="unsigned long long", i=Py_ssize_t, block=Block, place=Py_ssize_t)
cpdef unsigned long long next_missing(
    MessageIndex index, unsigned long long seq, unsigned long long last
) except? 0
@cython.locals(i=Py_ssize_t, block=Block, place=Py_ssize_t)
cpdef unsigned long long seq_number(MessageIndex index, unsigned long long count) except? 0
