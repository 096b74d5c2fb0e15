# C types for real_ticks.py.

from midge.jetstream.environment.ticks cimport Ticks
from midge.server.clients cimport real_time


cdef class RealTicks(Ticks):
    pass
