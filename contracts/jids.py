"""WhatsApp addresses: the bare form, the kind of a chat and which of a person's spellings stands for them.

``user[_agent][.agent][:device]@server``; only addresses of people carry a device. Groups, newsletters and
broadcasts are kept verbatim (old group ids have a hyphen, ``status@broadcast`` has no digits).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

JidKind: TypeAlias = Literal["user", "lid", "group", "broadcast", "newsletter", "other"]

_SERVERS: Final = {
    "s.whatsapp.net": "s.whatsapp.net",
    "c.us": "s.whatsapp.net",
    "hosted": "s.whatsapp.net",
    "lid": "lid",
    "hosted.lid": "lid",
}
_SHARED: Final[dict[str, JidKind]] = {"g.us": "group", "broadcast": "broadcast", "newsletter": "newsletter"}
_USER: Final = re.compile(r"[^@:._]+")
_DIGITS: Final = re.compile(r"[0-9]{5,20}")


def bare_jid(jid: str) -> str:
    """Return the address without device and agent, on its one server name; no person: verbatim."""
    user, at, server = jid.rpartition("@")
    one_server = _SERVERS.get(server)
    if not at or one_server is None:
        return jid
    if user.isascii() and user.isdigit():  # the usual one has nothing to cut
        return jid if server == one_server else f"{user}@{one_server}"
    match = _USER.match(user)
    return f"{match[0]}@{one_server}" if match else jid


def jid_kind(jid: str) -> JidKind:
    """Classify by suffix; a personal address that is no number (or ``0``, WhatsApp itself) is other."""
    user, _, server = bare_jid(jid).rpartition("@")
    shared = _SHARED.get(server)
    if shared is not None:
        return shared if user else "other"
    if not user.isascii() or not user.isdigit() or not user.strip("0"):
        return "other"
    if server == "lid":
        return "lid"
    return "user" if server == "s.whatsapp.net" else "other"


def chat_class(jid: str | None) -> str:
    """The chat as an identity part: a group, broadcast or newsletter verbatim, everything else ``direct``."""
    if jid and jid.rpartition("@")[2] in _SHARED:
        return jid
    return "direct"


def person(*candidates: object) -> str | None:
    """The person as an identity part, from every field that may name them: a LID, else the phone.

    Bare digits count as a phone. Without either, the first candidate that is a non-empty string stands.
    """
    names = [_as_phone(bare_jid(name)) for name in candidates if isinstance(name, str) and name]
    for server in ("@lid", "@s.whatsapp.net"):
        for name in names:
            if name.endswith(server):
                return name
    return names[0] if names else None


def phone_of(jid: object) -> str | None:
    """The digits of a phone address; None when the suffix does not say that it is one."""
    if not isinstance(jid, str) or jid_kind(jid) != "user":
        return None
    return bare_jid(jid).partition("@")[0]


def _as_phone(name: str) -> str:
    return f"{name}@s.whatsapp.net" if "@" not in name and _DIGITS.fullmatch(name) else name
