"""What a gateway reader returns: the facts in one body, described but not yet stored.

Structs instead of frozen dataclasses: a door makes them for every body, and a frozen dataclass sets each of
its fields by a call.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from contracts.blobref import BlobRef

Path: TypeAlias = tuple[str | int, ...]
Stamp: TypeAlias = str | tuple[str | int, ...]
"""What tells one occurrence of a fact from the next: the source's own mark, or the collector's."""
Part: TypeAlias = "str | int | bool | tuple[str | int | bool | None, ...] | Occurrence | None"


KINDS: Final = frozenset(
    {
        "account.notice", "blocklist", "call", "chat", "connection", "contact", "gateway.notice",
        "group.join_request", "group.member_tag", "group.metadata", "group.participants", "history.marker",
        "instance.create", "instance.delete", "instance.logout", "instance.remove", "label", "label.assoc",
        "lid_mapping", "message", "message.delete_local", "message.edit", "message.edit.echo", "message.flag",
        "message.media", "message.protocol", "message.receipt", "message.revoke", "message.status",
        "message.stub", "poll.vote", "presence", "reaction", "settings", "typebot", "unknown",
    }
)  # fmt: skip
"""Every kind that a reader gives."""


class Occurrence(enum.Enum):
    """Marks the place among the parts where the occurrence goes (contract §4)."""

    HERE = "occurrence"


OCCURRENCE: Final = Occurrence.HERE


class Fold(enum.Enum):
    """How suppression treats an event of a source without a stamp of its own."""

    NONE = "none"
    SNAPSHOT = "snapshot"
    """Skipped when each member that it carries equals the kept one."""
    TRANSITION = "transition"
    """Skipped when its hash equals the subject's last."""
    CLEAR = "clear"
    """A delete: a row once; what was kept of the subject is forgotten."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of one body.

    ``path`` is where its element lies in the decoded body; the payload is that element byte for byte.
    A second fact of an element (status, media) has a small ``payload`` of its own and ``path`` None.
    """

    kind: str
    type: str
    """The wire name, such as ``messages.upsert``; at most 100 characters."""
    chat_jid: str | None
    parts: tuple[Part, ...]
    """Identity parts after the kind; holds ``OCCURRENCE`` at most once."""
    path: Path | None = None
    payload: bytes | None = None
    occurrence: Stamp | None = None
    """The source's own stamp; None when parts hold ``OCCURRENCE`` and the collector must stamp it."""
    occurred_at: datetime | None = None
    occurred_from: Literal["message", "gateway"] | None = None
    digest: bytes | None = None
    """16 bytes; only for kind ``message``."""
    flags: tuple[str, ...] = ()
    instance: str | None = None
    """Native instance of this event alone; wins over the reading's (Cloud: several numbers in one body)."""
    context: Mapping[str, Path] = msgspec.field(default_factory=dict)
    """The envelope of this event alone, as an object of these members, each copied from its path in the body;
    it wins over the reading's ``data_path`` (Cloud: an element lies three containers deep)."""
    cuts: tuple[Path, ...] = ()
    """Secret places inside the element (relative to it), cut before anything is written."""
    fold: Fold = Fold.NONE
    subject: str | None = None
    """What ``fold`` compares, one JSON array as text."""
    blobs: tuple[BlobRef, ...] = ()
    """What was cut out of the body and belongs to the fact."""
    members: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    """16-byte hash of every member of the canonical element (snapshot), or ``{"": hash}`` (transition)."""

    @property
    def needs_stamp(self) -> bool:
        """True when the identity needs the collector's own stamp."""
        return self.occurrence is None and OCCURRENCE in self.parts


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of one body, and what was seen but makes no row."""

    instance: str | None
    """Native instance that the body names; None where only the path can."""
    events: tuple[Event, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    """(reason, how many), such as ``("empty", 1)`` or ``("qr", 1)``."""
    data_path: Path = ()
    """The container of the elements; the envelope is the body without it. ``()`` = no envelope."""
    cuts: tuple[Path, ...] = ()
    """Secret places in the body outside the elements (``("apikey",)``)."""
