"""A real file system of a few MiB, to be filled (needs the right to mount one); a limit that needs none."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.missing import missing, refused_by_ci


class NoMount(Exception):
    """This machine lets us mount nothing; the message says why."""


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A tmpfs, unmounted at the end whatever still uses it. Raises NoMount."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        raise NoMount("only root may mount a tmpfs")
    disk = folder / "disk"
    disk.mkdir()
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={mib}m", "none", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise NoMount(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run([umount, "--lazy", str(disk)], check=True)


def without_mount(error: NoMount) -> None:
    """Says loudly what is not tried; under CI that is a failure."""
    print(f"\n*** NOT TRIED ON A REAL DISK: {error} ***")
    refused_by_ci(f"CI must try it on a real disk: {error}")


@contextlib.contextmanager
def needed_disk(folder: Path, mib: int) -> Iterator[Path]:
    """``small_disk``, or the test is skipped."""
    try:
        with small_disk(folder, mib) as disk:
            yield disk
    except NoMount as error:
        missing(f"not tried on a real disk: {error}")


def fill(disk: Path) -> Path:
    """Take the last byte of the disk; returns the file to delete."""
    hog = disk / "hog"
    with contextlib.suppress(OSError), hog.open("wb", buffering=0) as other:
        while other.write(b"x" * 4_096):
            pass
    return hog


@contextlib.contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The operating system refuses to let any file of this process grow beyond it, as a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
