"""Builds the events of one body: what its facts share (wire name, occurrence, emission) is said once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from contracts.blobref import BlobRef
from contracts.canonical import MEMBER_HASH_BYTES, content_hash, member_hashes
from contracts.envelope import TYPE_CHARS_MAX
from contracts.events import OCCURRENCE, Event, Fold, Part, Path, Stamp
from contracts.status import Dialect
from contracts.times import as_datetime

Seen: TypeAlias = "Event | str"
"""An event, or the reason why what was seen makes no row."""

TIME_DOUBTFUL: Final = "time_doubtful"
EMPTY: Final = "empty"

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def to_payload(value: Mapping[str, object]) -> bytes:
    """Encode a second fact's own small payload; a lone surrogate stays an escape."""
    return _encode(value).encode("ascii")


def subject_of(*names: Part) -> str:
    """Return what suppression compares, as one JSON array."""
    return _encode(names)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One body: where its facts come from. ``occurrence`` None means the collector must stamp."""

    type: str
    instance: str
    dialect: Dialect
    occurrence: Stamp | None = None
    emitted_at: datetime | None = None
    """When the gateway emitted the body, if it says so in true UTC."""

    def fact(
        self,
        kind: str,
        parts: Sequence[Part],
        *,
        chat: str | None = None,
        path: Path | None = None,
        payload: Mapping[str, object] | None = None,
        time: object = None,
        time_from: Literal["message", "gateway"] = "gateway",
        digest: bytes | None = None,
        flags: tuple[str, ...] = (),
        cuts: tuple[Path, ...] = (),
        subject: str | None = None,
        members: Mapping[str, bytes] | None = None,
        fold: Fold = Fold.NONE,
        blobs: tuple[BlobRef, ...] = (),
    ) -> Event:
        """Return an event; ``fold`` is kept only where the collector has to stamp it."""
        occurred_at = as_datetime(time)
        stamped = self.occurrence is not None
        return Event(
            kind=kind,
            type=self.type[:TYPE_CHARS_MAX],
            chat_jid=chat,
            parts=tuple(parts),
            path=path,
            payload=None if payload is None else to_payload(payload),
            occurrence=self.occurrence if OCCURRENCE in parts else None,
            occurred_at=occurred_at or self.emitted_at,
            occurred_from=time_from if occurred_at else "gateway" if self.emitted_at else None,
            digest=digest,
            flags=flags,
            cuts=cuts,
            fold=Fold.NONE if stamped else fold,
            subject=subject,
            blobs=blobs,
            members=members or {},
        )

    def snapshot(
        self,
        kind: str,
        subject: str | None,
        element: object,
        *,
        path: Path,
        chat: str | None,
        cuts: tuple[Path, ...] = (),
    ) -> Event:
        """Return a state as a whole: subject, hash, occurrence (contract §4, S)."""
        return self.fact(
            kind,
            (subject, content_hash(kind, element), OCCURRENCE),
            chat=chat,
            path=path,
            cuts=cuts,
            subject=subject_of(subject),
            members=member_hashes(kind, element),
            fold=Fold.SNAPSHOT,
        )

    def transition(
        self,
        kind: str,
        subject: Sequence[Part],
        state: Sequence[Part],
        element: object,
        *,
        path: Path,
        chat: str | None,
    ) -> Event:
        """Return a change: subject, state, hash of the element, occurrence (contract §4, T)."""
        digest = content_hash(kind, element)
        return self.fact(
            kind,
            (*subject, *state, digest, OCCURRENCE),
            chat=chat,
            path=path,
            subject=subject_of(*subject),
            members=changed(*state, digest),
            fold=Fold.TRANSITION,
        )

    def notice(
        self,
        kind: str,
        element: object,
        *,
        path: Path,
        chat: str | None = None,
        cuts: tuple[Path, ...] = (),
    ) -> Event:
        """Return a fact known by its wire name only: name, hash, occurrence."""
        parts = (self.type, content_hash(kind, element), OCCURRENCE)
        return self.fact(kind, parts, chat=chat, path=path, cuts=cuts)


def changed(*state: Part) -> dict[str, bytes]:
    """Return a transition's one member: 16 bytes that stand for its state."""
    return {"": hashlib.sha256(subject_of(*state).encode()).digest()[:MEMBER_HASH_BYTES]}
