"""The bytes that the load client sends: signed events, signed batches, gateway webhooks; no id twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from contracts import identity, signing
from contracts.compact import compact_json

SECRET: Final = b"bench-signing-secret-of-thirty-two-bytes"
INSTANCE: Final = "bench"
_TEXT: Final = "Bom dia! O pedido saiu hoje cedo e chega amanhã à tarde. " * 2


def element(run: str, number: int) -> dict[str, Any]:
    """A text message as Evolution and Baileys give it, some 450 bytes."""
    return {
        "key": {
            "remoteJid": f"55119{number % 10_000:08d}@s.whatsapp.net",
            "fromMe": False,
            "id": f"3EB0{run}{number:012X}",
        },
        "pushName": "Cliente de teste",
        "status": "DELIVERY_ACK",
        "message": {"conversation": _TEXT, "messageContextInfo": {"deviceListMetadataVersion": 2}},
        "messageType": "conversation",
        "messageTimestamp": 1_760_000_000 + number,
        "instanceId": "00000000-0000-4000-8000-000000000001",
        "source": "android",
    }


def digest(number: int) -> bytes:
    """16 bytes, as contract §4 has them; what they are made of does not matter here."""
    return hashlib.md5(str(number).encode(), usedforsecurity=False).digest()


def event_id(run: str, number: int) -> str:
    return identity.event_id("bench", "message", (run, number))


def event(run: str, number: int) -> dict[str, Any]:
    """The wire event of contract §1 with the fields that our collector sends."""
    payload = element(run, number)
    return {
        "type": "messages.upsert",
        "chat_jid": payload["key"]["remoteJid"],
        "instance": INSTANCE,
        "gateway": "evolution",
        "scope": f"evolution/{INSTANCE}",
        "channel": "webhook",
        "kind": "message",
        "occurred_at": "2026-01-02T03:04:05Z",
        "occurred_from": "message",
        "captured_at": "2026-01-02T03:04:06Z",
        "digest": digest(number).hex(),
        "payload": payload,
    }


def _post(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _signed(path: str, id_: str, body: bytes, content_type: str) -> bytes:
    signature = signing.sign(SECRET, id_, body)
    headers = {"Content-Type": content_type, "X-Event-Id": id_, "X-Signature": signature}
    return _post(path, body, headers | {"X-Collector": "bench"})


def single(run: str, numbers: Iterator[int], batch: int) -> bytes:
    """One signed event (contract §1)."""
    number = next(numbers)
    body = compact_json(event(run, number))
    return _signed("/api/webhooks/whatsapp", event_id(run, number), body, "application/json")


def batch(run: str, numbers: Iterator[int], size: int) -> bytes:
    """One signed request of ``size`` events (contract §2)."""
    taken = [next(numbers) for _ in range(size)]
    ids = [event_id(run, number) for number in taken]
    lines = [{"event_id": id_} | event(run, number) for id_, number in zip(ids, taken, strict=True)]
    body = b"\n".join(map(compact_json, lines))
    return _signed("/api/webhooks/whatsapp/batch", identity.batch_id(ids), body, "application/x-ndjson")


def webhook_body(run: str, number: int) -> bytes:
    """What Evolution 2.3 posts, and publishes but for ``destination``."""
    body = {
        "event": "messages.upsert",
        "instance": INSTANCE,
        "data": element(run, number),
        "destination": "http://127.0.0.1/gateways/evolution",
        "date_time": "2026-01-02T00:04:05.000Z",
        "sender": "5511900000001@s.whatsapp.net",
        "server_url": "http://127.0.0.1:8080",
        "apikey": "bench-apikey-that-is-cut",
    }
    return compact_json(body)


def webhook(run: str, numbers: Iterator[int], batch: int) -> bytes:
    """One Evolution 2.3 webhook, as the gateway posts it to the collector (contract §9)."""
    body = webhook_body(run, next(numbers))
    return _post(f"/gateways/evolution/{INSTANCE}", body, {"Content-Type": "application/json"})


SHAPES: Final[dict[str, Callable[[str, Iterator[int], int], bytes]]] = {
    "single": single,
    "batch": batch,
    "webhook": webhook,
}
