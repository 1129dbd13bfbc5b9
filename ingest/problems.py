"""The one table of what can be wrong with a request, and how each is answered (problem+json)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from asgi.answers import problem
from asgi.body import BodyError, BodyStalled, BodyTooLarge, BudgetExhausted
from contracts import envelope
from contracts.blob_upload import PROBLEM_WRONG_HASH


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One row of the table."""

    status: int
    urn: str
    title: str


NOT_JSON: Final = Kind(status=400, urn=envelope.PROBLEM_NOT_JSON, title="The body is not JSON")
BAD_EVENT_ID: Final = Kind(
    status=400, urn=envelope.PROBLEM_BAD_EVENT_ID, title="The event id is missing or no UUID"
)
BAD_COMPRESSION: Final = Kind(
    status=400, urn="urn:zaplake:problem:bad-compression", title="The body cannot be decompressed"
)
UNSIGNED: Final = Kind(status=401, urn=envelope.PROBLEM_UNSIGNED, title="The signature is missing or wrong")
UNKNOWN_TOKEN: Final = Kind(
    status=401, urn="urn:zaplake:problem:unknown-token", title="The gateway's token is missing or not known"
)
FOREIGN_INSTANCE: Final = Kind(
    status=403, urn="urn:zaplake:problem:foreign-instance", title="The token is not for this instance"
)
WRONG_VERIFY_TOKEN: Final = Kind(
    status=403, urn="urn:zaplake:problem:wrong-verify-token", title="The verify token is missing or wrong"
)
NOT_FOUND: Final = Kind(status=404, urn="urn:zaplake:problem:not-found", title="There is nothing here")
WRONG_METHOD: Final = Kind(
    status=405, urn="urn:zaplake:problem:wrong-method", title="Only POST is served here"
)
WRONG_BLOB_METHOD: Final = Kind(status=405, urn=WRONG_METHOD.urn, title="Only PUT and HEAD are served here")
BAD_BLOB_RANGE: Final = Kind(
    status=400, urn="urn:zaplake:problem:bad-range", title="The part does not say where it belongs"
)
WRONG_HASH: Final = Kind(
    status=422, urn=PROBLEM_WRONG_HASH, title="The bytes are not those of the sha256 in the path"
)
STALLED: Final = Kind(
    status=408, urn="urn:zaplake:problem:body-stalled", title="The body did not arrive in time"
)
TOO_LARGE: Final = Kind(status=413, urn=envelope.PROBLEM_TOO_LARGE, title="The body is too large")
UNKNOWN_ENCODING: Final = Kind(
    status=415, urn=envelope.PROBLEM_ENCODING, title="The Content-Encoding is not known here"
)
WRONG_SHAPE: Final = Kind(status=422, urn=envelope.PROBLEM_WRONG_SHAPE, title="The body has the wrong shape")
REFUSED: Final = Kind(
    status=422, urn="urn:zaplake:problem:refused-by-database", title="The database refuses this event"
)
UNSTAMPED: Final = Kind(status=422, urn="urn:zaplake:problem:unstamped", title="The body says no at and seq")
RATE_LIMITED: Final = Kind(
    status=429, urn=envelope.PROBLEM_RATE_LIMITED, title="Too many events from this sender"
)
BROKEN: Final = Kind(status=500, urn="urn:zaplake:problem:internal", title="An error of our own")
UNAVAILABLE: Final = Kind(
    status=503, urn=envelope.PROBLEM_UNAVAILABLE, title="Not now; nothing was half stored"
)

BY_STATUS: Final = {
    400: Kind(status=400, urn="urn:zaplake:problem:bad-request", title="The request is malformed"),
    404: NOT_FOUND,
    405: Kind(status=405, urn=WRONG_METHOD.urn, title="This method is not served here"),
    500: BROKEN,
}
"""For what the framework answers by itself."""


class ProblemError(Exception):
    """A request is answered with a problem document."""

    def __init__(self, kind: Kind, detail: str | None = None, *, retry_after_s: int | None = None) -> None:
        super().__init__(kind.title)
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s

    def document(self) -> bytes:
        """The problem+json body."""
        return problem(self.kind.status, self.kind.urn, self.kind.title, self.detail)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After or Allow, where there is one."""
        if self.kind is WRONG_METHOD:
            return [(b"allow", b"POST")]
        if self.kind is WRONG_BLOB_METHOD:
            return [(b"allow", b"PUT, HEAD")]
        if self.retry_after_s is None:
            return []
        return [(b"retry-after", str(self.retry_after_s).encode())]


DROPPED_BY_EVOLUTION: Final = frozenset({400, 401, 403, 404, 422})
"""Statuses after which Evolution API gives an event up at once; everything else it sends again."""


def repeatable(error: ProblemError, *, retry_after_s: int) -> ProblemError:
    """The same problem with a status after which Evolution sends the event again."""
    if error.kind.status not in DROPPED_BY_EVOLUTION:
        return error
    kind = Kind(status=UNAVAILABLE.status, urn=error.kind.urn, title=error.kind.title)
    return ProblemError(kind, error.detail, retry_after_s=retry_after_s)


def of_body_error(error: BodyError, *, body_bytes_max: int, retry_after_s: int) -> ProblemError:
    """How a body that was not taken is answered. A client that is gone reads nothing."""
    if isinstance(error, BodyTooLarge):
        return ProblemError(TOO_LARGE, f"The limit is {body_bytes_max} bytes.")
    if isinstance(error, BudgetExhausted):
        return ProblemError(UNAVAILABLE, "Too many bytes are in flight.", retry_after_s=retry_after_s)
    assert isinstance(error, BodyStalled), error
    return ProblemError(STALLED)
