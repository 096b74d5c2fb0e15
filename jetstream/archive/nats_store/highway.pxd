cimport cython

from midge.jetstream.store cimport numbers

cdef unsigned long long _MASK, _LOW, _BYTE_1, _BYTE_2, _BYTE_3, _BYTE_4, _BYTE_5, _BYTE_6, _BYTE_7
cdef Py_ssize_t _V0, _V1, _MUL0, _MUL1, _PACKET, _FINAL_ROUNDS


@cython.final
cdef class HighwayHash:
    cdef bytearray _initial, _state, _packet

    @cython.locals(packet=bytearray, size=Py_ssize_t, at=Py_ssize_t, i=Py_ssize_t,
                   vector=Py_ssize_t, lane="unsigned long long", total="unsigned long long")
    cpdef unsigned long long digest(self, bytes data) except? 0
    @cython.locals(state=bytearray, i=Py_ssize_t, mul0="unsigned long long",
                   mul1="unsigned long long", v0="unsigned long long", v1="unsigned long long")
    cdef void _update(self) except *
    @cython.locals(state=bytearray, low="unsigned long long", high="unsigned long long",
                   one="unsigned long long", other="unsigned long long")
    cdef void _zip(self, Py_ssize_t source, Py_ssize_t target) except *
    @cython.locals(state=bytearray, packet=bytearray, i=Py_ssize_t, lane="unsigned long long",
                   low="unsigned long long", high="unsigned long long", whole=Py_ssize_t,
                   left=Py_ssize_t, end=Py_ssize_t)
    cdef void _rest(self, bytes data, Py_ssize_t at, Py_ssize_t size) except *
