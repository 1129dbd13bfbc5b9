"""Runs the steps on the connection that the caller hands over, all in one transaction."""

from alembic import context
from sqlalchemy import Connection, text

LOCK_KEY = 0x7A61706C616B65
"""Processes that start at once migrate one after the other."""


def run(connection: Connection) -> None:
    """Take the lock, then bring the schema to the wanted step."""
    context.configure(connection=connection, version_table="schema_version", version_table_schema="lake")
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS lake"))
        context.run_migrations()


run(context.config.attributes["connection"])
