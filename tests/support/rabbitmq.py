"""A real RabbitMQ for the tests: AMQP_URL when given, else the installed server, started for this session.

A broker that a test stops or kills is always one of our own, in a folder of its own, with an epmd of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from tests.support.missing import missing

BIN: Final = Path("/usr/lib/rabbitmq/bin")
"""Debian's scripts behind ``/usr/sbin``, which would change the user and the folder."""
START_S_MAX: Final = 90.0
STOP_S_MAX: Final = 30.0
PORTS: Final = range(20_000, 32_000)
"""Below those that Linux gives to connections."""
SHARES: Final = 16
"""Test processes beside each other take of different ones: a port is only taken when its server listens."""
DEADLINE_S: Final = 15.0
"""What a test waits for at most."""


class NoBroker(Exception):
    """There is no RabbitMQ to be started on this machine."""


class Broker:
    """A RabbitMQ of our own. ``stop`` and ``kill`` end it, ``start`` brings it back with its data."""

    def __init__(self, folder: Path) -> None:
        if not (BIN / "rabbitmq-server").exists() or shutil.which("epmd") is None:
            raise NoBroker("rabbitmq-server of the distribution is not installed")
        self.port, self._epmd_port = free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._environ = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"zaplake{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
        }
        (folder / "plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
        )
        self._epmd = subprocess.Popen(["epmd", "-port", str(self._epmd_port)], env=self._environ)

    def start(self) -> None:
        """Returns when it accepts connections."""
        with (self._folder / "console").open("ab") as console:
            self._process = subprocess.Popen(
                [BIN / "rabbitmq-server"],
                env=self._environ,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S_MAX
        while not _accepts(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"RabbitMQ did not start:\n{(self._folder / 'console').read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it in order, as a restart of its service does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._end(signal.SIGKILL)

    def run(self, *arguments: str) -> str:
        """One command of rabbitmqctl."""
        return subprocess.run(
            [BIN / "rabbitmqctl", "--quiet", *arguments],
            env=self._environ,
            check=True,
            capture_output=True,
            text=True,
            timeout=STOP_S_MAX,
        ).stdout

    def close(self) -> None:
        """Ends everything that was started."""
        if self._process is not None:
            self.kill()
        self._epmd.kill()
        self._epmd.wait()

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None, "start comes first"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        self._process.wait(STOP_S_MAX)
        self._process = None
        deadline = time.monotonic() + STOP_S_MAX
        while _accepts(self.port):
            assert time.monotonic() < deadline, "the broker still listens"
            time.sleep(0.01)


@contextlib.contextmanager
def broker_of_our_own() -> Iterator[Broker]:
    """A running broker, ended and deleted at the end. Raises NoBroker."""
    folder = Path(tempfile.mkdtemp(prefix="zlmq"))
    try:
        broker = Broker(folder)
        try:
            broker.start()
            yield broker
        finally:
            broker.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def no_broker(reason: str) -> NoReturn:
    """Says that the group did not run; where everything must run it is a failure."""
    missing(f"the RabbitMQ tests did not run: {reason}; set AMQP_URL or install rabbitmq-server")


def free_port() -> int:
    """A port that nobody listens on, and that no connection gets by itself.

    A server that stays away for minutes would find one of those taken, if only by somebody who tries to
    reach it: to a port without a server a connection can be its own other end.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % SHARES
    own = PORTS[worker::SHARES]
    for port in random.SystemRandom().sample(own, k=len(own)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise NoBroker("no port is free")


def _accepts(port: int) -> bool:
    """True when a RabbitMQ answers there: it says which protocol it speaks."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"AMQP\x00\x00\x00\x00")
        return connection.recv(4) == b"AMQP"
    return False
