cimport cython

from midge.jetstream.archive.framing cimport S2Writer
from midge.jetstream.store cimport numbers
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store

cdef Py_ssize_t _MESSAGE_COST, _HEAD_MAX
cdef tuple _ALL


@cython.final
cdef class MessagePacker:
    cdef readonly unsigned long long at
    cdef readonly bint is_waiting, is_drained
    cdef Store _store
    cdef S2Writer _output
    cdef MessageView _view

    @cython.locals(spent=Py_ssize_t, found=int)
    cpdef Py_ssize_t run(self, unsigned long long upto, Py_ssize_t budget, object waiter) except -1
    @cython.locals(seq="unsigned long long")
    cdef bint _is_past_damaged(self, unsigned long long upto) except -1
    @cython.locals(subject_size=Py_ssize_t, headers_size=Py_ssize_t, payload_size=Py_ssize_t,
                   body_size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, block=bytearray,
                   time_ns="long long", size=Py_ssize_t)
    cdef Py_ssize_t _put(self, MessageView view) except -1


cdef Py_ssize_t _put_number(unsigned char *block, Py_ssize_t at, unsigned long long value) noexcept
