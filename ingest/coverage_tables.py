"""The counts per channel and the view that analysts read, as SQLAlchemy metadata (see ``ingest.tables``)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ingest.ddl import run_when

_TIME: Final = DateTime(timezone=True)
_ZERO: Final = text("0")

_VIEW: Final = """
CREATE VIEW lake.channel_coverage AS
SELECT c.collector, c.gateway, c.instance, c.hour, c.kind,
       sum(c.count)::bigint AS records,
       coalesce(sum(c.count) FILTER (WHERE c.w AND c.r), 0)::bigint AS "both",
       coalesce(sum(c.count) FILTER (WHERE c.w AND NOT c.r), 0)::bigint AS only_webhook,
       coalesce(sum(c.count) FILTER (WHERE c.r AND NOT c.w), 0)::bigint AS only_rabbitmq,
       coalesce(sum(c.count) FILTER (WHERE NOT c.w AND NOT c.r), 0)::bigint AS neither,
       (SELECT d.up_to_ms
          FROM (SELECT 2::bigint ^ (b.n - 1) AS up_to_ms,
                 sum(sum(b.records)) OVER (ORDER BY b.n) AS below,
                       sum(sum(b.records)) OVER () AS total
                  FROM lake.channel_counts x
                   CROSS JOIN unnest(x.delays) WITH ORDINALITY AS b (records, n)
                 WHERE x.collector = c.collector AND x.gateway = c.gateway AND x.instance = c.instance
                   AND x.hour = c.hour AND x.kind = c.kind AND x.channels @> '{rabbitmq,webhook}'
                 GROUP BY b.n) d
         WHERE d.below * 2 >= d.total AND d.total > 0 ORDER BY d.up_to_ms LIMIT 1) AS delay_ms_p50,
       max(c.delay_ms_max) FILTER (WHERE c.w AND c.r) AS delay_ms_max
  FROM (SELECT *, 'webhook' = ANY (channels) AS w, 'rabbitmq' = ANY (channels) AS r
          FROM lake.channel_counts) c
 GROUP BY c.collector, c.gateway, c.instance, c.hour, c.kind
"""
_VIEW_COMMENT: Final = (
    "COMMENT ON VIEW lake.channel_coverage IS "
    "'Facts an instance, hour and kind by the channels that brought them, as one collector saw them'"
)


def add_coverage(metadata: MetaData) -> None:
    """The table of counts and the view over it."""
    Table(
        "channel_counts",
        metadata,
        Column("gateway", Text, nullable=False),
        Column("instance", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("hour", _TIME, nullable=False),
        Column("collector", Text, nullable=False),
        Column("epoch", Text, nullable=False),
        Column("channels", ARRAY(Text), nullable=False),
        Column("count", BigInteger, nullable=False),
        Column("delay_ms_max", BigInteger, nullable=False, server_default=_ZERO),
        Column("delays", ARRAY(BigInteger), nullable=False, server_default=text("'{}'::bigint[]")),
        PrimaryKeyConstraint(
            "gateway",
            "instance",
            "kind",
            "hour",
            "collector",
            "epoch",
            "channels",
            name="channel_counts_pkey",
        ),
        Index("channel_counts_hour_idx", "hour", postgresql_using="brin"),
        comment="Facts by the channels that brought them, an hour each, as each file of a collector counts",
    )
    for statement in (_VIEW, _VIEW_COMMENT):
        run_when(metadata, "after_create", statement)
