"""Connects an Evolution instance's webhook to a collector's door, and looks whether it is connected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from contracts.configured import GatewayConfig
from zaplake import webhook
from zaplake.evolution import Evolution
from zaplake.finding import Finding
from zaplake.settings import LOOPBACK, Settings
from zaplake.trouble import Trouble, UsageTrouble
from zaplake.webhook import Api, Credential, Difference, Webhook
from zaplake.wiring import verbs_config

INSTANCES_MAX: Final = 200
"""Instances that one check looks at."""
OPEN: Final = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Our door as Evolution has to call it. ``collector_url`` is empty where only the path is known."""

    gateway: GatewayConfig
    collector_url: str
    credential: Credential

    def webhook(self, api: Api, instance: str, events: Sequence[str] = ()) -> Webhook:
        """What the instance should have."""
        path = webhook.door_path(api, self.gateway.name, instance, self.credential)
        return Webhook(
            url=f"{self.collector_url.rstrip('/')}{path}",
            headers=webhook.headers_for(api, self.credential),
            events=tuple(events),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What was found, what was done, and what is still not as wanted. Holds no secret."""

    instance: str
    version: str
    state: str | None
    url: str
    before: Sequence[Difference]
    after: Sequence[Difference]
    changed: bool


def door_of(settings: Settings) -> Door:
    """The door of ``evolution.gateway``, else of the only Evolution gateway. Raises UsageTrouble."""
    config = verbs_config(settings)
    found = [
        each
        for each in config.gateways
        if each.family == "evolution" and settings.evolution.gateway in {"", each.name}
    ]
    if len(found) != 1:
        names = ", ".join(each.name for each in config.gateways if each.family == "evolution") or "none"
        raise UsageTrouble(
            f"there are {len(found)} such gateways of the family evolution",
            f"name one: --gateway, ZAPLAKE_EVOLUTION_GATEWAY; configured: {names}",
        )
    collector_url = settings.evolution.collector_url
    if collector_url and urlsplit(collector_url).scheme not in {"http", "https"}:
        raise UsageTrouble(
            "evolution.collector_url is no http(s) URL", "write it as http://collector:8080, without a path"
        )
    (chosen,) = found
    credential = Credential(
        token=chosen.tokens[0] if chosen.tokens else "", jwt_key=chosen.jwt_keys[0] if chosen.jwt_keys else ""
    )
    return Door(gateway=chosen, collector_url=collector_url, credential=credential)


def client_of(settings: Settings) -> Evolution:
    """Evolution's API. Raises UsageTrouble when it is not set."""
    if not settings.evolution.api_url:
        raise UsageTrouble("no Evolution API is named", "give --url, or set ZAPLAKE_EVOLUTION_API_URL")
    if settings.evolution.api_key is None:
        raise UsageTrouble(
            "no API key is set",
            "set ZAPLAKE_EVOLUTION_API_KEY (or evolution.api_key); it is no option, so that no list shows it",
        )
    return Evolution(settings.evolution.api_url, settings.evolution.api_key.reveal())


async def connect(
    evolution: Evolution, door: Door, instance: str, events: Sequence[str], *, dry_run: bool
) -> Connected:
    """Sets the webhook where it differs, and reads it back. Raises Trouble."""
    version = await evolution.version()
    api = webhook.api_of(version)
    _refuse_open_door(api, door)
    found = await evolution.webhook(instance)
    wanted = replace(door.webhook(api, instance, events), base64=found is not None and found.base64)
    secrets = door.gateway.secrets
    before = webhook.differences(api, wanted, found, secrets)
    after, changed = before, False
    if before and not dry_run:
        await evolution.set_webhook(instance, webhook.body_for(api, wanted))
        changed = True
        after = webhook.differences(api, wanted, await evolution.webhook(instance), secrets)
    return Connected(
        instance=instance,
        version=version,
        state=await evolution.state(instance),
        url=webhook.shown(wanted.url, secrets),
        before=before,
        after=after,
        changed=changed,
    )


def _refuse_open_door(api: Api, door: Door) -> None:
    host = urlsplit(door.collector_url).hostname
    if host is None:
        raise UsageTrouble(
            "how Evolution reaches the collector is not known",
            "give --collector-url, or set ZAPLAKE_EVOLUTION_COLLECTOR_URL",
        )
    has_usable = bool(door.credential.token) or (api == 2 and bool(door.credential.jwt_key))
    if not has_usable and host not in LOOPBACK:
        raise UsageTrouble(
            f"gateway {door.gateway.name} has no secret that Evolution could send: only loopback may post",
            "set ZAPLAKE_GATEWAY_TOKENS, or `tokens` of its entry in zaplake.toml; restart the collector",
        )


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Gateway reachable, each instance open and its webhook ours. Changes nothing, raises nothing."""
    try:
        door = door_of(settings)
        evolution = client_of(settings)
    except Trouble as trouble:
        yield Finding(what=trouble.what, next_step=trouble.next_step)
        return
    async with evolution:
        try:
            version = await evolution.version()
            instances = list(door.gateway.instances) or await evolution.instances()
        except Trouble as trouble:
            yield Finding(what=trouble.what, next_step=trouble.next_step)
            return
        yield Finding(what=f"gateway {evolution.url}: Evolution {version or 'of an unknown release'} answers")
        if not instances:
            yield Finding(what="the gateway has no instance", next_step="create one in its /manager")
        if len(instances) > INSTANCES_MAX:
            yield Finding(what=f"of {len(instances)} instances the first {INSTANCES_MAX} are looked at")
        for instance in instances[:INSTANCES_MAX]:
            async for finding in _check(evolution, door, webhook.api_of(version), instance):
                yield finding


async def _check(evolution: Evolution, door: Door, api: Api, instance: str) -> AsyncIterator[Finding]:
    try:
        state = await evolution.state(instance)
        found = await evolution.webhook(instance)
    except Trouble as trouble:
        yield Finding(what=f"instance {instance}: {trouble.what}", next_step=trouble.next_step)
        return
    if state == OPEN:
        yield Finding(what=f"instance {instance}: open")
    else:
        yield Finding(
            what=f"instance {instance}: {state or 'not loaded'}, nothing arrives from it",
            next_step="look at its phone, and pair it again in the gateway's /manager",
        )
    different = webhook.differences(api, door.webhook(api, instance), found, door.gateway.secrets)
    if different:
        yield Finding(
            what=f"instance {instance}: webhook not connected: {'; '.join(map(str, different))}",
            next_step=f"run: zaplake gateway connect evolution --instance {instance}",
        )
    else:
        yield Finding(what=f"instance {instance}: webhook connected to this collector")
