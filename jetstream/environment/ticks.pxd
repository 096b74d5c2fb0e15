cdef class Ticks:
    cpdef long long wall_ns(self) except? -1
    cpdef long long monotonic_ns(self) except? -1


cdef class AnyTicks(Ticks):
    cdef object _clock


cpdef Ticks ticks_of(object clock)
