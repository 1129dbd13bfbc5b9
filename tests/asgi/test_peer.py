"""Who asks from this machine, and who only seems to."""

from __future__ import annotations

from asgi.peer import asks_from_here, is_loopback


def test_loopback_is_told_from_everybody_else() -> None:
    for near in (("127.0.0.1", 1), ("127.8.8.8", 1), ("::1", 1, 0, 0), ("::ffff:127.0.0.1", 1), None):
        assert is_loopback(near), near
    for far in (
        ("10.0.0.5", 1),
        ("192.168.1.2", 1),
        ("::ffff:10.0.0.1", 1),
        ("fe80::1", 1),
        ("x", 1),
        ("", 1),
    ):
        assert not is_loopback(far), far
    assert not is_loopback(())


def test_what_a_proxy_on_this_machine_hands_on_is_asked_by_somebody_else() -> None:
    here = ("127.0.0.1", 1)
    assert asks_from_here({"client": here, "headers": [(b"host", b"x")]})
    for name in (b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"):
        assert not asks_from_here({"client": here, "headers": [(b"host", b"x"), (name, b"y")]}), name
    assert not asks_from_here({"client": ("10.0.0.5", 1), "headers": []})
