"""The two shippers of one outbox: blobs go by themselves, and events follow once theirs are there."""

from __future__ import annotations

from collector.alerts import Alerts
from collector.backend import Backend
from collector.config import CollectorConfig
from collector.shipper_alerts import BLOBS, telling
from collector.shipping import HttpTransport
from collector.uploading import BlobTransport
from outbox.clock import Clock
from outbox.shipper import Shipper, ShipperConfig
from outbox.store import Store


class Shippers:
    """What is away, halted or broken for one of them does not hold up the other."""

    def __init__(
        self, config: CollectorConfig, *, store: Store, backend: Backend, clock: Clock, alerts: Alerts
    ) -> None:
        limits = config.limits
        self.events = Shipper(
            store,
            HttpTransport(backend),
            clock,
            ShipperConfig(
                batch_records_max=limits.batch_records_max,
                batch_bytes_max=limits.batch_bytes_max,
                in_flight_max=limits.batches_in_flight_max,
                solo_in_flight_max=limits.solos_in_flight_max,
                drain_s_max=limits.drain_s,
            ),
            telling(alerts),
        )
        self.blobs = Shipper(
            store.blobs,
            BlobTransport(backend, store.blobs),
            clock,
            ShipperConfig(
                batch_records_max=1,
                in_flight_max=limits.blobs_in_flight_max,
                solo_in_flight_max=1,
                drain_s_max=limits.drain_s,
            ),
            telling(alerts, BLOBS),
        )
        store.blobs.when_freed(self.events.wake)

    def wake(self) -> None:
        """Something was put: look at the outbox now."""
        self.events.wake()
        self.blobs.wake()
