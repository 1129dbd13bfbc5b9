"""What the direct door decides without a database."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contracts.configured import GatewayConfig
from ingest.direct.tokens import Grant, compose, matching, read_token
from ingest.problems import DROPPED_BY_EVOLUTION


def grant(token: str) -> Grant:
    gateway = GatewayConfig(name="bot", family="baileys")
    presented = read_token(token.encode())
    return Grant(
        id=presented.id, hash=presented.hash, gateway=gateway, instances=frozenset(), last_used_at=None
    )


@given(st.binary(max_size=300))
def test_no_bytes_open_a_door_but_the_token_itself(value: bytes) -> None:
    token = compose("0123456789ab", "s" * 43)
    grants = {"0123456789ab": grant(token)}
    assert matching(grants, read_token(token.encode())) is grants["0123456789ab"]
    assert matching(grants, read_token(value)) is None
    assert matching(grants, read_token(token.encode() + value)) is None or not value
    assert matching({}, read_token(value)) is None


def test_evolution_is_never_told_what_makes_it_drop_an_event() -> None:
    assert frozenset({400, 401, 403, 404, 422}) == DROPPED_BY_EVOLUTION
