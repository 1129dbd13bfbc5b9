"""Figures of the backend: single signed events, and batches of 100 (issue 2, "Figures")."""

from __future__ import annotations

from bench import postgres, reference
from bench.harness import Line, Options, expect_rows, in_turn
from bench.loadclient import Load, run_client
from bench.serve import running
from ingest.config import IngestConfig

CLIENTS = 64
EVENTS_PREPARED_PER_S = 20_000
BATCH = 100
BATCH_CLIENTS = 8
BATCHES_PREPARED_PER_S = 700


def events(server_dsn: str, options: Options) -> list[Line]:
    """Single signed events, 64 clients."""

    def ours(run: str, *flags: str) -> float:
        with postgres.database(server_dsn, f"events{run}") as dsn:
            load = _single(dsn, run, options, *flags)
            expect_rows("single events", acknowledged=load.ok, found=postgres.rows(dsn))
        return load.per_s

    def pgbench(run: str) -> float:
        with postgres.database(server_dsn, f"pgbench{run}") as dsn:
            rate, done = reference.pgbench(dsn, clients=CLIENTS, seconds=options.seconds)
            expect_rows("pgbench", acknowledged=done, found=postgres.rows(dsn))
        return rate

    taken = in_turn(
        {
            "events: ours": ours,
            "events: commit per request": lambda run: ours(run, "--per-request"),
            "events: pgbench": pgbench,
        },
        options.runs,
    )
    mine, each, bare = taken.values()
    return [
        Line(name="single_events_vs_commit_per_request", ours=mine, reference=each, goal=2.5),
        Line(name="single_events_vs_pgbench", ours=mine, reference=bare, goal=0.6),
    ]


def _single(dsn: str, run: str, options: Options, *flags: str) -> Load:
    with running("ingest", "--dsn", dsn, *flags) as server:
        return run_client(
            port=server.ready.port,
            shape="single",
            clients=CLIENTS,
            seconds=options.seconds,
            count=round(EVENTS_PREPARED_PER_S * options.seconds),
            run=run,
        )


def batches(server_dsn: str, options: Options) -> list[Line]:
    """Signed batches of 100."""
    connections = IngestConfig(dsn=server_dsn, secrets=(b"any",)).writer_connections
    count = round(BATCHES_PREPARED_PER_S * options.seconds)

    def ours(run: str) -> float:
        with postgres.database(server_dsn, f"batches{run}") as dsn:
            with running("ingest", "--dsn", dsn) as server:
                load = run_client(
                    port=server.ready.port,
                    shape="batch",
                    clients=BATCH_CLIENTS,
                    seconds=options.seconds,
                    count=count,
                    run=run,
                    batch=BATCH,
                )
            expect_rows("batches", acknowledged=load.ok * BATCH, found=postgres.rows(dsn))
        return load.per_s * BATCH

    def bare(run: str) -> float:
        with postgres.database(server_dsn, f"unnest{run}") as dsn:
            rate, done = reference.unnest_loop(
                dsn, run, connections=connections, batch=BATCH, seconds=options.seconds, count=count
            )
            expect_rows("unnest loop", acknowledged=done, found=postgres.rows(dsn))
        return rate

    mine, loop = in_turn({"batches: ours": ours, "batches: unnest loop": bare}, options.runs).values()
    return [
        Line(name="batches_of_100_vs_unnest_loop", ours=mine, reference=loop, goal=0.55),
        Line(name="batches_of_100_events_per_s", ours=mine, reference=20_000, goal=1.0),
    ]
