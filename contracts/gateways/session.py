"""The account's own life: connection, instances of the gateway, QR codes, notices, history markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Fold, Path
from contracts.gateways.content import PAIRING_SECRETS
from contracts.gateways.facts import EMPTY, Seen, Source, changed, subject_of
from contracts.gateways.secrets import typebot_secrets
from contracts.gateways.shape import first_word, jid, mapping

_TOKENS: Final = ("hash", "token")
"""How Evolution names the key of an instance that it has made."""
_QR_SECRETS: Final = (*PAIRING_SECRETS, "code", "base64")
INSTANCE_KINDS: Final[Mapping[str, str]] = {
    "instance.create": "instance.create",
    "instance.delete": "instance.delete",
    "logout.instance": "instance.logout",
    "remove.instance": "instance.remove",
}


def read_connection(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the connection's state; an update that holds only a QR makes no row."""
    body = mapping(element)
    secrets = [name for name in _QR_SECRETS if body.get(name) is not None]
    public = {name: value for name, value in body.items() if name not in _QR_SECRETS}
    if secrets and not public:
        yield "qr"
        return
    state = first_word(body.get("connection"), body.get("state"), body.get("status"))
    yield _connection(source, path, state, public or element, tuple((name,) for name in secrets))


def _connection(
    source: Source, path: Path, state: str | None, public: object, cuts: tuple[Path, ...]
) -> Seen:
    digest = content_hash("connection", public)
    last = mapping(mapping(public).get("lastDisconnect"))
    return source.fact(
        "connection",
        (state, digest, OCCURRENCE),
        path=path,
        time=first_word(last.get("date"), mapping(public).get("disconnectionAt")),
        cuts=cuts,
        subject=subject_of(source.instance),
        members=changed(state, digest),
        fold=Fold.TRANSITION,
    )


def read_instance(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield that an instance of the gateway was made, deleted, logged out or removed.

    Never folded: create, delete, create are three facts, and each kind has its own last state.
    """
    kind = INSTANCE_KINDS[source.type]
    body = mapping(element)
    cuts: list[Path] = [(name,) for name in _TOKENS if body.get(name) is not None]
    cuts += (("instance", name) for name in _TOKENS if mapping(body.get("instance")).get(name) is not None)
    yield source.fact(kind, (OCCURRENCE,), path=path, cuts=tuple(cuts))


def read_qr(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield that a QR was shown or that their limit is reached; never the QR itself, also not in the hash."""
    body = mapping(element)
    if not body:
        yield "qr" if element else EMPTY
        return
    public = {name: value for name, value in body.items() if name not in _QR_SECRETS}
    cuts = tuple((name,) for name in _QR_SECRETS if body.get(name) is not None)
    yield source.notice("gateway.notice", public, path=path, cuts=cuts)


def read_notice(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield what the gateway says about itself: its error webhook, its start."""
    yield source.notice("gateway.notice", element, path=path)


def read_account_notice(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield what WhatsApp says about the account."""
    yield source.notice("account.notice", element, path=path)


def read_typebot(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a step of Evolution's Typebot integration."""
    chat = jid(mapping(element).get("remoteJid"))
    yield source.notice("typebot", element, path=path, chat=chat, cuts=typebot_secrets(element))


def read_history_marker(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield how far the history sync is."""
    yield source.notice("history.marker", element, path=path)


def read_secret(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Credentials of the account are seen and never kept."""
    yield "secret"
