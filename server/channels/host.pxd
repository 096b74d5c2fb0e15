from midge.protocol.inbound cimport SharedBuffer
from midge.server cimport clock as machine_clock
from midge.server.channels.busy_poll cimport BusyPoll
from midge.server.channels.fair_turns cimport CloseQueue, FairTurns
from midge.server.routing.outbound cimport ChunkPool
from midge.server.routing.router cimport Router


cdef class Host:
    cdef public object options
    cdef readonly object clock, random
    cdef readonly Router router
    cdef public FairTurns turns
    cdef readonly CloseQueue close_queue
    cdef public SharedBuffer shared_buffer
    cdef readonly ChunkPool chunks
    cdef readonly set finishing, surplus
    cdef public object limit_hits
    cdef public BusyPoll busy_poll
    cdef public object ready_sockets
    cdef public long long stalled_clients
    cdef bint _has_real_time

    cdef double now(self) except? -1
