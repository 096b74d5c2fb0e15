"""The cost of each command in the unit that work is counted in: the time to copy one byte.

Some 1.6 MiB are copied in a millisecond. A command costs its bytes plus the constant of its verb,
which covers the least work that its handler does; the handler adds any further work. The constants
are measured (`tests/unit/server/clients/test_costs.py` measures them again), once with compiled
modules and once interpreted, and rounded up: a client that is charged too much only waits a little
sooner while others are busy, but one that is charged too little makes the others wait.
"""

RUN = b"run"
"""A run of publishes that repeat one control line: charged once, whatever its length."""

RUN_LINE = b"run line"
"""Each message of a run, for comparing it with the first. Compiled, the charge for bytes covers it.
"""

COMPILED_COSTS = {
    b"PUB": 192,
    b"HPUB": 256,
    b"SUB": 4096,
    b"UNSUB": 2048,
    b"CONNECT": 16384,
    b"INFO": 4096,
    b"-ERR": 1024,
    b"PING": 256,
    b"PONG": 256,
    b"+OK": 64,
    RUN: 256,
    RUN_LINE: 0,
}
"""In the compiled build."""

INTERPRETED_COSTS = {
    b"PUB": 16384,
    b"HPUB": 16384,
    b"SUB": 32768,
    b"UNSUB": 16384,
    b"CONNECT": 65536,
    b"INFO": 16384,
    b"-ERR": 4096,
    b"PING": 8192,
    b"PONG": 8192,
    b"+OK": 4096,
    RUN: 16384,
    RUN_LINE: 512,
}
"""In the interpreted build."""
