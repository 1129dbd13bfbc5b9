"""What each channel brought: counts an hour, and the view over them."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.channel_counts (
            gateway text NOT NULL,
            instance text NOT NULL,
            kind text NOT NULL,
            hour timestamptz NOT NULL,
            collector text NOT NULL,
            epoch text NOT NULL,
            channels text[] NOT NULL,
            count bigint NOT NULL,
            delay_ms_max bigint NOT NULL DEFAULT 0,
            delays bigint[] NOT NULL DEFAULT '{}'::bigint[],
            CONSTRAINT channel_counts_pkey
                PRIMARY KEY (gateway, instance, kind, hour, collector, epoch, channels)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.channel_counts IS
        'Facts by the channels that brought them, an hour each, as each file of a collector counts'
    """)
    op.execute("CREATE INDEX channel_counts_hour_idx ON lake.channel_counts USING brin (hour)")
    op.execute("""
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
    """)
    op.execute("""
        COMMENT ON VIEW lake.channel_coverage IS
        'Facts an instance, hour and kind by the channels that brought them, as one collector saw them'
    """)
