"""Nothing that clients send breaks the core: parser, connections, router and SubList together.

`make test` runs a few hundred scripts of each kind; `make fuzz MINUTES=10` goes on for that long.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midge.server.config.options import (
    Authorization,
    Limits,
    Mapping,
    MappingDestination,
    Options,
    Permissions,
    Routing,
    SubjectPermissions,
    User,
)
from tests.fuzz.traffic import Script, scripts
from tests.fuzz.world import Splitter, World

BYTE_BY_BYTE_MAX = 3_000
"""Longer feeds are cut into small pieces instead: a byte a read would take seconds."""

LIMITS = Limits(max_payload_bytes=80_000, max_control_line_bytes=128, max_subscriptions=12)
OPEN = Options(limits=LIMITS)
GUARDED = Options(
    limits=LIMITS,
    authorization=Authorization(
        users=(
            User(user="u", password="p"),
            User(
                user="guest",
                password="g",
                permissions=Permissions(
                    publish=SubjectPermissions(deny=("deny.>", "c.*")),
                    subscribe=SubjectPermissions(allow=("a", "a.>", "> q", "b"), deny=("a.b.c",)),
                ),
            ),
        ),
        no_auth_user="guest",
    ),
    mappings=(
        Mapping(source="m.*", destinations=(MappingDestination(destination="a.{{wildcard(1)}}"),)),
    ),
)
TIGHT = Limits(
    max_payload_bytes=80_000,
    max_control_line_bytes=128,
    max_pending_bytes=6_000,
    write_deadline_s=5.0,
)
PRESSED = (
    Options(limits=TIGHT),
    Options(limits=TIGHT, routing=Routing(cache_max=2, cache_sweep_to=1)),
    Options(limits=TIGHT, routing=Routing(exact_match=False, queue_selection="random")),
    Options(
        limits=Limits(max_payload_bytes=80_000, max_pending_bytes=6_000, stall_producers=False)
    ),
)

IS_LONG = settings.get_current_profile_name() == "long"
FUZZ = settings(
    deadline=None,
    derandomize=not IS_LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""`make test` plays the same scripts each time; `make fuzz` draws others."""

READ_BYTES = st.sampled_from([64, 512, 4096])


def whole(data: bytes) -> Iterable[bytes]:
    return (data,)


def byte_by_byte(data: bytes) -> Iterable[bytes]:
    if len(data) > BYTE_BY_BYTE_MAX:
        return at_random(len(data))(data)
    return (data[i : i + 1] for i in range(len(data)))


def at_random(seed: int) -> Splitter:
    """Cut at random places, mostly close to one another, sometimes far apart."""
    random = Random(seed)

    def split(data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = random.choice((1, 2, 7, 30, 600, 30_000))
            yield data[at : at + size]
            at += size

    return split


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Log nothing: a fuzzed client is wrong all the time."""
    logger = logging.getLogger("midge")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@FUZZ
@given(
    script=scripts(with_pressure=False),
    options=st.sampled_from([OPEN, OPEN, GUARDED]),
    read_bytes=READ_BYTES,
    is_tls=st.booleans(),
    is_coalescing=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_split_changes_what_anybody_is_sent(
    script: Script,
    options: Options,
    read_bytes: int,
    is_tls: bool,
    is_coalescing: bool,
    seed: int,
) -> None:
    expected = World(options, read_bytes=read_bytes, is_tls=is_tls).play(script, whole)
    for split in (byte_by_byte, at_random(seed)):
        assert World(options, read_bytes=read_bytes, is_tls=is_tls).play(script, split) == expected
    # Without observers, equal messages are routed in runs.
    for split, size in ((whole, 1 << 18), (whole, read_bytes), (at_random(seed), read_bytes)):
        world = World(
            options,
            read_bytes=size,
            is_tls=is_tls,
            is_observed=False,
            is_coalescing=is_coalescing,
        )
        assert world.play(script, split) == expected


@FUZZ
@given(
    script=scripts(with_pressure=True),
    options=st.sampled_from(PRESSED),
    read_bytes=READ_BYTES,
    is_tls=st.booleans(),
    is_coalescing=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_who_reads_slowly_harms_nobody_else(
    script: Script,
    options: Options,
    read_bytes: int,
    is_tls: bool,
    is_coalescing: bool,
    seed: int,
) -> None:
    for split in (whole, at_random(seed)):
        for is_observed in (True, False):
            world = World(
                options,
                read_bytes=read_bytes,
                is_tls=is_tls,
                is_observed=is_observed,
                is_coalescing=is_coalescing,
            )
            world.play(script, split)


def test_a_socket_that_fails_may_be_written_to_until_the_loop_tells() -> None:
    message = b"PUB a.b 20000\r\n" + bytes(20_000) + b"\r\n"
    steps = [("break", 0), ("feed", 0, b"SUB a.b 1\r\n" + 4 * message)]  # more than one chunk
    script = Script([b'CONNECT {"verbose":false}\r\n'], steps)
    world = World(Options(limits=TIGHT), read_bytes=1 << 18)
    world.play(script, whole)
    assert [socket.is_lost for socket in world.sockets] == [True]
