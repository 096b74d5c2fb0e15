cimport cython

from midge.protocol cimport digits, memory

cdef Py_ssize_t _FIRST_SIZE, _NUMBER_SIZE, _ESCAPED_SIZE
cdef long long _SECOND_NS
cdef unsigned char _COMMA, _QUOTE, _OPENING, _BACKSLASH, _BLANK, _LAST_PLAIN, _LESS, _GREATER
cdef unsigned char _AND, _ZERO, _DOT
cdef bytes _ESCAPED_LESS, _ESCAPED_GREATER, _ESCAPED_AND, _MINUS_ONE, _TRUE, _END_OF_TIME


@cython.final
cdef class ObjectWriter:
    cdef bytearray _data
    cdef Py_ssize_t _end
    cdef long long _second
    cdef bytes _second_text
    cdef readonly bint is_plain

    cpdef void begin(self, bytes head) except *
    cpdef bytes written(self)
    cpdef void literal(self, bytes text) except *
    cpdef void name(self, bytes name) except *
    cpdef void text(self, bytes name, str value) except *
    cpdef void text_always(self, bytes name, str value) except *
    @cython.locals(data="unsigned char *", end=Py_ssize_t, byte="unsigned char", escaped=bytes)
    cpdef void bytes_always(self, bytes name, bytes value) except *
    cpdef void number(self, bytes name, long long value) except *
    cpdef void number_always(self, bytes name, long long value) except *
    cpdef void count(self, bytes name, unsigned long long value) except *
    cpdef void count_always(self, bytes name, unsigned long long value) except *
    cpdef void flag(self, bytes name, bint value) except *
    cpdef void value(self, bytes name, object value) except *
    @cython.locals(data="unsigned char *", end=Py_ssize_t, second="long long", rest="long long")
    cpdef void time_always(self, bytes name, long long time_ns) except *
    cdef void _make_room(self, Py_ssize_t size) except *
