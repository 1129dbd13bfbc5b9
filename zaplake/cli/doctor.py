"""``zaplake doctor``: tries each thing and says what to run next."""

from __future__ import annotations

import asyncio

from zaplake.checkup import examine
from zaplake.cli.findings import tell
from zaplake.cli.options import Common, settle


def doctor(*, common: Common | None = None) -> int:
    """Try each thing on the way of an event and say what to run next.

    Looks at the data folder, disk, how long a synced write takes, the signing secret, Postgres, schema,
    blob store, backend, its clock, the open alerts of backend and collector, RabbitMQ when AMQP_URL is set,
    and, when ZAPLAKE_EVOLUTION_API_URL is set, at the gateway, its instances and their webhooks. Changes
    nothing but a probe in the blob store, which it removes. Exit code 1 when something needs you.

    **Examples**

    ```sh
    zaplake doctor
    zaplake doctor --data-dir /var/lib/zaplake
    ```
    """
    return asyncio.run(tell(examine(settle(common))))
