"""The systemd units: restart, hardening, a stop that may drain; and systemd itself finds nothing wrong."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from collector.config import Limits
from tests.support.missing import not_installed
from zaplake.cli import USAGE, run
from zaplake.keys import all_keys
from zaplake.settings import NO_DSN, Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = ("zaplake-collect.service", "zaplake-serve.service", "zaplake-work.service")
HARDENED = (
    "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectKernelTunables",
    "ProtectKernelModules", "ProtectControlGroups", "RestrictSUIDSGID",
)  # fmt: skip


class Unit(configparser.ConfigParser):
    """Names of a unit's settings have capitals."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(name: str) -> Unit:
    parser = Unit(strict=True, interpolation=None)
    parser.read_string((DEPLOY / name).read_text())
    return parser


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_restarts_is_hardened_and_keeps_its_state(name: str) -> None:
    parsed = unit(name)
    service = parsed["Service"]
    for switch in HARDENED:
        assert service[switch] == "yes", switch
    assert service["ProtectSystem"] == "strict"
    assert service["User"] == "zaplake", "operator's verbs on a stopped file run as the same user"
    assert service["CapabilityBoundingSet"] == ""
    assert service["StateDirectoryMode"] == "0700"
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == str(USAGE)
    assert parsed["Unit"]["StartLimitIntervalSec"] == "0"
    assert parsed["Install"]["WantedBy"] == "multi-user.target"
    state = f"%S/{service['StateDirectory']}"
    values = dict(pair.split("=", 1) for pair in service["Environment"].split())
    assert values["ZAPLAKE_DATA_DIR"] == service["WorkingDirectory"] == state
    settings = {key.env for key in all_keys().values()}
    assert {name for name in values if name.startswith("ZAPLAKE_")} <= settings


def test_a_stop_waits_longer_than_the_drain() -> None:
    theirs = Limits()
    assert int(unit(UNITS[0])["Service"]["TimeoutStopSec"]) > theirs.stop_grace_s + theirs.drain_s
    assert int(unit(UNITS[1])["Service"]["TimeoutStopSec"]) > NO_DSN.drain_s_max
    assert int(unit(UNITS[2])["Service"]["TimeoutStopSec"]) > Settings().work.limits.drain_s_max


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_calls_a_command_that_exists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = unit(name)["Service"]["ExecStart"].split()
    assert Path(program).name == "zaplake"
    assert run([*arguments, "--help"]) == 0
    assert f"zaplake {arguments[0]}" in capsys.readouterr().out


def verified(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        not_installed("systemd-analyze")
    file = tmp_path / name
    text = (DEPLOY / name).read_text().replace("/opt/zaplake/bin/zaplake", "/bin/true")
    file.write_text(text)
    done = verified(file)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    file.write_text(text.replace("ProtectHome=yes", "ProtectHome=perhaps"))
    assert "protect home" in verified(file).stderr.lower(), "this test can fail"
