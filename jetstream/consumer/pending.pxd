cimport cython

cdef int DELAYED, NOWHERE, QUEUED
cdef dict _NO_ENTRIES


@cython.final
@cython.no_gc
cdef class Entry:
    cdef readonly unsigned long long seq, consumer_seq
    cdef public long long sent_ns
    cdef readonly long long due_ns
    cdef readonly int line
    cdef readonly Entry before, after, earlier, later


@cython.final
@cython.no_gc
cdef class Line:
    cdef public long long wait_ns
    cdef readonly Entry first, last

    cdef void append(self, Entry entry) noexcept
    cdef void prepend(self, Entry entry) noexcept
    cdef void remove(self, Entry entry) noexcept


@cython.final
@cython.no_gc
cdef class Pending:
    cdef readonly dict entries
    cdef readonly Entry first, last
    cdef list _waits_ns, _lines, _delayed
    cdef Line _queue
    cdef readonly Py_ssize_t queued

    cpdef Entry get(self, unsigned long long seq)
    @cython.locals(entry=Entry, before=Entry)
    cpdef Entry add(self, unsigned long long seq, unsigned long long consumer_seq)
    cpdef void remove(self, Entry entry) except *
    @cython.locals(entries=dict)
    cpdef void clear(self, object call_later=*) except *
    @cython.locals(lines=list, last=Py_ssize_t, place=Py_ssize_t, line=Line)
    cpdef long long wait(self, Entry entry, long long now_ns, Py_ssize_t redeliveries) except *
    cpdef void wait_until(self, Entry entry, long long due_ns) except *
    @cython.locals(line=Line)
    cpdef void stop_waiting(self, Entry entry) except *
    cpdef void enqueue(self, Entry entry) except *
    cpdef void enqueue_first(self, Entry entry) except *
    @cython.locals(entry=Entry)
    cpdef unsigned long long next_queued(self) except? 0
    @cython.locals(entry=Entry)
    cpdef Entry take_queued(self)
    cpdef bint is_queued(self, Entry entry) except -1
    @cython.locals(last=Py_ssize_t)
    cpdef long long wait_ns(self, Py_ssize_t redeliveries) except *
    @cython.locals(line=Line, entry=Entry)
    cpdef void set_waits(self, list waits_ns) except *
    @cython.locals(line=Line, entry=Entry, due_ns="long long")
    cpdef long long next_due_ns(self) except *
    @cython.locals(line=Line, entry=Entry, later=Entry)
    cpdef list take_due(self, long long now_ns, Py_ssize_t most)
    cdef void _drop_stale(self) except *
    cdef void _link(self, Entry entry, Entry before) noexcept


@cython.locals(entry=Entry, left=Py_ssize_t)
cpdef void unlink(dict entries, object call_later) except *
