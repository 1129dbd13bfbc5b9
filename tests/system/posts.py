"""Events that the driver sends: as a gateway posts them to the collector, and signed for the backend."""

from __future__ import annotations

import json
import random
import uuid

from contracts.envelope import EVENT_PATH
from contracts.signing import sign
from tests.support.dying import SECRET
from tests.support.load import Post

_NAMESPACE = uuid.UUID("d0108709-ef11-53c7-8e68-9953e8afdb48")
_ALPHABET = 'abcdefghij KLMNOP 0123456789 çãéñ ‰ 日本 😀 "quoted" back\\slash \n'


def webhook(number: int) -> Post:
    """An Evolution webhook of one message; the lake must hold its ``data``."""
    element = _element(number)
    body = {
        "event": "messages.upsert",
        "instance": f"loja-{number % 3}",
        "data": element,
        "date_time": "2026-01-02T00:04:05.000Z",
        "apikey": "invented-apikey",
    }
    path = f"/gateways/evolution/loja-{number % 3}"
    return _post(element, path, json.dumps(body).encode(), {})


def signed(number: int) -> Post:
    """A signed event with only the three fields that every sender knows."""
    element = _element(number)
    event = {"type": "messages.upsert", "chat_jid": "5511900000001@s.whatsapp.net", "payload": element}
    body = json.dumps(event, ensure_ascii=False).encode()
    event_id = str(uuid.uuid5(_NAMESPACE, f"kill test {number}"))
    headers = {"X-Event-Id": event_id, "X-Signature": sign(SECRET, event_id, body)}
    return _post(element, EVENT_PATH, body, headers)


def mark_of(payload: object) -> str:
    """The message's own id, by which the ledger knows it."""
    assert isinstance(payload, dict)
    return str(payload["key"]["id"])


def _element(number: int) -> dict[str, object]:
    chance = random.Random(number)
    text = "".join(chance.choices(_ALPHABET, k=chance.randrange(1, 400)))
    return {
        "key": {
            "remoteJid": f"55119{number % 500:08d}@s.whatsapp.net",
            "fromMe": False,
            "id": f"3EB0{number:016X}",
        },
        "pushName": "Ana",
        "message": {"conversation": text},
        "messageTimestamp": 1_760_000_000 + number,
        "numbers": [number, -1.5, 10**30, None, True],
    }


def _post(element: dict[str, object], path: str, body: bytes, headers: dict[str, str]) -> Post:
    headers = {"Content-Type": "application/json", **headers}
    return Post(mark=mark_of(element), payload=element, path=path, headers=headers, body=body)
