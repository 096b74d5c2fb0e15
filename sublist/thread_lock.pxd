# CPython's lock by its C calls; thread_lock.py has the contracts.

from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_release_lock, PyThread_type_lock,
)


cdef inline PyThread_type_lock make() except NULL:
    cdef PyThread_type_lock lock = PyThread_allocate_lock()
    if lock is NULL:
        raise MemoryError("no thread lock can be had")
    return lock


cdef inline void acquire(PyThread_type_lock lock) noexcept:
    if not PyThread_acquire_lock(lock, NOWAIT_LOCK):
        with nogil:
            PyThread_acquire_lock(lock, WAIT_LOCK)


cdef inline void release(PyThread_type_lock lock) noexcept:
    PyThread_release_lock(lock)


cdef inline void free(PyThread_type_lock lock) noexcept:
    if lock is not NULL:
        PyThread_free_lock(lock)
