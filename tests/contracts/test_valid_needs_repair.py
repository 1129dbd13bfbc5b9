"""What a strict decoder has taken is judged alike by the short check and the whole one."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.sanitize import needs_repair, valid_needs_repair

_decode = msgspec.json.Decoder(msgspec.Raw).decode

NUMBERS = ["1e99999", "1E-99999", "1e+9999", "-1e5", "9" * 1001, "0." + "3" * 1200, "NaN", "Infinity"]
STRINGS = [
    r'"\u0000"',
    r'"\\u0000"',
    r'"\ud83d\ude00"',
    r'"\ud83d"',
    r'"\udc00"',
    r'"a\nb"',
    '"\x01"',
    '"é\x7f"',
]
LOOKS = ['"2e99999"', '"-+-+-"', '"NaN"', "{}", "null"]
DEEP = ["[" * 127 + "]" * 127, "[" * 129 + "]" * 129, '"' + "[" * 300 + '"']
PIECES = st.sampled_from([*NUMBERS, *STRINGS, *LOOKS, *DEEP])


@given(st.lists(PIECES, min_size=1, max_size=4), st.sampled_from(["", " ", "\n"]), st.booleans())
@example(['"é"'], "", True)
def test_both_checks_agree_on_valid_json(pieces: list[str], blank: str, is_broken: bool) -> None:
    raw = ("[" + f",{blank}".join(pieces) + "]").encode()
    if is_broken:
        raw = raw.replace("é".encode(), b"\xff")
    try:
        _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return
    assert valid_needs_repair(raw) == needs_repair(raw)
