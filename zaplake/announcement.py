"""What people are told of alerts: one short text for many of them, without anybody's number in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from zaplake.alert_steps import STEPS

LINES_MAX: Final = 20
"""Alerts that one text names; the others are a number."""
LINE_CHARS_MAX: Final = 300
ORDER: Final = {"raised": 0, "repeated": 1, "resolved": 2}
Kind: TypeAlias = Literal["warning", "success", "info"]

_DIGITS: Final = re.compile(r"\d{8,}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One thing that happened to one alert: ``raised``, ``repeated`` or ``resolved``."""

    at: datetime
    what: str
    alert: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A message to people."""

    title: str
    body: str
    kind: Kind


def summary(who: str, news: Sequence[Announcement], more: int = 0) -> Text:
    """One text about all of ``news`` (one at least), what began first; ``more`` alerts are not among them."""
    ordered = sorted(news, key=lambda told: (ORDER.get(told.what, 0), told.at))
    count, is_over = len(ordered) + more, all(told.what == "resolved" for told in ordered)
    shown = ordered[:LINES_MAX]
    lines = [_line(told) for told in shown]
    if count > len(shown):
        lines.append(f"… and {count - len(shown)} more")
    lines.extend(_steps(shown))
    what = f"{ordered[0].alert} {ordered[0].what}" if count == 1 else f"{count} alerts"
    return Text(
        title=_clean(f"zaplake {who}: {what}"),
        body="\n".join(lines),
        kind="success" if is_over else "warning",
    )


def _line(told: Announcement) -> str:
    subject = f" {told.subject}" if told.subject else ""
    detail = f": {told.detail}" if told.detail else ""
    return _clean(f"{told.at:%H:%M:%S} UTC {told.what} {told.alert}{subject}{detail}")


def _steps(shown: Sequence[Announcement]) -> Iterator[str]:
    """What to do, once for each kind of alert that lasts."""
    for alert in dict.fromkeys(told.alert for told in shown if told.what != "resolved"):
        yield f"→ {alert}: {STEPS.get(alert, 'zaplake doctor')}"


def _clean(line: str) -> str:
    """One bounded line; of a run of digits that may be a phone number the last four stay."""
    line = _DIGITS.sub(lambda run: f"…{run[0][-4:]}", _CONTROL.sub(" ", line))
    return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 1]}…"
