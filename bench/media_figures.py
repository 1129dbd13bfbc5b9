"""Figures of large bodies: the memory that a collector takes for a picture in a webhook, as a multiple."""

from __future__ import annotations

import base64
import http.client
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.collector_figures import NO_BACKEND, collecting
from bench.harness import Line, Options, expect_rows, in_turn, say

MB: Final = 1_000_000
SIZES_MB: Final = (16, 136)
"""A usual video, and the largest body that Evolution sends."""
MULTIPLE_MAX: Final = 1.0
POST_S_MAX: Final = 120.0
_PIECE: Final = base64.b64encode(bytes(range(256)) * 768)


def media(_server_dsn: str, options: Options) -> list[Line]:
    """Peak memory of a fresh collector's process for one picture, above what it had after a small body."""

    def multiple(run: str, size_mb: int) -> float:
        with tempfile.TemporaryDirectory(prefix="zlbench-") as folder:
            with collecting(Path(folder), NO_BACKEND) as collector:
                _post(collector.ready.port, f"{run}small", 0)
                before = _peak_bytes(collector.pid)
                _post(collector.ready.port, f"{run}large", size_mb * MB)
                grown = _peak_bytes(collector.pid) - before
            say(f"  # {size_mb} MB: {grown / MB:.1f} MB more at the peak")
            files = [path for path in (Path(folder) / "blobs").glob("*") if path.is_file()]
            expect_rows("media", acknowledged=1, found=len(files))
        return grown / (size_mb * MB)

    def measure(size_mb: int) -> float:
        (taken,) = in_turn(
            {f"{size_mb} MB: multiple": lambda run: multiple(run, size_mb)}, options.runs
        ).values()
        return max(taken, 0.01)

    return [
        Line(
            name=f"door_{size_mb}mb_media_peak_memory",
            ours=measure(size_mb),
            reference=MULTIPLE_MAX,
            goal=1.0,
            at_most=True,
        )
        for size_mb in SIZES_MB
    ]


def _post(port: int, number: str, body_bytes: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=POST_S_MAX)
    connection.request("POST", "/gateways/evolution/loja-sp", body=_body(number, body_bytes))
    status = connection.getresponse().status
    connection.close()
    expect_rows("media", acknowledged=1, found=int(status == 200))


def _body(number: str, body_bytes: int) -> Iterator[bytes]:
    key = {"id": number, "remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False}
    yield b'{"event":"messages.upsert","instance":"loja-sp","date_time":"d","data":{"key":'
    yield json.dumps(key).encode() + b',"message":{"imageMessage":{},"base64":"'
    for _ in range(body_bytes // len(_PIECE)):
        yield _PIECE
    yield b'"}}}'


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
