"""``zaplake collector``: look after the collector of a data folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from zaplake.cli import carrying, dead, refilling
from zaplake.cli.asking import ask
from zaplake.cli.options import AsJson, Common, settle
from zaplake.cli.showing import reading, second
from zaplake.trouble import UsageTrouble
from zaplake.wiring import outbox_folder
from zaplake.wording import counted

app = App(name="collector", help="Look after the collector of a data folder.")
app.command(dead.app)
app.command(carrying.export)
app.command(refilling.refill)
app.command(carrying.import_, name="import")


@app.command
def status(*, as_json: AsJson = False, common: Common | None = None) -> int:
    """What waits, what died, what is wrong; of a stopped collector too, by its file.

    Exit code 1 when shipping is halted or dead letters lie there.

    **Examples**

    ```sh
    zaplake collector status
    zaplake collector status --json --data-dir /var/lib/zaplake
    ```

    Parameters
    ----------
    as_json
        One JSON object.
    """
    settings = settle(common)
    document, alive = ask(settings, {"verb": "status"})
    if not alive:  # what this shell's settings say need not be the collector's own
        document |= {"name": None, "backend_url": None}
    document = {"running": alive, **document}
    if as_json:
        print(json.dumps(document))
    else:
        _show(document, outbox_folder(settings))
    shipper = document["shipper"] or {}
    blobs, outbox = document["blob_shipper"] or {}, document["outbox"]
    is_halted = shipper.get("halted") or blobs.get("halted")
    return 1 if is_halted or outbox["dead"] or outbox["blobs_dead"] else 0


@app.command
def load(file: Path, /, *, common: Common | None = None) -> int:
    """Load a JSONL file of events; the same file again adds nothing.

    A line is {"gateway", "instance", "event", "data"}, better with "at" and "seq". Works beside a running
    collector and without one.

    **Examples**

    ```sh
    zaplake collector load events.jsonl
    ```

    Parameters
    ----------
    file
        The file.
    """
    if not file.is_file():
        raise UsageTrouble(f"there is no file {file}", "name an existing JSONL file")
    settings = settle(common)
    with reading(file) as told:

        async def on_progress(document: Mapping[str, Any]) -> None:
            told(document["bytes_read"])

        wanted = {"verb": "load", "path": str(file.resolve())}
        report, alive = ask(settings, wanted, on_progress, create=True)
        told(report["bytes_read"])
    counts = ", ".join(f"{name} {count}" for name, count in sorted(report["counts"].items())) or "nothing new"
    print(f"{counted(report['lines'], 'line')}: {counts}")
    for bad in report["bad"]:
        print(f"line {bad['line']} was not loaded: {bad['reason']}")
    if report["bad_lines"] > len(report["bad"]):
        print(f"… {report['bad_lines']} bad lines in all")
    if report["bad_lines"]:
        print("→ a line is one JSON object; repair these and load the file again: the others are not doubled")
    if not alive:
        print(f"they wait in {outbox_folder(settings)} for the next `zaplake up` or `zaplake collect` on it")
    return 1 if report["bad_lines"] else 0


def _show(document: dict[str, Any], folder: Path) -> None:
    outbox, shipper = document["outbox"], document["shipper"] or {}
    alive = document["running"]
    title = f"collector {document['name']}: up for {document['uptime_s']:.0f} s" if alive else ""
    shown = Table(title=title or f"the collector of {folder} does not run", show_header=False)
    oldest = "" if outbox["oldest_age_s"] is None else f" (oldest {outbox['oldest_age_s']:.0f} s)"
    shown.add_row("waiting", f"{outbox['waiting']}{oldest}")
    shown.add_row("dead", f"{outbox['dead']}" + (" → zaplake collector dead list" if outbox["dead"] else ""))
    if outbox["blobs_waiting"] or outbox["blobs_dead"]:
        shown.add_row("blobs", f"{outbox['blobs_waiting']} waiting, {outbox['blobs_dead']} dead")
    blobs = document["blob_shipper"] or {}
    if blobs.get("halted"):
        shown.add_row("blobs halted", str(blobs["halt_reason"]))
    shown.add_row("delivered, remembered", str(outbox["seen"]))
    shown.add_row("file", f"{outbox['file_bytes'] / 1e6:.1f} MB")
    halted = shipper.get("halted")
    last = shipper.get("last_verdict")
    shipping = f"halted: {shipper['halt_reason']}" if halted else f"last verdict {last}" if last else "idle"
    if alive:
        shown.add_row("shipping to", f"{document['backend_url']}: {shipping}")
    for broker in document["rabbitmq"]:
        shown.add_row(f"RabbitMQ of {broker['gateway']}", broker_words(broker))
    for name, count in sorted(document["totals"].items()):
        shown.add_row(f"events {name}", str(count))
    for alert in document["alerts"]["active"]:
        shown.add_row("alert", _alert(alert))
    console = Console()
    console.print(shown, markup=False)
    if document["instances"]:
        table = Table("gateway", "instance", "scope", "state", "last event")
        for seen in document["instances"]:
            names = (str(seen[name] or "") for name in ("gateway", "instance", "scope", "state"))
            table.add_row(*names, second(seen["last_event_at"]))
        console.print(table, markup=False)


def broker_words(broker: Mapping[str, Any]) -> str:
    """How the RabbitMQ door of one gateway is, of its part of the status document."""
    waiting = "" if broker["waiting"] is None else f", {broker['waiting']} wait in {broker['queue']}"
    dead = f", {broker['dead']} in {broker['queue']}.dlq" if broker["dead"] else ""
    if not broker["consuming"]:
        return f"takes nothing: {broker['trouble'] or 'connecting'}"
    last = "none yet" if broker["last_message_at"] is None else f"last {second(broker['last_message_at'])}"
    held = f" (holds {broker['held']}: {broker['trouble']})" if broker["trouble"] else ""
    return f"takes messages, {last}{waiting}{dead}{held}"


def _alert(alert: Mapping[str, Any]) -> str:
    subject = f" {alert['subject']}" if alert["subject"] else ""
    detail = f": {alert['detail']}" if alert["detail"] else ""
    often = f"{counted(alert['count'], 'time')} since {second(alert['since'])}"
    return f"{alert['alert']}{subject}{detail} ({often})"
