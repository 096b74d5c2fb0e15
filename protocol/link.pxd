cimport cython

from midge.protocol cimport memory
from midge.protocol.stream_parser cimport parse_size, split_arguments
from midge.protocol.frame cimport Frame, compose
from midge.protocol.handler cimport Handler
from midge.protocol.parser cimport Parser

cdef int _LF, _CR, _SPACE, _UPPER_CASE, _UNUSUAL, _WITHOUT_REPLY
cdef int _A, _B, _H, _I, _L, _N, _R, _S, _U, _ARGUMENTS, _WITH_ACCOUNT
cdef Py_ssize_t _LINE_MAX, _VERB_BYTES, _HEAD
cdef Py_ssize_t _SUBSCRIBE_COST, _UNSUBSCRIBE_COST, _MESSAGE_COST, _PER_QUEUE_COST
cdef Py_ssize_t _BLOCK_COST, _PER_MESSAGE_COST
cdef bytes _VERB


cdef class BlockHandler:
    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *


cdef class LinkParser(Parser):
    cdef readonly bytes account, announced, origin
    cdef readonly list queues
    cdef public BlockHandler blocks
    cdef bint _is_route, _is_worker
    cdef int _letter
    cdef bint _has_account

    cpdef void dedicate(self, bytes account) except *
    cdef bint _speaks(self, int byte) except -1

    @cython.locals(after=Py_ssize_t)
    cdef Py_ssize_t _command(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2

    @cython.locals(first=Py_ssize_t, after=Py_ssize_t, count=Py_ssize_t, number=Py_ssize_t,
                   size=Py_ssize_t)
    cdef Py_ssize_t _block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2

    @cython.locals(with_headers=bint, has_reply=bint, count=int, position=Py_ssize_t,
                   token=Py_ssize_t, account_start=Py_ssize_t,
                   first_start=Py_ssize_t, first_end=Py_ssize_t,
                   second_start=Py_ssize_t, second_end=Py_ssize_t,
                   third_start=Py_ssize_t, third_end=Py_ssize_t,
                   fourth_start=Py_ssize_t, fourth_end=Py_ssize_t,
                   body=Py_ssize_t, header_size=Py_ssize_t, size=Py_ssize_t,
                   after=Py_ssize_t, frame=Frame)
    cdef Py_ssize_t _plain_message(
        self, const unsigned char *data, Py_ssize_t line, Py_ssize_t end
    ) except -2

    @cython.locals(after=Py_ssize_t, known=list, frame=Frame)
    cdef Py_ssize_t _for_queue(
        self, const unsigned char *data, Py_ssize_t line, Py_ssize_t queue, Py_ssize_t tail,
        Py_ssize_t body, Py_ssize_t size, Py_ssize_t end
    ) except -2

    @cython.locals(known=bytes)
    cdef bint _note_account(  # `except *` would take a call after each message
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -1

    @cython.locals(line_feed=Py_ssize_t, stop=Py_ssize_t, line=bytes)
    cdef Py_ssize_t _line(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2

    @cython.locals(verb=bytes)
    cdef Py_ssize_t _take_line(
        self, list tokens, const unsigned char *data, Py_ssize_t start, Py_ssize_t body,
        Py_ssize_t end
    ) except -2
    @cython.locals(after=Py_ssize_t)
    cdef Py_ssize_t _take_route_line(
        self, bytes verb, list tokens, const unsigned char *data, Py_ssize_t start,
        Py_ssize_t body, Py_ssize_t end
    ) except -2
    cdef list _named(self, list tokens)
    @cython.locals(origin=bytes)
    cdef list _named_with_origin(self, list tokens)
    cdef void _begin_numbered(self, list tokens) except *

    @cython.locals(count=int, weight=bytes)
    cdef void _begin_interest(self, list tokens) except *
    @cython.locals(count=int)
    cdef void _end_interest(self, list tokens) except *

    @cython.locals(reply=bytes, queues=list, size=Py_ssize_t, header_size=Py_ssize_t,
                   after=Py_ssize_t, headers=bytes, payload=bytes, frame=Frame, last=bytes)
    cdef Py_ssize_t _message(
        self, list tokens, int sizes, const unsigned char *data, Py_ssize_t start,
        Py_ssize_t body, Py_ssize_t end
    ) except -2


cdef Py_ssize_t _number_at(const unsigned char *data, Py_ssize_t at) except -1
