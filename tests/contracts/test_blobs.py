"""Refs to blobs: one spelling, found wherever they stand, marked without touching another byte."""

from __future__ import annotations

import hashlib
import json
import uuid

import h11
import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.blobs import (
    BLOB_MEMBER,
    LOST_CHARS_MAX,
    MIME_CHARS_MAX,
    REFS_MAX,
    BlobRef,
    blob_event_id,
    clean_mime,
    encode_ref,
    find_refs,
    is_sha256,
    mark_lost,
    ref_of,
)
from contracts.identity import NAMESPACE

SHA = hashlib.sha256(b"a").hexdigest()
OTHER = hashlib.sha256(b"b").hexdigest()
PLAIN = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), min_size=1)
REFS = st.builds(
    BlobRef,
    sha256=st.binary(max_size=4).map(lambda data: hashlib.sha256(data).hexdigest()),
    bytes=st.integers(0, 10**18 - 1),
    mime=st.none() | PLAIN.map(lambda text: text[:MIME_CHARS_MAX]).map(clean_mime),
    lost=st.none() | PLAIN.map(lambda text: text[:LOST_CHARS_MAX]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | REFS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def written(value: object, refs: list[BlobRef]) -> bytes:
    """JSON with the refs spelled by encode_ref, each noted in order."""
    if isinstance(value, BlobRef):
        refs.append(value)
        return encode_ref(value)
    if isinstance(value, list):
        return b"[" + b",".join(written(item, refs) for item in value) + b"]"
    if isinstance(value, dict):
        members = (msgspec.json.encode(name) + b":" + written(item, refs) for name, item in value.items())
        return b"{" + b",".join(members) + b"}"
    return msgspec.json.encode(value)


@given(ref=REFS)
def test_a_ref_is_read_back(ref: BlobRef) -> None:
    raw = encode_ref(ref)
    assert list(find_refs(raw)) == [ref]
    assert ref_of(json.loads(raw)) == ref


@given(value=JSON)
def test_refs_are_found_in_order_wherever_they_stand(value: object) -> None:
    refs: list[BlobRef] = []
    raw = written(value, refs)
    assert list(find_refs(raw)) == refs


@given(value=JSON, reason=st.text(max_size=300))
def test_lost_marks_each_ref_to_the_blob_and_nothing_else(value: object, reason: str) -> None:
    refs: list[BlobRef] = []
    raw = written([value, BlobRef(sha256=SHA, bytes=1)], refs)
    marked = mark_lost(raw, SHA, reason)
    found = list(find_refs(marked))
    assert [(ref.sha256, ref.bytes, ref.mime) for ref in found] == [
        (ref.sha256, ref.bytes, ref.mime) for ref in refs
    ]
    for before, after in zip(refs, found, strict=True):
        assert after.lost == before.lost if before.sha256 != SHA else after.lost
    restored = marked
    for before, after in zip(refs, found, strict=True):
        restored = restored.replace(encode_ref(after), encode_ref(before), 1)
    assert msgspec.json.decode(restored) == msgspec.json.decode(raw)


@given(text=st.text())
def test_a_text_that_quotes_a_ref_is_no_ref(text: str) -> None:
    quoted = encode_ref(BlobRef(sha256=SHA, bytes=1, mime="image/png")).decode()
    assert list(find_refs(msgspec.json.encode({"text": text + quoted, quoted: 1}))) == []


@pytest.mark.parametrize(
    "raw",
    [
        b'{"$blob":{"sha256":"%s","bytes":-1,"mime":null}}',
        b'{"$blob":{"sha256":"%s","bytes":01,"mime":null}}',
        b'{"$blob":{"sha256":"%s","bytes":1}}',
        b'{"$blob":{"sha256":"%s","bytes":1,"mime":null},"more":1}',
        b'{"$blob":{"sha256":"%s","bytes":1,"mime":null,"x":1}}',
        b'{ "$blob":{"sha256":"%s","bytes":1,"mime":null}}',
        b'{"$blob":{"sha256":"%s","bytes":1,"mime":7}}',
        b'{"$blob":{"sha256":"%s","bytes":1,"mime":""}}',
        b'{"$blob":"%s"}',
    ],
)
def test_another_spelling_is_none_of_ours(raw: bytes) -> None:
    raw = raw % SHA.encode()
    assert list(find_refs(raw)) == []
    assert mark_lost(raw, SHA, "gone") == raw


@pytest.mark.parametrize("sha", [SHA.upper(), SHA[:-1], SHA + "\n", "g" * 64, ""])
def test_only_lower_case_hex_names_a_blob(sha: str) -> None:
    assert not is_sha256(sha)
    assert ref_of({BLOB_MEMBER: {"sha256": sha, "bytes": 1, "mime": None}}) is None
    assert is_sha256(SHA)


@pytest.mark.parametrize(
    "value",
    [None, 1, [], {}, "\ud83d", {"\ud83d": 1}, {BLOB_MEMBER: None}, {BLOB_MEMBER: {"sha256": SHA}}],
)
def test_anything_else_is_no_ref(value: object) -> None:
    assert ref_of(value) is None


@pytest.mark.parametrize(
    "mime", ['a"b', "a\\b", "a\nb", "é", "x" * (MIME_CHARS_MAX + 1), "", " ", " a", "a ", 5, None]
)
def test_an_odd_mime_type_becomes_null(mime: object) -> None:
    assert clean_mime(mime) is None
    assert clean_mime("audio/ogg; codecs=opus") == "audio/ogg; codecs=opus"
    assert clean_mime("x" * MIME_CHARS_MAX) == "x" * MIME_CHARS_MAX


@given(text=st.text(' a/;"\\\t\r\né\x00\x7f', max_size=4) | PLAIN)
def test_every_mime_type_that_is_let_through_can_be_sent_as_a_header(text: str) -> None:
    mime = clean_mime(text)
    if mime is None:
        return
    request = httpx.Request("PUT", "http://127.0.0.1/", headers={"Content-Type": mime})
    sent = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
    assert (b"content-type", mime.encode()) in list(sent.headers)


def test_a_blob_of_an_earlier_release_whose_type_ends_in_a_space_is_found_and_marked() -> None:
    raw = encode_ref(BlobRef(sha256=SHA, bytes=1, mime="image/jpeg")).replace(b'jpeg"', b'jpeg "')
    assert [ref.mime for ref in find_refs(raw)] == ["image/jpeg "]
    assert [ref.lost for ref in find_refs(mark_lost(raw, SHA, "dead: 422"))] == ["dead: 422"]


def test_refs_looked_at_are_bounded() -> None:
    raw = b"[" + b",".join([encode_ref(BlobRef(sha256=SHA, bytes=1))] * (REFS_MAX + 5)) + b"]"
    assert sum(1 for _ in find_refs(raw)) == REFS_MAX


def test_a_marked_blob_leaves_the_others() -> None:
    raw = written([BlobRef(sha256=SHA, bytes=1), BlobRef(sha256=OTHER, bytes=2)], [])
    assert [ref.lost for ref in find_refs(mark_lost(raw, OTHER, "dead: 422"))] == [None, "dead: 422"]


def test_the_id_of_a_blob_is_that_of_its_hash() -> None:
    assert blob_event_id(SHA) == str(uuid.uuid5(NAMESPACE, f'["blob","{SHA}"]'))
