from midge.jetstream.environment.ticks cimport Ticks
from midge.server cimport clock


cdef class RealTicks(Ticks):
    pass
