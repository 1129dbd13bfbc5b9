"""What to do about each alert, in one line; docs/operations.md says it at length, for the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ACCOUNTS: Final = "agree on one scope in [accounts] of all collectors"

STEPS: Final[Mapping[str, str]] = {
    "shipper.halted": "repair what it names (secret, URL, proxy), then it goes on by itself: zaplake doctor",
    "outbox.dead": "zaplake collector dead list; then dead requeue or dead drop",
    "blobs.halted": "repair what it names; zaplake doctor at the backend tries its blob store",
    "blobs.dead": "zaplake collector dead list; then dead requeue or dead drop",
    "outbox.backlog": "is the backend away or slow, or fails on one record? zaplake doctor",
    "outbox.filling": "bring the backend back, or raise the outbox's limits when the disk has room",
    "outbox.full": "bring the backend back; gateways get 503 and repeat until then",
    "outbox.disk": "free the disk; the collector goes on by itself",
    "outbox.corrupt": "keep the file that was set aside; check the disk (docs/operations.md)",
    "store.failing": "free or repair the disk at once; gateways get 503 and repeat until then",
    "janitor.failing": "look at the disk of the data folder",
    "heartbeat.refused": "the same ZAPLAKE_SIGNING_SECRETS and the same release at both ends",
    "clock.skew": "set the clock: run chrony or systemd-timesyncd on both machines",
    "door.secret": "give the gateway the secret of its entry in zaplake.toml (or ZAPLAKE_GATEWAY_TOKENS)",
    "door.no_secret": "set ZAPLAKE_GATEWAY_TOKENS, or `tokens` of this gateway's entry in zaplake.toml",
    "door.handshake": "set verify_token of this gateway's entry in zaplake.toml to the one Meta was given",
    "door.no_gateway": "repair the gateway's webhook URL, or add a [[gateways]] entry of that name",
    "door.path": "end the gateway's webhook URL in /gateways/<gateway>/<instance>",
    "door.too_large": "raise collector.limits.body_bytes_max, or switch off base64 in the gateway's webhook",
    "door.encoding": "let the sender, or the proxy between, use gzip or nothing",
    "door.failed": "report it with the collector's log line door.failed",
    "amqp.disconnected": "is RabbitMQ up, and are URL, user, password and vhost right? zaplake doctor",
    "amqp.refused": "delete the queue that it names when it is empty, or grant the rights it names",
    "amqp.mute": "it connects anew by itself; if it lasts, look at the broker's own alarms",
    "amqp.dlq": "look at the queue it names in RabbitMQ; its header says the reason; purge it when done",
    "channel.silent": "zaplake gateway check; does the instance still publish to RabbitMQ, and which events?",
    "instance.unknown": "add it to `instances` of its gateway, or to [accounts]",
    "instances.too_many": "raise collector.limits.instances_max, or find out who invents instance names",
    "scope.changed": _ACCOUNTS,
    "direct.token": "give it a token: zaplake gateway token create; or repair its URL (docs/operations.md)",
    "collector.silent": "is its machine up, and its way to the backend? zaplake doctor there",
    "collector.backlog": "zaplake collector status there",
    "collector.disk": "free the disk of its data folder",
    "instance.disconnected": "look at its phone; pair it again in the gateway",
    "inbox.stalled": "end the transaction that stays open on the log: docs/operations.md shows which",
    "inbox.behind": "is a zaplake work running, and is it fast enough? zaplake inbox status",
    "inbox.paused": "zaplake inbox status; repair the rule, then zaplake inbox resume",
    "inbox.dead": "zaplake inbox failures; repair the rule, then zaplake inbox replay CONSUMER --dead",
    "instance.silent": "restart it in the gateway: a dead socket may call itself open",
    "instance.deaf": "restart it in the gateway, or was that kind switched off there?",
    "channels.diverge": "select * from lake.channel_coverage: which channel loses, since when?",
}
