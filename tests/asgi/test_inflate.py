"""Inflating is bounded in steps, members and size, and says of each stream whether it is whole."""

from __future__ import annotations

import contextlib
import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi.body import BodyTooLarge
from asgi.inflate import MEMBERS_MAX, STEP_BYTES, DamagedStream, inflating

GZIP = zlib.MAX_WBITS | 16
SIZES = [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES]


def inflated(body: bytes, bytes_max: int = 10 * STEP_BYTES) -> bytes:
    return b"".join(inflating(body, wbits=GZIP, bytes_max=bytes_max))


def samples(size: int) -> list[bytes]:
    """One that packs well and one that does not pack at all."""
    return [b"x" * size, random.Random(size).randbytes(size)]


@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_a_step_come_back_whole_in_small_steps(size: int) -> None:
    for data in samples(size):
        packed = gzip.compress(data, 1)
        steps = list(inflating(packed, wbits=GZIP, bytes_max=size))
        assert b"".join(steps) == data
        assert max(map(len, steps)) <= STEP_BYTES
        assert inflated(packed + gzip.compress(data, 1) + b"\0" * 512) == data + data, "members and padding"


@pytest.mark.parametrize("size", SIZES)
def test_one_byte_above_the_limit_is_too_large(size: int) -> None:
    for data in samples(size):
        with pytest.raises(BodyTooLarge):
            inflated(gzip.compress(data + b"x", 1), size)


@pytest.mark.parametrize("size", SIZES)
def test_a_stream_that_is_cut_or_followed_by_something_is_damaged(size: int) -> None:
    for data in samples(size):
        packed = gzip.compress(data, 1)
        for broken in (packed[:-1], packed[: len(packed) // 2], packed + b"more", b""):
            with pytest.raises(DamagedStream):
                inflated(broken)


def test_members_are_few() -> None:
    assert inflated(gzip.compress(b"") * MEMBERS_MAX) == b""
    with pytest.raises(DamagedStream):
        inflated(gzip.compress(b"") * (MEMBERS_MAX + 1))


@given(st.binary(max_size=300))
def test_no_bytes_break_it(body: bytes) -> None:
    for wbits in (GZIP, zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
        with contextlib.suppress(BodyTooLarge, DamagedStream):
            assert len(b"".join(inflating(body, wbits=wbits, bytes_max=1000))) <= 1000
