"""A stand-in for Evolution's REST API, as far as connecting a webhook goes: its answers and its mistakes.

Bodies and statuses were recorded of 2.3.7 (``tests/simulator/fixtures/rest``); 1.8 is by its source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from asgi.answers import send_answer
from asgi.body import BodyBudget, ClientGone, read_body
from asgi.types import Receive, Scope, Send

EVENTS_V1: Final = (
    "APPLICATION_STARTUP", "QRCODE_UPDATED", "MESSAGES_SET", "MESSAGES_UPSERT", "MESSAGES_UPDATE",
    "MESSAGES_DELETE", "SEND_MESSAGE", "CONTACTS_SET", "CONTACTS_UPSERT", "CONTACTS_UPDATE",
    "PRESENCE_UPDATE", "CHATS_SET", "CHATS_UPSERT", "CHATS_UPDATE", "CHATS_DELETE", "GROUPS_UPSERT",
    "GROUP_UPDATE", "GROUP_PARTICIPANTS_UPDATE", "CONNECTION_UPDATE", "LABELS_EDIT", "LABELS_ASSOCIATION",
    "CALL", "TYPEBOT_START", "TYPEBOT_CHANGE_STATUS",
)  # fmt: skip
EVENTS_V2: Final = (
    "APPLICATION_STARTUP", "QRCODE_UPDATED", "MESSAGES_SET", "MESSAGES_UPSERT", "MESSAGES_EDITED",
    "MESSAGES_UPDATE", "MESSAGES_DELETE", "SEND_MESSAGE", "SEND_MESSAGE_UPDATE", "CONTACTS_SET",
    "CONTACTS_UPSERT", "CONTACTS_UPDATE", "PRESENCE_UPDATE", "CHATS_SET", "CHATS_UPSERT", "CHATS_UPDATE",
    "CHATS_DELETE", "GROUPS_UPSERT", "GROUP_UPDATE", "GROUP_PARTICIPANTS_UPDATE", "CONNECTION_UPDATE",
    "LABELS_EDIT", "LABELS_ASSOCIATION", "CALL", "TYPEBOT_START", "TYPEBOT_CHANGE_STATUS", "REMOVE_INSTANCE",
    "LOGOUT_INSTANCE", "INSTANCE_CREATE", "INSTANCE_DELETE", "STATUS_INSTANCE",
)  # fmt: skip
BODY_BYTES_MAX: Final = 1024 * 1024
_LICENCE: Final = {
    "error": "service not activated",
    "code": "LICENSE_REQUIRED",
    "message": "This Evolution API instance is not activated.",
}


class _Answer(Exception):
    """Ends a request with an error of Evolution's envelope."""

    def __init__(self, status: int, error: str, message: object) -> None:
        super().__init__(error)
        self.status = status
        self.document = {"status": status, "error": error, "response": {"message": message}}


@dataclass
class EvolutionApi:
    """An ASGI application. ``instances``: name to state; None is an instance that is not loaded."""

    key: str
    version: str = "2.3.7"
    instances: dict[str, str | None] = field(default_factory=dict)
    webhooks: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_licensed: bool = True
    is_database_up: bool = True
    """Without its database it answers 401 to a valid instance token."""
    keeps_headers: bool = True
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Stored messages of an instance."""
    requests: list[tuple[str, str, object]] = field(default_factory=list)
    """Method, path and body of each."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(
                scope, receive, body_bytes_max=BODY_BYTES_MAX, budget=BodyBudget(BODY_BYTES_MAX)
            )
        except ClientGone:
            return
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        try:
            status, document = self._answer(scope, headers, json.loads(body) if body else None)
        except _Answer as error:
            status, document = error.status, error.document
        await send_answer(send, status, json.dumps(document).encode(), b"application/json; charset=utf-8")

    def _answer(self, scope: Scope, headers: Mapping[str, str], body: Any) -> tuple[int, object]:
        method, path = scope["method"], scope["path"]
        self.requests.append((method, path, body))
        if not self.is_licensed:
            return 503, _LICENCE
        if path == "/":
            return 200, {
                "status": 200,
                "message": "Welcome to the Evolution API, it is working!",
                "version": self.version,
            }
        if (method, path) == ("GET", "/instance/fetchInstances"):
            self._check_key(headers)
            query = parse_qs(scope["query_string"].decode())
            return 200, self._listed(query.get("instanceName", [None])[0])
        action, _, name = path.rpartition("/")
        instance = unquote(name)
        does = {
            ("GET", "/instance/connectionState"): self._state,
            ("GET", "/webhook/find"): lambda instance, _body: (200, self.webhooks.get(instance)),
            ("POST", "/chat/findMessages"): self._messages,
            ("POST", "/webhook/set"): self._set_v1 if self._is_v1 else self._set_v2,
        }.get((method, action))
        if does is None:
            raise _Answer(404, "Not Found", [f"Cannot {method} {path}"])
        if instance not in self.instances:
            raise _Answer(404, "Not Found", [f'The "{instance}" instance does not exist'])
        self._check_key(headers)
        return does(instance, body)

    @property
    def _is_v1(self) -> bool:
        return self.version.startswith("1.")

    def _check_key(self, headers: Mapping[str, str]) -> None:
        if headers.get("apikey") != self.key or not self.is_database_up:
            raise _Answer(401, "Unauthorized", "Unauthorized")

    def _state(self, instance: str, _body: object) -> tuple[int, object]:
        state = self.instances[instance]
        shown = {"instanceName": instance}
        return 200, {"instance": shown if state is None else {**shown, "state": state}}

    def _messages(self, instance: str, body: Any) -> tuple[int, object]:
        """The newest first; ``offset`` is the size of a page."""
        stored = sorted(self.messages.get(instance, []), key=lambda m: m["messageTimestamp"], reverse=True)
        given = body if isinstance(body, dict) else {}
        size, page = int(given.get("offset") or 50), int(given.get("page") or 1)
        found = {
            "total": len(stored),
            "pages": -(-len(stored) // size),
            "currentPage": page,
            "records": stored[(page - 1) * size : page * size],
        }
        return 200, {"messages": found}

    def _listed(self, name: str | None) -> list[object]:
        if name is not None and name not in self.instances:
            raise _Answer(404, "Not Found", [f'Instance "{name}" not found'])
        chosen = {name: self.instances[name]} if name is not None else self.instances
        if self._is_v1:
            return [{"instance": {"instanceName": each, "status": state}} for each, state in chosen.items()]
        return [
            {"name": each, "connectionStatus": state or "close", "token": "an-instance-token"}
            for each, state in chosen.items()
        ]

    def _set_v2(self, instance: str, body: Any) -> tuple[int, object]:
        given = body.get("webhook") if isinstance(body, dict) else None
        if not isinstance(given, dict):
            raise _Answer(400, "Bad Request", [['instance requires property "webhook"']])
        events = self._events(given, EVENTS_V2, "webhook.events")
        if self.instances[instance] is None:
            self._undefined("instanceId")
        before = self.webhooks.get(instance, {}).get("headers")
        self.webhooks[instance] = {
            "id": "cm000000000000000000000",
            "url": given["url"],
            "headers": given.get("headers", before) if self.keeps_headers else None,
            "enabled": given["enabled"],
            "events": events,
            "webhookByEvents": given.get("byEvents", False),
            "webhookBase64": given.get("base64", False),
        }
        return 201, self.webhooks[instance]

    def _set_v1(self, instance: str, body: Any) -> tuple[int, object]:
        if not isinstance(body, dict) or "url" not in body:
            raise _Answer(400, "Bad Request", [['instance requires property "url"']])
        kept = {
            "url": body["url"],
            "enabled": body.get("enabled", True),
            "events": self._events(body, EVENTS_V1, "events"),
            "webhook_by_events": body.get("webhook_by_events", False),
            "webhook_base64": body.get("webhook_base64", False),
        }
        self.webhooks[instance] = kept
        return 201, {"webhook": {"instanceName": instance, "webhook": kept}}

    def _events(self, given: Mapping[str, Any], known: tuple[str, ...], where: str) -> list[str]:
        """An empty list means all; a missing one is a mistake of Evolution's."""
        for place, event in enumerate(given.get("events", ())):
            if event not in known:
                message = f"{where}[{place}] is not one of enum values: {','.join(known)}"
                raise _Answer(400, "Bad Request", [[message]])
        if "events" not in given:
            self._undefined("length")
        return list(given["events"] or known)

    def _undefined(self, name: str) -> None:
        message = f"Cannot read properties of undefined (reading '{name}')"
        raise _Answer(500, "Internal Server Error", message)
