cimport cython

from midge.protocol cimport memory

cdef int _TEXT, _WORD, _NUMBER, _FLAG, _OBJECT, _DIGITS_MAX
cdef unsigned char _QUOTE, _BACKSLASH, _BLANK, _DEL, _COMMA, _TAB, _LF, _CR, _COLON, _OPENING
cdef unsigned char _CLOSING, _MINUS, _ZERO, _NINE, _FIRST_OF_TRUE
cdef bytes _TRUE, _FALSE
cdef Py_ssize_t _UNFIT


@cython.final
cdef class _Member:
    cdef bytes name
    cdef _Member after
    cdef str attribute
    cdef unsigned long long bit
    cdef int kind
    cdef bint is_signed
    cdef dict words
    cdef FlatReader reader


@cython.final
cdef class FlatReader:
    cdef _Member _before
    cdef dict _members

    @cython.locals(size=Py_ssize_t, ended=bytes, at=Py_ssize_t)
    cpdef bint read(self, bytes data, object into) except -1
    @cython.locals(seen="unsigned long long", end=Py_ssize_t, member=_Member,
                   before=_Member)
    cdef Py_ssize_t read_object(
        self, const unsigned char *data, Py_ssize_t at, object into
    ) except -2

    @cython.locals(member=_Member)
    cdef _Member _member_named(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, _Member before
    )


@cython.locals(kind=int)
cdef Py_ssize_t _read_value(
    const unsigned char *data, Py_ssize_t at, _Member member, object into
) except -2

@cython.locals(word=bytes, byte="unsigned char")
cdef Py_ssize_t _read_flag(
    const unsigned char *data, Py_ssize_t at, _Member member, object into
) except -2

@cython.locals(end=Py_ssize_t, word=str)
cdef Py_ssize_t _read_text(
    const unsigned char *data, Py_ssize_t at, _Member member, object into
) except -2

@cython.locals(is_negative=bint, start=Py_ssize_t, value="long long", size=Py_ssize_t)
cdef Py_ssize_t _read_number(
    const unsigned char *data, Py_ssize_t at, _Member member, object into
) except -2

cdef Py_ssize_t _text_end(const unsigned char *data, Py_ssize_t at) noexcept

cdef Py_ssize_t _skip_blanks(const unsigned char *data, Py_ssize_t at) noexcept
