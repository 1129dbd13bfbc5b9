"""Phone numbers: one form to dial (exactly what WhatsApp gave) and one to tell people apart.

WhatsApp knows some accounts without the digit their country added later: Brazil's ninth, Mexico's 1 after
52, Argentina's 9 after 54. The identity form joins both spellings; it is never dialled.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

DIGITS_MIN: Final = 8
DIGITS_MAX: Final = 15
TEXT_CHARS_MAX: Final = 64

_PUNCTUATION: Final = frozenset("()-./\u2010\u2011\u2012\u2013\u2014\u2212")
_BRAZIL_MOBILE: Final = re.compile(r"55[1-9][1-9][6-9][0-9]{7}")
_MEXICO_OLD: Final = re.compile(r"521[0-9]{10}")
_ARGENTINA_MOBILE: Final = re.compile(r"549[0-9]{10}")


class NotAPhone(ValueError):
    """The text is no international phone number."""


def dial_form(text: str) -> str:
    """Return the digits to dial: ``+``, ``00``, spaces and punctuation gone, nothing else changed.

    Digits of any script are read, bidi marks ignored. Raises NotAPhone for letters or not 8 to 15 digits.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise NotAPhone(f"longer than {TEXT_CHARS_MAX} characters")
    digits: list[str] = []
    plus = False
    for char in text:
        number = unicodedata.decimal(char, None)
        if number is not None:
            digits.append(str(number))
        elif char in "+\uff0b" and not digits and not plus:
            plus = True
        elif char not in _PUNCTUATION and not char.isspace() and unicodedata.category(char) != "Cf":
            raise NotAPhone(f"U+{ord(char):04X} does not belong in a phone number")
    number_text = "".join(digits)
    if not plus and number_text.startswith("00"):
        number_text = number_text[2:]
    if not DIGITS_MIN <= len(number_text) <= DIGITS_MAX or number_text.startswith("0"):
        raise NotAPhone(f"not {DIGITS_MIN} to {DIGITS_MAX} digits with a country code")
    return number_text


def identity_form(digits: str) -> str:
    """Return the spelling that all spellings of one account share, from a dial form."""
    if _BRAZIL_MOBILE.fullmatch(digits):
        return f"{digits[:4]}9{digits[4:]}"
    if _MEXICO_OLD.fullmatch(digits):
        return f"52{digits[3:]}"
    if _ARGENTINA_MOBILE.fullmatch(digits):
        return f"54{digits[3:]}"
    return digits


def spellings(digits: str) -> tuple[str, ...]:
    """Every spelling to look an account up by: as given, then the identity form, then its counterpart."""
    identity = identity_form(digits)
    other = identity
    if re.fullmatch(r"55[1-9][1-9]9[6-9][0-9]{7}", identity):
        other = identity[:4] + identity[5:]
    elif re.fullmatch(r"52[0-9]{10}", identity):
        other = f"521{identity[2:]}"
    elif re.fullmatch(r"54[0-9]{10}", identity):
        other = f"549{identity[2:]}"
    return tuple(dict.fromkeys((digits, identity, other)))
