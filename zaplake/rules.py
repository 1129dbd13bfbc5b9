"""Which consumers read the lake's log, and which rules each of them has: here rooms meet the inbox."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.inbox.consumer import Consumer
from ingest.rules import chats, instances, lid_pairs
from zaplake.trouble import UsageTrouble


def all_consumers() -> list[Consumer]:
    """Every consumer of this release; their names stand in the database and are never changed."""
    return [Consumer(name="rules", rules=(instances.RULE, lid_pairs.RULE, chats.RULE))]


def consumers_of(names: Sequence[str]) -> list[Consumer]:
    """Those of these names; without any, all. Raises UsageTrouble for one that there is not."""
    found = {consumer.name: consumer for consumer in all_consumers()}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageTrouble(f"there is no consumer {unknown[0]!r}", f"name one of: {', '.join(found)}")
    return [found[name] for name in dict.fromkeys(names)] if names else list(found.values())
