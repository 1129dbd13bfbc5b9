"""The published vectors are ours, and another language computes them from the written rules."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contracts.blob_upload import PartRange, signed_text
from contracts.blobs import blob_event_id
from contracts.canonical import canonical, canonical_json, content_hash
from contracts.compact import compact_json
from contracts.identity import NAMESPACE, event_id
from contracts.jsontext import decode
from contracts.signing import sign, verify
from tests.support.missing import not_installed

CONTRACTS = Path(__file__).parents[2] / "contracts"
CHECKER = Path(__file__).with_name("check_vectors.mjs")


def _vectors(name: str) -> list[dict[str, Any]]:
    vectors = json.loads((CONTRACTS / "vectors" / f"{name}.json").read_text())["vectors"]
    assert isinstance(vectors, list)
    return vectors


CANONICAL, IDENTITY, SIGNING = _vectors("canonical"), _vectors("identity"), _vectors("signing")
BLOBS = _vectors("blobs")


def test_thirty_canonical_forms_are_published() -> None:
    assert len(CANONICAL) == len({vector["name"] for vector in CANONICAL}) == 30


@pytest.mark.parametrize("vector", CANONICAL, ids=lambda vector: vector["name"])
def test_a_canonical_vector(vector: dict[str, str]) -> None:
    element = decode(vector["element"].encode())
    assert canonical_json(canonical(vector["kind"], element)) == vector["canonical"].encode()
    assert content_hash(vector["kind"], element) == vector["sha256"]


def test_variants_of_one_fact_share_a_hash_and_others_do_not() -> None:
    hashes = {vector["name"]: vector["sha256"] for vector in CANONICAL}
    assert hashes["an image as protobuf writes it"] == hashes["the same image cloned"]
    assert hashes["a group"] == hashes["the group in another order, size and without a phone"]
    assert hashes["a group"] != hashes["the group with another admin"]


@pytest.mark.parametrize("vector", IDENTITY, ids=lambda vector: vector["name"])
def test_an_identity_vector(vector: dict[str, Any]) -> None:
    version, *rest = vector["json"]
    if version == 1:
        scope, kind, *parts = rest
        parts = [tuple(part) if isinstance(part, list) else part for part in parts]
        assert event_id(scope, kind, parts) == vector["event_id"]
    assert compact_json(vector["json"]).startswith(b"[")
    assert str(NAMESPACE) == "d0108709-ef11-53c7-8e68-9953e8afdb48"


@pytest.mark.parametrize("vector", SIGNING, ids=lambda vector: vector["name"])
def test_a_signing_vector(vector: dict[str, str]) -> None:
    secret, body = vector["secret"].encode(), base64.b64decode(vector["body_base64"])
    assert sign(secret, vector["event_id"], body) == vector["signature"]
    assert verify([secret], vector["event_id"], body, vector["signature"])


@pytest.mark.parametrize("vector", BLOBS, ids=lambda vector: vector["name"])
def test_a_blob_vector(vector: dict[str, str]) -> None:
    part = base64.b64decode(vector["part_base64"])
    hashed = "" if vector["method"] == "HEAD" else hashlib.sha256(part).hexdigest()
    place = PartRange.parse(vector["content_range"])
    assert (place is None) == (vector["method"] == "HEAD")
    assert place is None or (str(place), place.size) == (vector["content_range"], len(part))
    signed = signed_text(
        vector["method"], vector["sha256"], vector["content_range"], vector["content_type"], hashed
    )
    assert blob_event_id(vector["sha256"]) == vector["event_id"]
    assert sign(vector["secret"].encode(), vector["event_id"], signed) == vector["signature"]


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        not_installed("node")
    return found


def test_another_language_computes_every_vector(node: str) -> None:
    checked = subprocess.run([node, CHECKER], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", ["canonical", "identity", "signing", "blobs"])
def test_the_other_language_sees_a_wrong_vector(node: str, name: str, tmp_path: Path) -> None:
    shutil.copytree(CONTRACTS / "vectors", tmp_path / "vectors")
    for data in ("canonical_v1.toml", "stub_types.txt"):
        shutil.copy(CONTRACTS / data, tmp_path)
    published = tmp_path / "vectors" / f"{name}.json"
    key = {"canonical": "sha256", "identity": "event_id", "signing": "signature"}.get(name, "signature")
    right = _vectors(name)[-1][key]
    published.write_text(published.read_text().replace(right, right[::-1]))
    checked = subprocess.run([node, CHECKER, tmp_path], capture_output=True, text=True, check=False)
    assert checked.returncode == 1
    assert right in checked.stdout
