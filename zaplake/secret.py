"""Secrets that cannot be printed by accident, and the signing secret that ``zaplake up`` makes for itself."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from outbox.fsync import sync_folder
from zaplake.trouble import Trouble

SECRET_FILE: Final = "signing-secret"  # noqa: S105 (a file name)
SECRET_BYTES: Final = 32


class Secret:
    """A value that shows itself only to ``reveal``; str, repr and format give stars."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not value.strip():
            raise ValueError("is empty; an empty secret would be known to everybody")
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(
            self._value.encode("utf-8", "surrogateescape"), other._value.encode("utf-8", "surrogateescape")
        )

    def __hash__(self) -> int:
        return hash(self._value)


def kept_secret(data_dir: Path) -> Secret | None:
    """The secret of this data folder; None when it has none. Raises Trouble when others may read it."""
    path = data_dir / SECRET_FILE
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Trouble(
            f"cannot read {path}: {error.strerror}",
            "run as the user who owns the data folder, or choose another with --data-dir",
        ) from error
    if mode & 0o077:
        raise Trouble(f"{path} may be read by others", f"close it: chmod 600 {path}")
    if not text:
        raise Trouble(f"{path} is empty", f"remove it, and `zaplake up` makes a new one: rm {path}")
    return Secret(text)


def ensure_secret(data_dir: Path) -> Secret:
    """The folder's secret, made when there is none: mode 0600, durable, complete or absent."""
    kept = kept_secret(data_dir)
    if kept is not None:
        return kept
    try:
        _make_secret(data_dir)
    except OSError as error:
        raise Trouble(
            f"cannot write to the data folder {data_dir}: {error.strerror}",
            "free the disk, or choose a folder of your own with --data-dir",
        ) from error
    made = kept_secret(data_dir)
    assert made is not None
    return made


def _make_secret(data_dir: Path) -> None:
    data_dir.mkdir(parents=True, exist_ok=True)
    draft = data_dir / f"{SECRET_FILE}.{os.getpid()}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(SECRET_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first: its secret counts
            os.link(draft, data_dir / SECRET_FILE)
        sync_folder(data_dir)
    finally:
        draft.unlink(missing_ok=True)
