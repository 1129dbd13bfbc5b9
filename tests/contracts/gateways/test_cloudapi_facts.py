"""What Cloud API tells besides plain messages: edits, revokes, groups, the history of a phone."""

from __future__ import annotations

from contracts.digest import content_digest
from contracts.events import Event
from tests.contracts.gateways.test_cloudapi import change, fact, facts, text


def stated(own_id: str, kind: str, **said: object) -> Event:
    return fact(change(messages=[text(own_id, type=kind, **{kind: said})]))


def test_an_edit_and_a_revoke_are_facts_about_their_target() -> None:
    new = {"type": "text", "text": {"body": "novo"}}
    edits = [stated(f"wamid.E{n}", "edit", original_message_id="wamid.A", message=new) for n in (1, 2)]
    assert edits[0].kind == "message.edit"
    assert edits[0].parts == edits[1].parts
    assert edits[0].parts == ("wamid.A", content_digest({"conversation": "novo"}).hex(), 1764950400)
    revoke = stated("wamid.R", "revoke", original_message_id="wamid.A")
    assert (revoke.kind, revoke.parts) == ("message.revoke", ("wamid.A",))
    assert stated("wamid.R", "revoke").parts == ("wamid.R",)
    assert stated("wamid.E", "edit", message=new).kind == "message"


def test_a_group_message_is_not_said_to_be_in_its_senders_chat() -> None:
    assert fact(change(messages=[text(group_id="Y2FwaQ")])).chat_jid == "Y2FwaQ"


def test_a_history_chunk_is_its_messages_and_one_without_any_is_a_notice() -> None:
    received, sent = text("wamid.1"), text("wamid.2", to="5511900000002", **{"from": "5511900000001"})
    chunk = {
        "metadata": {"phase": 0, "chunk_order": 1, "progress": 55},
        "threads": [{"id": "5511900000002", "messages": [received, sent]}],
    }
    refused = {"errors": [{"code": 2593109}]}
    first, second, notice = facts(change(field="history", history=[chunk, refused]))
    assert [first.parts, second.parts] == [
        ("direct", "wamid.1", False, "content"),
        ("direct", "wamid.2", True, "content"),
    ]
    assert first.chat_jid == second.chat_jid == "5511900000002@s.whatsapp.net"
    assert first.context["history"][-3:] == ("history", 0, "metadata")
    assert notice.kind == "account.notice"
    live = fact(change(messages=[received]))
    assert (live.parts, live.digest) == (first.parts, first.digest)
