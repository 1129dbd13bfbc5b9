"""Every SQL statement of ours, each with a name and a why; what an operator asks comes from them."""

from __future__ import annotations

from typing import Final

# For people as it calls itself (also "15.4 (Debian 15.4-1)"), and as a number that can be compared.
SERVER_VERSION: Final = """
SELECT current_setting('server_version') AS name, current_setting('server_version_num')::integer AS number
"""

# Where Alembic notes the step that this database is at (migrations/env.py).
SCHEMA_VERSION: Final = "SELECT version_num FROM lake.schema_version"

# What the backend's watch raised and nothing has ended; the newest tell most.
OPEN_ALERTS: Final = """
SELECT name, subject FROM lake.alerts WHERE resolved_at IS NULL ORDER BY raised_at DESC LIMIT $1
"""
