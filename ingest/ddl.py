"""Statements beside the tables of the metadata, run as they stand when the metadata is created."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, MetaData, Table, event


def run_when(
    target: MetaData | Table, when: Literal["before_create", "after_create"], statement: str
) -> None:
    """Run ``statement`` on the connection that creates ``target``; a percent sign is itself."""

    def run(_target: MetaData | Table, connection: Connection, **_options: object) -> None:
        connection.exec_driver_sql(statement)

    event.listen(target, when, run)
