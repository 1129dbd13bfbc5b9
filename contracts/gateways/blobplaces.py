"""Where gateways put the bytes of a message into its body, and what they call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from contracts.gateways.shape import items, mapping
from contracts.wrappers import unwrap

BLOB_MEMBERS: Final[Mapping[str, str]] = {"evolution": "base64", "baileys": "base64", "waha": "data"}
"""The member that holds base64, by family; the Cloud API sends none. A bot of Baileys may do as Evolution."""


class BlobPlace(NamedTuple):
    """A text of a decoded body: ``holder[member]``; ``mime`` is what its message says, any JSON."""

    holder: dict[str, object]
    member: str
    mime: object


def blob_places(family: str, body: object) -> Iterator[BlobPlace]:
    """Yield the places of a decoded body that hold a text: ``message.base64`` of elements, ``media.data``."""
    member = BLOB_MEMBERS.get(family, "")
    if family == "waha":
        media = mapping(body).get("payload")
        media = mapping(media).get("media")
        if isinstance(media, dict) and isinstance(media.get(member), str):
            yield BlobPlace(media, member, media.get("mimetype"))
        return
    for _, element in _elements(body):
        message = mapping(element).get("message")
        if isinstance(message, dict) and isinstance(message.get(member), str):
            yield BlobPlace(message, member, _mime(message))


def _elements(body: object) -> Iterator[tuple[object, object]]:
    """The message elements of Evolution's and Baileys' bodies: one, an array, or ``messages`` of one."""
    fields = mapping(body)
    data = fields.get("data") if "data" in fields else body
    inner = mapping(data).get("messages")
    return items(inner if isinstance(inner, list | dict) else data, ())


def _mime(message: Mapping[str, object]) -> object:
    """What the unwrapped message says of its file."""
    inner, _ = unwrap(message)
    for name in sorted(inner):
        said = mapping(inner[name]).get("mimetype")
        if said:
            return said
    return None
