# cython: overflowcheck=False
# ruff: noqa: ERA001 - read by Cython; the sums and products of a hash wrap
"""HighwayHash with a result of 64 bits: the checksum of nats-server's files.

The algorithm is that of Alakuijala, Cox and Wassenberg ("Fast keyed hash/pseudo-random function
using SIMD multiply and permute"); the state is four vectors of four lanes.
"""

from __future__ import annotations

from midge.jetstream.store import numbers

_MASK = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF
_BYTE_1 = 0xFF00  # C numbers where this is compiled: larger literals would be Python's, at 3 us a
_BYTE_2 = 0xFF0000  # packet where 40 ns do
_BYTE_3 = 0xFF000000
_BYTE_4 = 0xFF00000000
_BYTE_5 = 0xFF0000000000
_BYTE_6 = 0xFF000000000000
_BYTE_7 = 0xFF00000000000000
_V0 = 0
_V1 = 32
_MUL0 = 64
_MUL1 = 96
_PACKET = 32
_FINAL_ROUNDS = 4

_INITIAL = (
    0xDBE6D5D5FE4CCE2F,
    0xA4093822299F31D0,
    0x13198A2E03707344,
    0x243F6A8885A308D3,
    0x3BD39E10CB0EF593,
    0xC0ACF169B5F18A8C,
    0xBE5466CF34E90C6C,
    0x452821E638D01377,
)


class HighwayHash:
    """Hashes with one key of 32 bytes."""

    __slots__ = ("_initial", "_packet", "_state")

    def __init__(self, key: bytes) -> None:
        assert len(key) == _PACKET
        self._initial = bytearray(128)
        self._state = bytearray(128)
        self._packet = bytearray(_PACKET)
        for i in range(4):
            lane = int.from_bytes(key[8 * i : 8 * i + 8], "little")
            turned = (lane >> 32 | lane << 32) & _MASK
            numbers.set_u64_at(self._initial, _V0 + 8 * i, _INITIAL[i] ^ lane)
            numbers.set_u64_at(self._initial, _V1 + 8 * i, _INITIAL[4 + i] ^ turned)
            numbers.set_u64_at(self._initial, _MUL0 + 8 * i, _INITIAL[i])
            numbers.set_u64_at(self._initial, _MUL1 + 8 * i, _INITIAL[4 + i])

    def digest(self, data: bytes) -> int:
        """Return the hash of `data`."""
        numbers.put(self._state, 0, self._initial, 0, 128)
        packet = self._packet
        size = len(data)
        at = 0
        while at + _PACKET <= size:
            numbers.put(packet, 0, data, at, at + _PACKET)
            self._update()
            at += _PACKET
        if at < size:
            self._rest(data, at, size - at)
        for _ in range(_FINAL_ROUNDS):
            for i in range(4):
                lane = numbers.u64_at(self._state, _V0 + 8 * ((i + 2) & 3))
                numbers.set_u64_at(packet, 8 * i, (lane >> 32 | lane << 32) & _MASK)
            self._update()
        total = 0
        for vector in range(0, 128, 32):
            total = (total + numbers.u64_at(self._state, vector)) & _MASK
        return total

    def _update(self) -> None:
        """Mix the packet into the state."""
        state = self._state
        for i in range(0, 32, 8):
            mul0 = numbers.u64_at(state, _MUL0 + i)
            mul1 = numbers.u64_at(state, _MUL1 + i)
            v0 = numbers.u64_at(state, _V0 + i)
            v1 = (numbers.u64_at(state, _V1 + i) + mul0 + numbers.u64_at(self._packet, i)) & _MASK
            mul0 ^= (v1 & _LOW) * (v0 >> 32)
            v0 = (v0 + mul1) & _MASK
            mul1 ^= (v0 & _LOW) * (v1 >> 32)
            numbers.set_u64_at(state, _V0 + i, v0)
            numbers.set_u64_at(state, _V1 + i, v1)
            numbers.set_u64_at(state, _MUL0 + i, mul0)
            numbers.set_u64_at(state, _MUL1 + i, mul1)
        self._zip(_V1, _V0)
        self._zip(_V1 + 16, _V0 + 16)
        self._zip(_V0, _V1)
        self._zip(_V0 + 16, _V1 + 16)

    def _zip(self, source: int, target: int) -> None:
        """Add the bytes of two lanes, in another order, to two others."""
        state = self._state
        low = numbers.u64_at(state, source)
        high = numbers.u64_at(state, source + 8)
        one = (
            ((low & _BYTE_3) | (high & _BYTE_4)) >> 24
            | ((low & _BYTE_5) | (high & _BYTE_6)) >> 16
            | (low & _BYTE_2)
            | (low & _BYTE_1) << 32
            | (high & _BYTE_7) >> 8
            | (low << 56 & _MASK)
        )
        other = (
            ((high & _BYTE_3) | (low & _BYTE_4)) >> 24
            | (high & _BYTE_2)
            | (high & _BYTE_5) >> 16
            | (high & _BYTE_1) << 24
            | (low & _BYTE_6) >> 8
            | (high & 0xFF) << 48
            | (low & _BYTE_7)
        )
        numbers.set_u64_at(state, target, (numbers.u64_at(state, target) + one) & _MASK)
        numbers.set_u64_at(state, target + 8, (numbers.u64_at(state, target + 8) + other) & _MASK)

    def _rest(self, data: bytes, at: int, size: int) -> None:
        """Mix in the last bytes, fewer than a packet."""
        state = self._state
        packet = self._packet
        for i in range(0, 32, 8):
            lane = (numbers.u64_at(state, _V0 + i) + (size << 32) + size) & _MASK
            numbers.set_u64_at(state, _V0 + i, lane)
            lane = numbers.u64_at(state, _V1 + i)
            low = lane & _LOW
            high = lane >> 32
            low = (low << size | low >> (32 - size)) & _LOW
            high = (high << size | high >> (32 - size)) & _LOW
            numbers.set_u64_at(state, _V1 + i, high << 32 | low)
            numbers.set_u64_at(packet, i, 0)
        whole = size & ~3
        left = size & 3
        numbers.put(packet, 0, data, at, at + whole)
        end = at + whole
        if size & 16:
            numbers.put(packet, 28, data, end + left - 4, end + left)
        elif left:
            numbers.put(packet, 16, data, end, end + 1)
            numbers.put(packet, 17, data, end + (left >> 1), end + (left >> 1) + 1)
            numbers.put(packet, 18, data, end + left - 1, end + left)
        self._update()
