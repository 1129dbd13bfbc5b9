"""A state taken away is news, and so is its return: each sequence with how many rows every body adds."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from contracts.gateways import baileys
from tests.contracts.gateways.collecting import Collector

CHAT = "5511900000002@s.whatsapp.net"
GROUP = "120363000000000010@g.us"
PERSON = "100000000000002@lid"
CHANNELS = ("120363000000000020@newsletter", "120363000000000021@newsletter")


def chat(**said: object) -> tuple[str, object]:
    return "chats.update", [{"id": CHAT, **said}]


def contact(**said: object) -> tuple[str, object]:
    return "contacts.update", [{"id": PERSON, **said}]


def group(**said: object) -> tuple[str, object]:
    return "groups.update", [{"id": GROUP, **said}]


def label(**said: object) -> tuple[str, object]:
    return "labels.edit", {"id": "1", "name": "VIP", "color": 2, **said}


def setting(value: object) -> tuple[str, object]:
    return "settings.update", {"setting": "locale", "value": value}


def view(channel: str) -> tuple[str, object]:
    return "newsletter.view", {"id": channel, "server_id": "12", "count": 3}


@pytest.mark.parametrize(
    ("bodies", "rows"),
    [
        ([chat(muteEndTime=v) for v in (1764950400000, None, None, 1764950400000)], [1, 1, 0, 1]),
        ([chat(pinned=v) for v in (1764950400, None, 1764950400)], [1, 1, 1]),
        ([chat(unreadCount=1), chat(unreadCount=0), chat(muteEndTime=None)], [1, 0, 1]),
        ([group(desc=v) for v in ("A", "", None, "A")], [1, 1, 0, 1]),
        ([group(subject="A", size=3, inviteCode=None), group(subject="A", inviteCode="x")], [1, 0]),
        ([contact(status=v) for v in ("A", "", "A")], [1, 1, 1]),
        ([contact(verifiedName=v) for v in ("A", None, "A")], [1, 1, 1]),
        ([contact(imgUrl="https://p.test/a?oe=1"), contact(imgUrl=None), contact(notify="A")], [1, 1, 1]),
        ([setting(v) for v in ("pt", "", "pt", "pt")], [1, 1, 1, 0]),
        ([label(deleted=False), label(deleted=True), label(deleted=True), label()], [1, 1, 0, 1]),
        ([label(), label(deleted=False), label(deleted=True)], [1, 0, 1]),
        ([view(CHANNELS[0]), view(CHANNELS[1]), view(CHANNELS[0])], [1, 1, 0]),
    ],
)
def test_rows_of_a_sequence(bodies: Sequence[tuple[str, object]], rows: list[int]) -> None:
    collector = Collector(read=baileys.read)
    fed = [collector.feed(json.dumps({"event": name, "data": data}).encode()) for name, data in bodies]
    assert [len(ids) for ids in fed] == rows
