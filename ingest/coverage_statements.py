"""The SQL of the channel counts: kept from heartbeats, read by the watch."""

from __future__ import annotations

from typing import Final

# A count only grows within one file of a collector, so the larger one is the truth: a heartbeat that is
# replayed, late or told again changes nothing. Hours far ahead are a clock's mistake and would stay for ever.
KEEP_COVERAGE: Final = """
INSERT INTO lake.channel_counts AS c
       (collector, epoch, gateway, instance, hour, kind, channels, count, delay_ms_max, delays)
SELECT $1, $2, t.gateway, t.instance, t.hour, t.kind, t.channels, t.count,
       coalesce(t.delay_ms_max, 0), coalesce(t.delays, '{}')
  FROM jsonb_to_recordset($3::jsonb) AS t (gateway text, instance text, hour timestamptz, kind text,
           channels text[], count bigint, delay_ms_max bigint, delays bigint[])
 WHERE t.hour < now() + interval '1 day'
 ORDER BY t.gateway, t.instance, t.kind, t.hour, t.channels
ON CONFLICT (gateway, instance, kind, hour, collector, epoch, channels) DO UPDATE
   SET count = excluded.count, delay_ms_max = excluded.delay_ms_max, delays = excluded.delays
 WHERE c.count < excluded.count
"""

# In small bites, so that the watch never holds many rows: what is left waits for the next round.
FORGET_COVERAGE: Final = """
DELETE FROM lake.channel_counts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM lake.channel_counts WHERE hour < now() - make_interval(days => $1) LIMIT $2))
"""

# Since when a kind has been counted at all, and its counts of some hours; one row a question and hour, the
# questions by their place. Each is a short range of the primary key, whatever the table has grown to. Two
# collectors that see the same instance count the same facts: the one that saw more counts. Sums have an end:
# one that is made up and too large for its type would stop the watch.
FIRST_HOURS: Final = """
SELECT q.place, (SELECT min(c.hour) FROM lake.channel_counts c
                  WHERE c.gateway = q.gateway AND c.instance = q.instance AND c.kind = q.kind) AS first
  FROM unnest($1::int[], $2::text[], $3::text[], $4::text[]) AS q (place, gateway, instance, kind)
"""
COUNTS_OF_HOURS: Final = """
SELECT q.place, c.hour, max(c.count) AS count
  FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
           AS q (place, gateway, instance, kind, since, until)
 CROSS JOIN LATERAL (
           SELECT n.hour, least(sum(n.count), 1e15)::bigint AS count FROM lake.channel_counts n
            WHERE n.gateway = q.gateway AND n.instance = q.instance AND n.kind = q.kind
              AND n.hour >= q.since AND n.hour < q.until
            GROUP BY n.hour, n.collector) c
 GROUP BY q.place, q.kind, c.hour
"""

# Kinds that both channels bring, with a share that only one brought. A kind that one channel never brings is
# not switched on there; an instance whose channels end in two collectors is not judged.
DIVERGING: Final = """
SELECT collector, gateway, instance, kind, "both", only_webhook, only_rabbitmq
  FROM (SELECT collector, gateway, instance, kind,
               least(coalesce(sum(count) FILTER (WHERE w AND r), 0), 1e15)::bigint AS "both",
               least(coalesce(sum(count) FILTER (WHERE w AND NOT r), 0), 1e15)::bigint AS only_webhook,
               least(coalesce(sum(count) FILTER (WHERE r AND NOT w), 0), 1e15)::bigint AS only_rabbitmq
          FROM (SELECT *, 'webhook' = ANY (channels) AS w, 'rabbitmq' = ANY (channels) AS r
                  FROM lake.channel_counts WHERE hour >= now() - make_interval(hours => $1)) counts
         GROUP BY collector, gateway, instance, kind) sums
 WHERE "both" >= $2 AND only_webhook + only_rabbitmq >= $3
   AND only_webhook + only_rabbitmq > $4::float8 * ("both" + only_webhook + only_rabbitmq)
 ORDER BY only_webhook + only_rabbitmq DESC
 LIMIT $5
"""
