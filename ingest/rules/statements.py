"""Every SQL statement of the rules, each with a name and a why; all write a set, in the order of its keys."""

from __future__ import annotations

from typing import Final

# The later one by the gateway's own time stays; a retry that comes late changes nothing. An older time long
# after is no retry: the gateway's clock was set back. A batch that only repeats what is known of the
# connection keeps since when it has been so, unless within the batch it was otherwise ($11).
KEEP_INSTANCES: Final = """
INSERT INTO lake.instance_states AS s (
    gateway, instance, scope, state, is_open, reason, since, told_at, received_at, event_id)
SELECT gateway, instance, scope, state, is_open, reason, since, told_at, received_at, event_id
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::integer[],
              $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::uuid[])
       AS r (gateway, instance, scope, state, is_open, reason, since, told_at, received_at, event_id)
 ORDER BY gateway, instance
ON CONFLICT (gateway, instance) DO UPDATE
   SET scope = excluded.scope, state = excluded.state, is_open = excluded.is_open, reason = excluded.reason,
       since = CASE WHEN s.is_open = excluded.is_open AND excluded.event_id <> ALL ($11::uuid[])
                    THEN s.since ELSE excluded.since END,
       told_at = excluded.told_at, received_at = excluded.received_at, event_id = excluded.event_id
 WHERE excluded.told_at >= s.told_at OR excluded.received_at > s.received_at + interval '30 minutes'
"""

# Nearly every message repeats a pair that is known: it is not written, nor its row locked. Once a day it is.
KEEP_LID_PAIRS: Final = """
INSERT INTO lake.lid_pairs AS p (scope, lid, phone, since, last_at)
SELECT r.scope, r.lid, r.phone, r.at, r.at
  FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS r (scope, lid, phone, at)
  LEFT JOIN lake.lid_pairs k ON k.scope = r.scope AND k.lid = r.lid
 WHERE k.lid IS NULL
    OR (r.at > k.last_at AND (k.phone <> r.phone OR r.at > k.last_at + interval '1 day'))
 ORDER BY r.scope, r.lid
ON CONFLICT (scope, lid) DO UPDATE
   SET phone = excluded.phone, last_at = excluded.last_at,
       since = CASE WHEN p.phone = excluded.phone THEN p.since ELSE excluded.since END
 WHERE excluded.last_at > p.last_at
"""

# Facts about a chat come in any order: each column keeps its own latest, so that a replay changes nothing.
KEEP_CHATS: Final = """
INSERT INTO lake.chats AS c (
    scope, chat_jid, chat_kind, name, named_at, push_name, push_named_at, first_message_at, last_message_at,
    last_message_event_id, last_message_from_me, deleted_at)
SELECT scope, chat_jid, chat_kind, name, named_at, push_name, push_named_at, first_message_at,
       last_message_at, last_message_event_id, last_message_from_me, deleted_at
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[],
              $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::boolean[],
              $12::timestamptz[])
       AS r (scope, chat_jid, chat_kind, name, named_at, push_name, push_named_at, first_message_at,
             last_message_at, last_message_event_id, last_message_from_me, deleted_at)
 ORDER BY scope, chat_jid
ON CONFLICT (scope, chat_jid) DO UPDATE
   SET name = CASE WHEN excluded.named_at >= coalesce(c.named_at, '-infinity')
                   THEN excluded.name ELSE c.name END,
       named_at = greatest(c.named_at, excluded.named_at),
       push_name = CASE WHEN excluded.push_named_at >= coalesce(c.push_named_at, '-infinity')
                        THEN excluded.push_name ELSE c.push_name END,
       push_named_at = greatest(c.push_named_at, excluded.push_named_at),
       first_message_at = least(c.first_message_at, excluded.first_message_at),
       last_message_event_id = CASE WHEN excluded.last_message_at >= coalesce(c.last_message_at, '-infinity')
                                    THEN excluded.last_message_event_id ELSE c.last_message_event_id END,
       last_message_from_me = CASE WHEN excluded.last_message_at >= coalesce(c.last_message_at, '-infinity')
                                   THEN excluded.last_message_from_me ELSE c.last_message_from_me END,
       last_message_at = greatest(c.last_message_at, excluded.last_message_at),
       deleted_at = greatest(c.deleted_at, excluded.deleted_at)
"""
