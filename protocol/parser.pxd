# C types for parser.py: what makes its byte loops compile to plain C.

cimport cython

from midge.protocol cimport lines, memory
from midge.protocol.stream_parser cimport parse_size, split_arguments
from midge.protocol.frame cimport Frame, rewritten
from midge.protocol.stream_parser cimport StreamParser

cdef int _TAB, _LF, _CR, _SPACE, _PLAIN_LINE_MIN, _REPLY_AND_SIZE_MIN
cdef int _NO_VERB, _PUB, _HPUB, _SUB, _UNSUB, _CONNECT, _INFO, _ERR, _PING, _PONG, _OK
cdef tuple _WORDS
cdef bytes _PUB_WORD


cdef class Parser(StreamParser):
    cdef public Py_ssize_t max_control_line
    cdef public bint headers
    cdef dict _costs
    cdef Py_ssize_t _publish_cost, _run_cost
    cdef Frame _frame
    cdef bint _repeatable
    cdef int _verb, _ignoring

    @cython.locals(data="const unsigned char *", frame=Frame, position=Py_ssize_t, after=Py_ssize_t,
                   longest_run=Py_ssize_t, count=Py_ssize_t, taken=Py_ssize_t)
    cpdef Py_ssize_t feed(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end) except -1

    @cython.final
    cdef bint _charge(self, Py_ssize_t cost_bytes) except -1

    cpdef void forget_buffer(self) except *

    @cython.final
    @cython.locals(frame=Frame, length=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t _count_repeats(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most
    ) except -1

    @cython.final
    @cython.locals(position=Py_ssize_t, subject_end=Py_ssize_t, reply_start=Py_ssize_t,
                   reply_end=Py_ssize_t, size_start=Py_ssize_t, found=Py_ssize_t, size=Py_ssize_t,
                   body=Py_ssize_t, after=Py_ssize_t, frame=Frame)
    cdef Py_ssize_t _plain_publish(
        self, const unsigned char *data, Py_ssize_t line, Py_ssize_t end
    ) except -2

    @cython.locals(verb=int, position=Py_ssize_t)
    cdef Py_ssize_t _command(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2

    @cython.final
    @cython.locals(after=Py_ssize_t)
    cdef Py_ssize_t _after_verb(
        self, int verb, const unsigned char *data, Py_ssize_t line, Py_ssize_t start,
        Py_ssize_t end
    ) except -2

    @cython.final
    @cython.locals(byte=int, verb=int, word=bytes, i=Py_ssize_t)
    cdef int _expected_verb(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -1

    @cython.final
    @cython.locals(line_feed=Py_ssize_t, verb=int)
    cdef Py_ssize_t _ignore_line(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2

    @cython.final
    @cython.locals(line_feed=Py_ssize_t, stop=Py_ssize_t, arguments=bytes)
    cdef Py_ssize_t _arguments(
        self, int verb, const unsigned char *data, Py_ssize_t line, Py_ssize_t start,
        Py_ssize_t end
    ) except -2

    @cython.final
    cdef Py_ssize_t _cost_of(self, int verb) except -1

    @cython.final
    cdef void _check_control_line(self, Py_ssize_t length) except *

    @cython.final
    @cython.locals(count=int, first_start=Py_ssize_t, first_end=Py_ssize_t,
                   second_start=Py_ssize_t, second_end=Py_ssize_t,
                   third_start=Py_ssize_t, third_end=Py_ssize_t,
                   fourth_start=Py_ssize_t, fourth_end=Py_ssize_t,
                   canonical=bint, position=Py_ssize_t, byte=int, token=Py_ssize_t,
                   header_size=Py_ssize_t, tail=Py_ssize_t, size=Py_ssize_t,
                   after=Py_ssize_t, frame=Frame)
    cdef Py_ssize_t _publish(
        self, bint with_headers, const unsigned char *data, Py_ssize_t line, Py_ssize_t start,
        Py_ssize_t stop, Py_ssize_t body, Py_ssize_t end
    ) except -2

    @cython.final
    cdef Py_ssize_t _after_payload(
        self, const unsigned char *data, Py_ssize_t payload_end, Py_ssize_t end
    ) except -2

    @cython.final
    @cython.locals(tokens=list)
    cdef void _subscribe(self, bytes arguments) except *

    @cython.final
    @cython.locals(tokens=list, limit=bytes)
    cdef void _unsubscribe(self, bytes arguments) except *
