"""``zaplake doctor``: tries each thing and says what to run next."""

from __future__ import annotations

import asyncio

from zaplake.checkup import examine
from zaplake.cli.options import Common, settle
from zaplake.settings import Settings


def doctor(*, common: Common | None = None) -> int:
    """Try each thing on the way of an event and say what to run next.

    Looks at the data folder, the secret, Postgres, schema, backend and collector. Changes nothing.
    Exit code 1 when something needs you.

    **Examples**

    ```sh
    zaplake doctor
    zaplake doctor --data-dir /var/lib/zaplake
    ```
    """
    return asyncio.run(_report(settle(common)))


async def _report(settings: Settings) -> int:
    bad = 0
    async for finding in examine(settings):
        if finding.is_well:
            print(f"ok    {finding.what}", flush=True)
        else:
            bad += 1
            print(f"WRONG {finding.what}\n      → {finding.next_step}", flush=True)
    return 1 if bad else 0
