"""Base64 is cut out of a body however it is chunked, and what is put back is the body, byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.blobcutter import BlobCutter
from contracts.gateways.content import blob_facts
from tests.support.cutting import LOW, NONCE, chunked, cut


def respelled(data: bytes, spelling: str) -> bytes:
    text = base64.b64encode(data)
    match spelling:
        case "url":
            return base64.urlsafe_b64encode(data)
        case "escaped":
            return text.replace(b"/", b"\\/")
        case "unpadded":
            return text.rstrip(b"=")
        case "prefixed":
            return b"data:image\\/png;base64," + text
        case "lines":
            return b"\\n".join(text[at : at + 76] for at in range(0, len(text), 76))
        case "broken":
            return text[:-3] + b"*" + text[-2:]
        case "mixed":
            return text[:-4].replace(b"/", b"_") + b"a+/a"
        case "half escaped":
            return text.replace(b"/", b"\\/", 1) + b"/AAA"
        case "unicode":
            return text.replace(b"A", b"\\u0041", 1)
        case "more padding":
            return text.rstrip(b"=") + b"==="
        case "two":
            return text + text
    return text


SPELLINGS = [
    "plain", "url", "escaped", "unpadded", "prefixed", "lines", "broken", "mixed", "half escaped", "unicode",
    "more padding", "two",
]  # fmt: skip
FILLERS = st.sampled_from(
    [b"", b" ", b'{"a":1},', b'"base64"', b'"base64":7,', b'\\"base64":"', b'"x\\"base64": "AAAAAAAAAAAA"',
     b'"base64" : \n"', b'"base6', b"\\", b'"base64":"AAAA",', b'"bas\xc3\xa964":"' + b"A" * 40 + b'"',
     b'"base64"' + b" " * 70 + b':"AAAAAAAAAAAA"', b'"data":"AAAAAAAAAAAAAAAA"', b"AAAA" * 9, b"\xff\x00"]
)  # fmt: skip
PIECES = st.lists(
    FILLERS
    | st.builds(
        lambda data, spelling: b'"base64":"' + respelled(data, spelling) + b'"',
        st.binary(max_size=400),
        st.sampled_from(SPELLINGS),
    ),
    max_size=6,
)
SIZES = st.lists(st.integers(0, 60), max_size=60)


@given(pieces=PIECES, sizes=SIZES, chars_min=st.sampled_from([1, 2, LOW, 300]), cuts_max=st.integers(0, 3))
@example(pieces=[b'"base64":"AAAAAAAA\xff"'], sizes=[], chars_min=1, cuts_max=1)
@example(pieces=[b'"base64":"QUJDRA==QUJDRA=="'], sizes=[15, 1, 1, 1], chars_min=1, cuts_max=1)
def test_any_chunking_gives_the_same_and_all_put_back_is_the_body(
    pieces: list[bytes], sizes: list[int], chars_min: int, cuts_max: int
) -> None:
    raw = b"".join(pieces)
    whole = cut([raw], chars_min=chars_min, cuts_max=cuts_max)
    split = cut(chunked(raw, sizes), chars_min=chars_min, cuts_max=cuts_max)
    assert split.settled == whole.settled
    assert split.put_back(split.cuts) == whole.put_back(whole.cuts) == raw
    assert len(split.cuts) <= cuts_max


@given(data=st.binary(min_size=9, max_size=900), spelling=st.sampled_from(SPELLINGS), sizes=SIZES)
def test_a_cut_knows_what_a_reader_would_have_read(data: bytes, spelling: str, sizes: list[int]) -> None:
    text = respelled(data, spelling)
    raw = b'{"x":1,"base64":"' + text + b'","y":2}'
    result = cut(chunked(raw, sizes))
    for taken in result.cuts:
        got = result.data[taken.mark]
        assert (taken.sha256, taken.bytes_total) == (hashlib.sha256(got).hexdigest(), len(got))
        if taken.complete:
            read = json.loads(b'"' + text + b'"')
            assert blob_facts(read) == (taken.sha256, taken.bytes_total)
            assert result.skeleton == b'{"x":1,"base64":"' + taken.mark + b'","y":2}'
        assert taken.text_bytes >= len(result.text(taken))


@pytest.mark.parametrize("spelling", ["plain", "url", "escaped", "unpadded", "prefixed"])
@pytest.mark.parametrize("size", [1000, 1001, 1002])
def test_the_spellings_of_gateways_are_cut(spelling: str, size: int) -> None:
    data = bytes(range(251)) * 4
    (taken,) = cut([b'"base64":"' + respelled(data[:size], spelling) + b'"']).cuts
    assert taken.complete
    assert taken.sha256 == hashlib.sha256(data[:size]).hexdigest()


@pytest.mark.parametrize("spelling", ["lines", "broken", "mixed", "half escaped", "unicode", "more padding"])
def test_other_spellings_stay_text(spelling: str) -> None:
    raw = b'{"base64":"' + respelled(bytes(range(256)) * 5, spelling) + b'"}'
    settled, cuts = cut(chunked(raw, [7] * 100)).settled
    assert (settled, cuts) == (raw, [])


@pytest.mark.parametrize("odd", [bytes([code]) for code in range(256) if code not in b'"'])
def test_any_byte_that_is_no_base64_puts_the_text_back(odd: bytes) -> None:
    text = base64.b64encode(bytes(range(90)))
    for at in (1, 40, len(text) - 1, len(text)):
        raw = b'{"base64":"' + text[:at] + odd + text[at:] + b'","x":1}'
        for size in (1, 7, 1000):
            result = cut([raw[start : start + size] for start in range(0, len(raw), size)])
            assert result.put_back(result.cuts) == raw


def test_a_body_that_breaks_off_inside_is_put_back() -> None:
    raw = b'{"base64":"' + base64.b64encode(bytes(range(256)) * 9)
    for end in range(len(raw) - 20, len(raw)):
        settled, cuts = cut([raw[:20], raw[20:end]]).settled
        assert (settled, cuts) == (raw[:end], [])


def test_only_texts_of_the_member_are_cut_from_the_length_on() -> None:
    text = "QUJD" * 30
    raw = json.dumps({"other": text, "base64": text, "deep": [{"base64": text[:116]}, text, {"base64": 1}]})
    result = cut([raw.encode()], chars_min=120)
    (taken,) = result.cuts
    kept = json.loads(result.skeleton)
    assert kept["base64"] == taken.mark.decode()
    assert kept | {"base64": text} == json.loads(raw)


def test_a_sender_can_not_write_a_mark_and_cuts_are_bounded() -> None:
    text = base64.b64encode(b"some bytes of a picture")
    raw = b"[" + b",".join([b'{"base64":"' + text + b'"}'] * 3000) + b"]"
    result = cut([raw], cuts_max=2000)
    assert len(result.cuts) == 2000
    assert len({taken.mark for taken in result.cuts}) == 2000
    assert result.put_back(result.cuts) == raw
    assert all(NONCE.encode() in taken.mark for taken in result.cuts)


def test_what_is_held_back_is_small_and_nothing_is_left() -> None:
    held = 0
    sink: list[int] = []
    cutter = BlobCutter(
        key="data",
        nonce=NONCE,
        chars_min=1000,
        cuts_max=9,
        open_sink=lambda _: lambda data: sink.append(len(data)),
    )
    raw = b'{"data":"' + b"QUJD" * 50_000 + b'"}' + b'{"data"' + b" " * 5000
    out = 0
    for at in range(0, len(raw), 500):
        out += len(cutter.feed(raw[at : at + 500]))
        held = max(held, min(at + 500, len(raw)) - out - sum(sink) // 3 * 4)
    assert held < 2500
    assert sum(sink) == 150_000


def test_a_body_without_the_member_costs_next_to_nothing() -> None:
    raw = (b'{"key":"value","list":[1,2,3],"text":"%s"},' % os.urandom(60).hex().encode()) * 100_000
    started = time.perf_counter()
    assert cut([raw[at : at + (1 << 20)] for at in range(0, len(raw), 1 << 20)]).skeleton == raw
    print(f"{len(raw) / (time.perf_counter() - started) / 1e6:.0f} MB/s")  # told, not asserted
