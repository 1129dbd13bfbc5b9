"""What must not start does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.config import ConfigError, IngestConfig


@pytest.mark.parametrize("secrets", [(), (b"",), (b"right", b"")])
def test_an_empty_secret_stops_the_start(secrets: tuple[bytes, ...]) -> None:
    with pytest.raises(ConfigError, match="secret"):
        IngestConfig(dsn="postgresql://", secrets=secrets)


@pytest.mark.parametrize(
    "pair",
    [
        {"body_bytes_max": 10, "bodies_bytes_max": 9},
        {"batch_lines_max": 10, "queue_rows_max": 9},
        {"writer_connections": 0},
        {"group_rows_max": 0},
        {"requests_max": 0},
        {"rate_events_per_s": 0.0},
        {"rate_burst": 0},
        {"rate_senders_max": 0},
        {"commit_s_max": 0.0},
        {"drain_s_max": -1.0},
        {"blob_bytes_max": 0},
        {"blob_spool_bytes_max": 9, "blob_bytes_max": 10},
        {"blob_grace_s": 3_600.0},
        {"bodies_bytes_max": 1_000_000, "body_bytes_max": 1_000, "blob_folder": Path("blobs")},
    ],
)
def test_a_dangerous_pair_of_settings_is_refused(pair: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(pair))):
        IngestConfig(dsn="postgresql://", secrets=(b"right",), **pair)
