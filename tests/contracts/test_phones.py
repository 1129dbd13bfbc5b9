"""Phones: dial what WhatsApp gave, compare by a form that both spellings of an account share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.phones import NotAPhone, dial_form, identity_form, spellings


@pytest.mark.parametrize(
    "text",
    [
        "5511900000001",
        "+55 (11) 90000-0001",
        "005511900000001",
        "55.11.90000.0001",
        "５５１１９０００００００１",
        "\u00a05511900000001\u00a0",
        "\u202a+55 11 90000\u20110001\u202c",
        "٥٥١١٩٠٠٠٠٠٠٠١",
    ],
)
def test_every_way_to_write_a_number_dials_the_same(text: str) -> None:
    assert dial_form(text) == "5511900000001"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "12",
        "1234567",
        "1" * 16,
        "55119x0000001",
        "5511@g.us",
        "0551190000001",
        "++5511900000001",
        "1" * 999,
    ],
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(NotAPhone):
        dial_form(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("553180000001", "5531980000001"),
        ("551190000001", "5511990000001"),
        ("5215512345678", "525512345678"),
        ("5491123456789", "541123456789"),
    ],
)
def test_both_spellings_of_an_account_are_one_identity(one: str, other: str) -> None:
    assert identity_form(one) == identity_form(other)
    assert set(spellings(one)) == set(spellings(other)) == {one, other}
    assert spellings(one)[0] == one
    assert spellings(other)[0] == other


@pytest.mark.parametrize(
    "digits",
    [
        "551130000001",
        "551150000001",
        "5511900000001",
        "521551234567",
        "52155123456789",
        "5411234567890"[:12],
        "14155550123",
        "351912345678",
    ],
)
def test_a_number_without_a_second_spelling_stays(digits: str) -> None:
    assert identity_form(digits) == digits


@given(st.from_regex(r"[1-9][0-9]{7,14}", fullmatch=True))
def test_the_identity_form_is_its_own_and_dialling_changes_nothing(digits: str) -> None:
    assert identity_form(identity_form(digits)) == identity_form(digits)
    assert dial_form(digits) == digits


@given(st.text(max_size=70))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        digits = dial_form(text)
    except NotAPhone:
        return
    assert digits.isascii()
    assert digits.isdigit()
    assert 8 <= len(digits) <= 15
