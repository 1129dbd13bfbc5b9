"""JSON of a logged event as Python values. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from contracts.gateways.shape import mapping

_decode = msgspec.json.Decoder().decode


def document(text: bytes | None) -> Mapping[str, object]:
    """The object; an empty one for anything else."""
    return mapping(_decode(text)) if text else {}
