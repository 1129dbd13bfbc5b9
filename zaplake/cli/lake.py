"""``zaplake lake``: questions to the lake, for people and for machines."""

from __future__ import annotations

import asyncio
import csv
import sys
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import msgspec
from cyclopts import App, Parameter
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from zaplake import collectors
from zaplake.blob import fetch
from zaplake.cli.options import AsJson, Common, settle
from zaplake.cli.showing import second
from zaplake.database import lake_dsn
from zaplake.query import Answer, run
from zaplake.trouble import UsageTrouble

PEOPLE_ROWS: Final = 1_000
MACHINE_ROWS: Final = 100_000
COLUMN_CHARS_MIN: Final = 14
"""A table that does not fit and has less room a column is shown as one line a column instead, and so is one
in which a word (an id, a hash) would not fit: nobody can use half an id."""
UNBOUNDED: Final = 1_000_000
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode

app = App(name="lake", help="Ask the lake.")


@app.command
def sql(
    query: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    as_json: AsJson = False,
    as_csv: Annotated[bool, Parameter(name="--csv")] = False,
    limit: int | None = None,
    common: Common | None = None,
) -> int:
    """Run one SQL statement in a read-only transaction.

    Uses DATABASE_URL, else the Postgres of the data folder (starts it for the moment when it does not run).

    **Examples**

    ```sh
    zaplake lake sql "select kind, count(*) from lake.whatsapp_event_logs group by kind order by 2 desc"
    zaplake lake sql "select payload from lake.whatsapp_event_logs order by seq desc limit 5" --json
    ```

    Parameters
    ----------
    query
        The statement, quoted as one argument; it may begin with a comment.
    as_json
        A JSON array, a row a line.
    as_csv
        CSV with a header.
    limit
        Most rows that are shown [default: 1000 for people, 100000 for --json and --csv].
    """
    if as_json and as_csv:
        raise UsageTrouble("--json and --csv exclude each other", "choose one")
    if limit is not None and limit < 1:
        raise UsageTrouble("--limit must be at least 1", "leave it out for the default")
    rows_max = limit or (MACHINE_ROWS if as_json or as_csv else PEOPLE_ROWS)
    with lake_dsn(settle(common)) as dsn:
        answer = asyncio.run(run(dsn, query, rows_max=rows_max))
    if as_json:
        write_json(answer, sys.stdout)
    elif as_csv:
        write_csv(answer, sys.stdout)
    else:
        _show(answer, Console())
    if answer.cut:
        print(
            f"there are more rows: only the first {rows_max} are shown (--limit N for more)", file=sys.stderr
        )
    return 0


@app.command
def blob(
    sha256: str,
    /,
    *,
    out: Annotated[Path, Parameter(name="--out")],
    common: Common | None = None,
) -> int:
    """Fetch the bytes of an image, a voice message or the like, and compare their hash.

    Reads the folder `blobs` of the data folder, or the bucket of ingest.blob_store_url.

    **Examples**

    ```sh
    zaplake lake sql "select sha256, mime from lake.blob_refs join lake.blobs using (sha256) limit 5"
    zaplake lake blob 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --out image.jpg
    ```

    Parameters
    ----------
    sha256
        The blob's name: 64 hex digits.
    out
        A new file.
    """
    size = asyncio.run(fetch(settle(common), sha256, out))
    print(f"{out}: {size} bytes, hash right")
    return 0


@app.command
def retire(collector: str, /, *, common: Common | None = None) -> int:
    """Forget a collector that is gone for good: its alert `collector.silent` ends.

    What may wait in its outbox is not here yet: carry it over first (zaplake collector export). Until it is
    retired, blobs whose events it may hold are kept.

    **Examples**

    ```sh
    zaplake lake sql "select name, last_seen_at, report->'depth' as depth from lake.collectors"
    zaplake lake retire shop-machine-1
    ```

    Parameters
    ----------
    collector
        Its name, the subject of the alert.
    """
    settings = settle(common)
    silent_after_s = settings.ingest.limits.silent_after_s
    with lake_dsn(settings) as dsn:
        seen_at = asyncio.run(collectors.retire(dsn, collector, silent_after_s=silent_after_s))
    print(f"{collector} is retired; it was last heard of at {second(seen_at.isoformat())}")
    return 0


def write_json(answer: Answer, out: TextIO) -> None:
    """One array of objects, an object a line; json columns stay as Postgres wrote them."""
    lines = (
        _encode(dict(zip(answer.columns, map(_plain, row), strict=True))).decode("utf-8", "replace")
        for row in answer.rows
    )
    out.write("[" + ",".join(f"\n{line}" for line in lines) + "\n]\n")


def write_csv(answer: Answer, out: TextIO) -> None:
    """A header and the rows; NULL is empty."""
    writer = csv.writer(out)
    writer.writerow(answer.columns)
    writer.writerows([_text(value) for value in row] for row in answer.rows)


def _show(answer: Answer, console: Console) -> None:
    beside = table(answer)
    wanted = console.measure(beside, options=console.options.update(width=UNBOUNDED))
    is_crowded = len(answer.columns) * COLUMN_CHARS_MIN > console.width or wanted.minimum > console.width
    console.print(lists(answer) if is_crowded and wanted.maximum > console.width else beside)
    console.print("1 row" if len(answer.rows) == 1 else f"{len(answer.rows)} rows", style="italic")


def table(answer: Answer) -> Table:
    """For a terminal; NULL is shown as such."""
    shown = Table()
    rows = [[_cell(value) for value in row] for row in answer.rows]
    for number, column in enumerate(answer.columns):
        is_one_word = not any(" " in row[number].plain for row in rows)  # others give way, it is never cut
        shown.add_column(Text(column), no_wrap=is_one_word, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    return shown


def lists(answer: Answer) -> RenderableType:
    """For a terminal and more columns than it has room for: one line a column, rows one below the other."""
    parts: list[RenderableType] = []
    for number, row in enumerate(answer.rows, start=1):
        shown = Table.grid(padding=(0, 2))
        shown.add_column(no_wrap=True)
        shown.add_column(overflow="fold")
        for column, value in zip(answer.columns, row, strict=True):
            shown.add_row(Text(column, style="bold"), _cell(value))
        parts += [Text(f"── row {number} ──", style="dim"), shown]
    return Group(*parts)


def _cell(value: Any) -> Text:
    return Text("NULL", style="dim") if value is None else Text(_text(value))


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, (dict, list, tuple, bool)):
        return _encode(value).decode()
    return str(_plain(value))
