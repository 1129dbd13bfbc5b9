"""Signatures: made by another tool, verified over exact bytes; every hostile header is just wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.signing import BodyMacs, sign, verify, verify_cloud, verify_evolution_jwt, verify_waha
from tests.support.missing import not_installed

SECRET, OLD, OTHER = b"current secret", b"previous secret", b"somebody else's"
EVENT_ID = "8a7f1b1e-9d0c-5e55-8e2a-0d6f3f1f5a11"
BODIES = [
    b'{"a": 1.0, "b":"\\u001B",\t"a":2}\n',
    b'{"x":"\xc3\xa7 \\u00e7 \xe2\x80\xa8"}',
    b"",
    b"\xff\x00not json",
]
HOSTILE = [
    *(None, "", " ", "0", "zz" * 32, "ç" * 64, "\ud800" * 64, "\x00" * 64, "a" * 1_000_000, b"\xff" * 64, 7),
    *(
        "sha256=",
        "sha256=" + "f" * 64,
        "Bearer",
        "Bearer ",
        "Bearer .",
        "Bearer ..",
        "Bearer a.b.c",
        "Bearer ç.ç.ç",
    ),
    *("Bearer " + "A" * 100_000, ["x"], "f" * 128, "f" * 63),
]


@pytest.mark.parametrize("body", BODIES)
def test_openssl_makes_the_same_signature(body: bytes) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        not_installed("openssl")
    signed = subprocess.run(
        [openssl, "dgst", "-sha256", "-hmac", SECRET.decode(), "-r"],
        input=EVENT_ID.encode() + b"." + body,
        capture_output=True,
        check=True,
    )
    assert sign(SECRET, EVENT_ID, body) == signed.stdout.split()[0].decode()


@given(body=st.binary(max_size=200), event_id=st.text(max_size=40))
def test_what_is_signed_verifies_and_nothing_else(body: bytes, event_id: str) -> None:
    signature = sign(SECRET, event_id, body)
    assert verify([SECRET], event_id, body, signature)
    assert not verify([SECRET], event_id, body + b" ", signature)
    assert not verify([SECRET], event_id + "0", body, signature)
    assert not verify([OTHER], event_id, body, signature)


def test_secrets_rotate_without_a_gap() -> None:
    for secret in (SECRET, OLD):
        assert verify([SECRET, OLD], EVENT_ID, b"x", sign(secret, EVENT_ID, b"x"))
    assert not verify([SECRET, OLD], EVENT_ID, b"x", sign(OTHER, EVENT_ID, b"x"))


def test_an_empty_secret_neither_signs_nor_verifies() -> None:
    with pytest.raises(ValueError, match="empty secret"):
        sign(b"", EVENT_ID, b"x")
    signature = hmac.digest(b"", EVENT_ID.encode() + b".x", "sha256").hex()
    assert not verify([b""], EVENT_ID, b"x", signature)
    assert not verify([], EVENT_ID, b"x", signature)
    assert not verify_waha([b""], b"x", hmac.digest(b"", b"x", "sha512").hex())
    assert not verify_cloud([b""], b"x", "sha256=" + hmac.digest(b"", b"x", "sha256").hex())
    assert not verify_evolution_jwt([b""], _bearer(b"", {"exp": 2000}), now=1000)


@pytest.mark.parametrize("header", HOSTILE, ids=lambda header: ascii(header)[:20])
def test_a_hostile_header_is_wrong_and_raises_nothing(header: object) -> None:
    assert not verify([SECRET], EVENT_ID, b"x", header)
    assert not verify([SECRET], header, b"x", "f" * 64)
    assert not verify_waha([SECRET], b"x", header)
    assert not verify_cloud([SECRET], b"x", header)
    assert not verify_evolution_jwt([SECRET], header, now=1000)


def test_the_case_of_the_hex_and_blanks_around_it_do_not_matter() -> None:
    assert verify([SECRET], EVENT_ID, b"x", f" {sign(SECRET, EVENT_ID, b'x').upper()} ")


def test_waha_documented_vector_verifies() -> None:
    body = b'{"event":"message","session":"default","engine":"WEBJS"}'
    signature = hmac.new(b"my-secret-key", body, hashlib.sha512).hexdigest()
    assert signature == (
        "208f8a55dde9e05519e898b10b89bf0d0b3b0fdf11fdbf09b6b90476301b98d8"
        "097c462b2b17a6ce93b6b47a136cf2e78a33a63f6752c2c1631777076153fa89"
    )
    assert verify_waha([OTHER, b"my-secret-key"], body, signature)
    assert not verify_waha([OTHER], body, signature)


def test_cloud_signs_the_raw_bytes_with_its_escapes() -> None:
    body = b'{"text":"caf\\u00e9"}'
    header = "sha256=" + hmac.digest(SECRET, body, "sha256").hex()
    assert verify_cloud([OLD, SECRET], body, header)
    assert not verify_cloud([SECRET], json.dumps(json.loads(body), ensure_ascii=False).encode(), header)
    assert not verify_cloud([SECRET], body, header.removeprefix("sha256="))


def _segment(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _bearer(key: bytes, claims: object, header: object = None) -> str:
    signed = _segment(header or {"alg": "HS256", "typ": "JWT"}) + b"." + _segment(claims)
    signature = base64.urlsafe_b64encode(hmac.digest(key, signed, "sha256")).rstrip(b"=")
    return f"Bearer {(signed + b'.' + signature).decode()}"


CLAIMS = {"iat": 1000, "exp": 1600, "app": "evolution", "action": "webhook"}


@pytest.mark.parametrize(("now", "good"), [(1000, True), (1600, True), (3400, True), (3401, False)])
def test_an_evolution_token_is_good_for_its_last_retry(now: float, good: bool) -> None:
    assert verify_evolution_jwt([OLD, SECRET], _bearer(SECRET, CLAIMS), now=now) is good


@pytest.mark.parametrize(
    "header",
    [
        _bearer(OTHER, CLAIMS),
        _bearer(SECRET, CLAIMS, {"alg": "none"}),
        _bearer(SECRET, CLAIMS, {"alg": "HS512"}),
        _bearer(SECRET, {"iat": 1000}),
        _bearer(SECRET, {"exp": "2999"}),
        _bearer(SECRET, {"exp": None}),
        _bearer(SECRET, []),
        _bearer(SECRET, CLAIMS, [[]]),
        _bearer(SECRET, {"exp": 1600, "nbf": 9000}),
        _bearer(SECRET, CLAIMS)[:-2],
        _bearer(SECRET, CLAIMS).removeprefix("Bearer "),
        _bearer(SECRET, CLAIMS).replace("Bearer", "Basic"),
    ],
)
def test_another_token_is_refused(header: str) -> None:
    assert not verify_evolution_jwt([SECRET], header, now=1000)


@given(body=st.binary(), cuts=st.lists(st.integers(0, 20)), keys=st.lists(st.binary(max_size=8), max_size=3))
def test_a_body_in_pieces_is_signed_as_the_whole(body: bytes, cuts: list[int], keys: list[bytes]) -> None:
    macs = BodyMacs(waha_keys=keys, cloud_secrets=keys)
    rest = body
    for size in cuts:
        macs.update(rest[:size])
        rest = rest[size:]
    macs.update(rest)
    made = [
        *[hmac.new(key, body, "sha512").hexdigest() for key in keys],
        *["sha256=" + hmac.new(key, body, "sha256").hexdigest() for key in keys],
        *["", "00", None, b"\xff"],
    ]
    for header in made:
        assert macs.waha(header) == verify_waha(keys, body, header)
        assert macs.cloud(header) == verify_cloud(keys, body, header)
