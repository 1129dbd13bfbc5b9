"""The direct door's SQL: tokens by their hash. Each statement has a name and a why."""

from __future__ import annotations

from typing import Final

TOKENS_MAX: Final = 10_000
"""Tokens that are not revoked; a process knows them all, so that an unknown one costs no query of its own."""

# All that open the door now. Read as a whole at most once a second and process.
LIVE_GRANTS: Final = """
SELECT id, hash, gateway, family, instances, last_used_at
  FROM lake.gateway_tokens WHERE revoked_at IS NULL ORDER BY created_at, id LIMIT $1
"""

# How a gateway wants to be refused depends on its family, also after its last token was revoked.
FAMILIES: Final = """
SELECT DISTINCT ON (gateway) gateway, family
  FROM lake.gateway_tokens ORDER BY gateway, created_at DESC LIMIT $1
"""

# To the hour: often enough to find tokens that nobody uses, seldom enough to cost nothing.
TOUCH_GRANT: Final = """
UPDATE lake.gateway_tokens SET last_used_at = date_trunc('hour', now(), 'UTC')
 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < date_trunc('hour', now(), 'UTC'))
"""

# One gateway is of one family; the lock keeps two creators from saying different ones, or too many.
CREATE_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('lake.gateway_tokens create'))"
COUNT_LIVE_GRANTS: Final = "SELECT count(*) FROM lake.gateway_tokens WHERE revoked_at IS NULL"
FAMILY_OF_GATEWAY: Final = """
SELECT family FROM lake.gateway_tokens WHERE gateway = $1 AND revoked_at IS NULL LIMIT 1
"""
CREATE_GRANT: Final = """
INSERT INTO lake.gateway_tokens (id, hash, gateway, family, instances) VALUES ($1, $2, $3, $4, $5)
RETURNING created_at
"""

# For people: never the hash. $1: the revoked ones too.
LIST_GRANTS: Final = """
SELECT id, gateway, family, instances, created_at, last_used_at, revoked_at
  FROM lake.gateway_tokens WHERE $1 OR revoked_at IS NULL ORDER BY gateway, created_at, id
"""

# Once revoked it stays revoked, at the first time.
REVOKE_GRANT: Final = """
UPDATE lake.gateway_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1
RETURNING gateway, revoked_at
"""
