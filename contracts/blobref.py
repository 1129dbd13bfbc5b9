"""What is known of bytes that travel apart from the event that they belong to."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

SHA256_PATTERN: Final = r"^[0-9a-f]{64}\Z"


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes kept beside the payload: lower-case hex sha256, their number, and what the gateway calls them.

    ``lost`` says why they will never come, in plain words.
    """

    sha256: Annotated[str, msgspec.Meta(pattern=SHA256_PATTERN)]
    bytes: Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
    mime: str | None = None
    lost: str | None = None
