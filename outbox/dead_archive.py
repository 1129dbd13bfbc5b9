"""Where dead letters go before they are forgotten: JSON lines, one file a month, synced."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from outbox.blobs import DeadBlob
from outbox.fsync import sync_folder
from outbox.history import blob_members, history_members
from outbox.kept import KeptRecord

BLOBS_NAME: Final = "dead-blobs"


class DeadArchive:
    """Appends dead letters to ``dead-YYYY-MM.jsonl`` (0600) by month of death.

    Their blobs go to a folder beside it, where an import looks for them: ``dead-YYYY-MM.jsonl.blobs``.
    A letter may stand there twice when the process died between the archive and the store. Raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, letters: Sequence[KeptRecord]) -> None:
        await asyncio.to_thread(self._append, letters)

    async def keep_blob(self, blob: DeadBlob, path: Path) -> None:
        """A dead blob's file goes to ``dead-blobs`` under its name."""
        await asyncio.to_thread(self._link, blob, path)

    def _link(self, blob: DeadBlob, path: Path) -> None:
        folder = self._folder / BLOBS_NAME
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _link_into(folder, blob.sha256, path)
        for named_in in (folder, self._folder):
            sync_folder(named_in)

    def _append(self, letters: Sequence[KeptRecord]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for letter in letters:
            path = self._folder / f"dead-{letter.at:%Y-%m}.jsonl"
            if letter.blobs:
                beside = path.with_name(f"{path.name}.blobs")
                beside.mkdir(mode=0o700, exist_ok=True)
                for blob in letter.blobs:
                    _link_into(beside, blob.sha256, blob.path)
                sync_folder(beside)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(_line(letter))
                file.flush()
                os.fsync(file.fileno())
        for named_in in (self._folder, self._folder.parent):
            sync_folder(named_in)


def _link_into(folder: Path, sha256: str, path: Path) -> None:
    # It is there from an earlier try; or it died of having no file.
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        os.link(path, folder / sha256)


def _line(letter: KeptRecord) -> bytes:
    fields = {
        "id": letter.id,
        "digest": letter.digest.hex(),
        **history_members(letter),
        "died_at": letter.at.isoformat(),
        "body_base64": base64.b64encode(letter.body).decode(),
    }
    if letter.blobs:
        fields["blobs"] = blob_members(letter)
    return json.dumps(fields).encode() + b"\n"
