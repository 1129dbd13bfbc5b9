"""Invented people, groups and sentences; no number here belongs to anybody."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

NAMES: Final = (
    "Ana Prado",
    "Beto Lima",
    "Carla Nunes",
    "Davi Rocha",
    "Elisa Moura",
    "Fábio Reis",
    "Gabi Luz 🌻",
)
TEXTS: Final = (
    "Oi, o pedido 1042 já saiu?",
    "Bom dia! ☀️",
    "Pode ser amanhã às 15h?",
    "Segue o comprovante",
    "kkkkk",
    "Qual o valor do frete para Niterói?",
    "Obrigada! 🙏",
    "Não recebi o boleto ainda",
    'Ele disse: "confirmado" \\o/',
    "linha um\nlinha dois",
)
EMOJI: Final = ("👍", "❤️", "😂", "🙏", "😮")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with a phone address, the anonymous address (LID) of newer WhatsApp, and a name."""

    phone_jid: str
    lid: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Who one instance talks to."""

    instance: str
    instance_id: str
    owner_jid: str
    people: tuple[Person, ...]
    groups: tuple[str, ...]


def make_world(rng: Random, number: int) -> World:
    """The ``number``-th instance, with seven people and two groups."""
    people = tuple(
        Person(
            phone_jid=f"55{11 + number}900000{index:03d}@s.whatsapp.net",
            lid=f"1000000{number:02d}000{index:03d}@lid",
            name=name,
        )
        for index, name in enumerate(NAMES, start=2)
    )
    groups = tuple(f"1203630000{number:02d}0000{index:02d}@g.us" for index in (10, 11))
    return World(
        instance=f"loja-{number + 1}",
        instance_id=f"{rng.getrandbits(32):08x}-0000-4000-8000-{number:012d}",
        owner_jid=f"55{11 + number}900000001@s.whatsapp.net",
        people=people,
        groups=groups,
    )
