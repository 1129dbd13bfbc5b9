"""The webhook that an Evolution instance should have, what it has, and where the two differ. Pure.

Evolution 2 takes it under ``webhook`` and sends headers of ours; 1.8 takes it flat and sends none, so there
the secret is a segment of the URL's path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

Api: TypeAlias = Literal[1, 2]

TOKEN_HEADER: Final = "X-Collector-Token"  # noqa: S105 (a header's name)
JWT_HEADER: Final = "jwt_key"
"""Evolution 2 replaces it by a signed token."""
NEEDED_V1: Final = (
    "CALL", "CHATS_DELETE", "CHATS_UPDATE", "CHATS_UPSERT", "CONNECTION_UPDATE", "CONTACTS_UPDATE",
    "CONTACTS_UPSERT", "GROUPS_UPSERT", "GROUP_PARTICIPANTS_UPDATE", "LABELS_ASSOCIATION", "LABELS_EDIT",
    "MESSAGES_DELETE", "MESSAGES_SET", "MESSAGES_UPDATE", "MESSAGES_UPSERT", "SEND_MESSAGE",
)  # fmt: skip
"""What every release can send and the lake has a place for; when all were asked for, these must be there."""
NEEDED_V2: Final = (*NEEDED_V1, "MESSAGES_EDITED")
HIDDEN: Final = "***"
EVENTS_TOLD_MAX: Final = 4
_OUR_PATH: Final = re.compile(r"(?P<door>.*/gateways/[^/]+)(?P<secret>/[^/]+)?(?P<instance>/[^/]+)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """As asked for or as found. No ``events`` means all of them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    enabled: bool = True
    base64: bool = False
    """Media inside the bodies; it is the operator's choice and left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What opens our door for this gateway; both empty when only this machine may post."""

    token: str = ""
    jwt_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as wanted; without secrets."""

    what: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.what}: {self.found} instead of {self.wanted}"


def api_of(version: str) -> Api:
    """Which shapes a release speaks; an unknown one is taken for a new one."""
    return 1 if version.startswith("1.") else 2


def door_path(api: Api, gateway: str, instance: str, credential: Credential) -> str:
    """The path of our door, without the collector's address."""
    secret = f"/{quote(credential.token, safe='')}" if api == 1 and credential.token else ""
    return f"/gateways/{quote(gateway, safe='')}{secret}/{quote(instance, safe='')}"


def headers_for(api: Api, credential: Credential) -> dict[str, str]:
    """The headers that Evolution has to send."""
    if api == 1:
        return {}
    if credential.token:
        return {TOKEN_HEADER: credential.token}
    return {JWT_HEADER: credential.jwt_key} if credential.jwt_key else {}


def body_for(api: Api, webhook: Webhook) -> dict[str, object]:
    """The body of ``webhook/set``. ``events`` is always there: without it Evolution answers 500."""
    if api == 1:
        return {
            "url": webhook.url,
            "enabled": webhook.enabled,
            "events": list(webhook.events),
            "webhook_by_events": False,
            "webhook_base64": webhook.base64,
        }
    return {
        "webhook": {
            "enabled": webhook.enabled,
            "url": webhook.url,
            "headers": dict(webhook.headers),
            "byEvents": False,
            "base64": webhook.base64,
            "events": list(webhook.events),
        }
    }


def read(document: object) -> Webhook | None:
    """The webhook of an answer of any release, also of ``{"webhook": {"webhook": …}}``; None without one."""
    row: Any = document
    while isinstance(row, dict) and isinstance(row.get("webhook"), dict):
        row = row["webhook"]
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        return None
    headers, events = row.get("headers"), row.get("events")
    base64 = row.get("webhookBase64", row.get("webhook_base64"))
    return Webhook(
        url=row["url"],
        headers={str(name): str(value) for name, value in headers.items()}
        if isinstance(headers, dict)
        else {},
        events=tuple(str(event) for event in events) if isinstance(events, list) else (),
        enabled=row.get("enabled") is True,
        base64=base64 is True,
    )


def differences(api: Api, wanted: Webhook, found: Webhook | None, secrets: Sequence[str]) -> list[Difference]:
    """What has to change. A wanted URL without an address (a path alone) is compared by its path."""
    if found is None:
        return [Difference(what="webhook", found="none", wanted=shown(wanted.url, secrets))]
    return list(_differences(api, wanted, found, secrets))


def _differences(api: Api, wanted: Webhook, found: Webhook, secrets: Sequence[str]) -> Iterator[Difference]:
    is_path_alone = wanted.url.startswith("/")
    if (urlsplit(found.url).path if is_path_alone else found.url).rstrip("/") != wanted.url.rstrip("/"):
        yield Difference(what="url", found=shown(found.url, secrets), wanted=shown(wanted.url, secrets))
    if not found.enabled:
        yield Difference(what="enabled", found="no", wanted="yes")
    theirs = {name.lower(): value for name, value in found.headers.items()}
    for name, value in wanted.headers.items():
        if theirs.get(name.lower()) != value:
            there = "another secret" if name.lower() in theirs else "none"
            yield Difference(what=f"header {name}", found=there, wanted=HIDDEN)
    needed = wanted.events or (NEEDED_V1 if api == 1 else NEEDED_V2)
    missing = [event for event in needed if event not in found.events]
    if missing:
        yield Difference(what="events", found=f"without {_some(missing)}", wanted="with them")
    more = [event for event in found.events if wanted.events and event not in wanted.events]
    if more:
        yield Difference(what="events", found=f"also {_some(more)}", wanted="without them")


def _some(events: Sequence[str]) -> str:
    further = len(events) - EVENTS_TOLD_MAX
    told = ", ".join(events[:EVENTS_TOLD_MAX])
    return f"{told} and {further} more" if further > 0 else told


def shown(url: str, secrets: Sequence[str]) -> str:
    """A URL for people: no secret of ours, of before, or of somebody else's door.

    User, password and query are left out, and so is a path that is none of ours.
    """
    for secret in secrets:
        if secret:
            url = url.replace(quote(secret, safe=""), HIDDEN).replace(secret, HIDDEN)
    try:
        parts = urlsplit(url)
    except ValueError:
        return "no URL"
    ours = _OUR_PATH.fullmatch(parts.path)
    if ours:
        path = f"{ours['door']}/{HIDDEN}{ours['instance']}" if ours["secret"] else parts.path
    else:
        path = f"/{HIDDEN}" if parts.path.strip("/") else parts.path
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, address, path, HIDDEN if parts.query else "", ""))
