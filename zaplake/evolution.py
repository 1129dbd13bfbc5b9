"""A client of Evolution's REST API for an operator: every failure is a Trouble that says what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from collector.backend import no_cookies
from zaplake import webhook
from zaplake.trouble import Trouble, UsageTrouble
from zaplake.webhook import Webhook

REQUEST_S_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
SAID_CHARS_MAX: Final = 300
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Stored messages as the gateway lists them, and how many pages there are."""

    records: list[dict[str, Any]]
    pages: int


class Evolution:
    """One Evolution server. Use as an async context manager. The key is sent as a header and never shown."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        if not _is_url(self.url):
            raise UsageTrouble(
                "evolution.api_url is no http(s) URL without user and password",
                "write it as http://127.0.0.1:8081; the key is ZAPLAKE_EVOLUTION_API_KEY",
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageTrouble(
                "evolution.api_key has a letter that no HTTP header can have",
                "set ZAPLAKE_EVOLUTION_API_KEY to the key as it stands in the gateway's settings",
            )
        self._client = httpx.AsyncClient(
            headers={"apikey": key},
            timeout=REQUEST_S_MAX,
            cookies=no_cookies(),
            follow_redirects=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def version(self) -> str:
        """Such as ``2.3.7``; empty when it does not say."""
        document = await self._ask("GET", "/")
        version = document.get("version") if isinstance(document, dict) else None
        return version if isinstance(version, str) else ""

    async def state(self, instance: str) -> str | None:
        """``open``, ``connecting`` or ``close``; None when the instance is not loaded."""
        document = await self._ask("GET", f"/instance/connectionState/{quote(instance, safe='')}")
        row = document.get("instance") if isinstance(document, dict) else None
        state = row.get("state") if isinstance(row, dict) else None
        return state if isinstance(state, str) else None

    async def instances(self) -> list[str]:
        """The names of all instances that the key may see."""
        document = await self._ask("GET", "/instance/fetchInstances")
        rows = document if isinstance(document, list) else [document]
        names = []
        for row in rows:
            inner = row.get("instance", row) if isinstance(row, dict) else {}
            name = inner.get("name", inner.get("instanceName")) if isinstance(inner, dict) else None
            if isinstance(name, str):
                names.append(name)
        return names

    async def webhook(self, instance: str) -> Webhook | None:
        """What it has now."""
        return webhook.read(await self._ask("GET", f"/webhook/find/{quote(instance, safe='')}"))

    async def set_webhook(self, instance: str, body: dict[str, object]) -> None:
        """Sets it; what became of it is for ``webhook`` to say."""
        await self._ask("POST", f"/webhook/set/{quote(instance, safe='')}", body)

    async def messages(self, instance: str, *, page: int, size: int) -> Page:
        """One page of its stored messages, from 1 on, newest first (its ``offset`` is the size of a page)."""
        path = f"/chat/findMessages/{quote(instance, safe='')}"
        document = await self._ask("POST", path, {"where": {}, "page": page, "offset": size})
        found = document.get("messages") if isinstance(document, dict) else None
        records, pages = (found.get("records"), found.get("pages")) if isinstance(found, dict) else (None, 0)
        if not isinstance(records, list):
            raise Trouble("the gateway lists no messages", "this needs Evolution 2 with its database")
        return Page(
            records=[record for record in records if isinstance(record, dict)],
            pages=pages if isinstance(pages, int) else page,
        )

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            answer, content = await self._fetch(method, path, body)
        except Trouble:
            raise
        except Exception as error:
            # Whatever the other side does: the odd moments of the libraries are ours to tell.
            raise Trouble(
                f"the gateway {self.url} does not answer: {str(error) or type(error).__name__}",
                "start it, or set its address: --url, ZAPLAKE_EVOLUTION_API_URL",
            ) from error
        try:
            document = json.loads(content) if content else None
        except (ValueError, RecursionError):
            raise self._stranger(answer.status_code) from None
        if answer.is_success:
            return document
        raise self._refusal(answer.status_code, document)

    async def _fetch(self, method: str, path: str, body: object) -> tuple[httpx.Response, bytes]:
        async with self._client.stream(method, f"{self.url}{path}", json=body) as answer:
            content = b""
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > ANSWER_BYTES_MAX:
                    raise self._stranger(answer.status_code)
            return answer, content

    def _stranger(self, status: int) -> Trouble:
        return Trouble(
            f"what answers at {self.url} ({status}) is no Evolution API",
            "give the root of its API, such as http://127.0.0.1:8081: --url, ZAPLAKE_EVOLUTION_API_URL",
        )

    def _refusal(self, status: int, document: Any) -> Trouble:
        said = _said(document)
        if status == 401:
            return Trouble(
                f"the gateway {self.url} refuses the API key (401), or its database is down",
                "set ZAPLAKE_EVOLUTION_API_KEY to its global key, and look at its Postgres",
            )
        if status == 404 and "does not exist" in said:
            return Trouble(
                f"the gateway says: {said}", "create it there, or name another; names are case-sensitive"
            )
        if status == 503 and isinstance(document, dict) and document.get("code") == "LICENSE_REQUIRED":
            return Trouble("the gateway is not activated (503)", "open its /manager and enter the licence")
        if status == 500 and "'instanceId'" in said:
            return Trouble(
                "the instance is known to the gateway but not loaded",
                "restart the gateway with the DATABASE_CONNECTION_CLIENT_NAME under which it was made",
            )
        if status in {301, 302, 303, 307, 308, 404, 405}:
            return self._stranger(status)
        return Trouble(f"the gateway answers {status}: {said}", "see the gateway's log")


def _is_url(url: str) -> bool:
    """Whether it is http(s), without user and password."""
    try:
        parts = httpx.URL(url)
        host, port = parts.host, parts.port or 0
    except (httpx.InvalidURL, ValueError):  # also idna's own errors
        return False
    return parts.scheme in {"http", "https"} and bool(host) and port <= PORT_MAX and not parts.userinfo


def _said(document: Any) -> str:
    response = document.get("response") if isinstance(document, dict) else None
    message = response.get("message", "") if isinstance(response, dict) else ""
    while isinstance(message, list) and message:
        message = message[0]
    return str(message)[:SAID_CHARS_MAX]
