"""The services behind apprise URLs. A URL is a secret: shown are its place in the settings and its kind."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zaplake.announcement import Text
from zaplake.secret import Secret
from zaplake.trouble import UsageTrouble

if TYPE_CHECKING:
    from apprise import Apprise

URLS_MAX: Final = 20
_STATUS: Final = re.compile(r"error=(\d{3})\b")


class Service:
    """One place where people read alerts."""

    def __init__(self, name: str, apprise: Apprise) -> None:
        self.name = name
        """Such as ``collector.alerts.urls[0] (Slack)``."""
        self._apprise = apprise

    def send(self, text: Text) -> str | None:
        """Blocks until the service has answered; None when it took the text, else why not. Never raises."""
        try:
            result = self._apprise.notify(
                title=text.title, body=text.body, notify_type=text.kind, body_format="text"
            )
            if result:
                return None
            # Only the status: what else the library says may quote the URL.
            statuses = [found[1] for entry in result.logs() if (found := _STATUS.search(entry.message))]
        except Exception as error:
            return type(error).__name__
        return f"it answered {statuses[-1]}" if statuses else "no connection, or refused"


def services(urls: Sequence[Secret], key: str) -> list[Service]:
    """One service for each URL of the setting ``key``. Raises UsageTrouble, which does not show the URL."""
    if len(urls) > URLS_MAX:
        raise UsageTrouble(f"{key}: more than {URLS_MAX} URLs", "let one of them tell the others")
    return [_service(url, f"{key}[{place}]") for place, url in enumerate(urls)]


def _service(url: Secret, name: str) -> Service:
    from apprise import Apprise, AppriseAsset  # 0.2 s and 130 services: only where somebody wants alerts sent

    _silence()
    asset = AppriseAsset(
        async_mode=False,
        storage_mode="memory",
        service_timeout=0,  # announcing has a limit of its own
        image_path_mask=False,
        app_id="zaplake",
        app_desc="zaplake alerts",
        app_url="",
    )
    apprise = Apprise(asset=asset)
    if not apprise.add(url.reveal()) or len(apprise) != 1:
        raise UsageTrouble(
            f"{name} is no URL that apprise understands",
            "see the services and their URLs: https://appriseit.com/services/; "
            "in the environment, a URL with a comma needs the JSON form of a list",
        )
    return Service(f"{name} ({apprise[0].service_name})", apprise)


def _silence() -> None:
    """The library's own log lines may quote a URL; we log what became of each text ourselves."""
    logger = logging.getLogger("apprise")
    if logger.propagate:
        logger.propagate = False
        logger.addHandler(logging.NullHandler())
