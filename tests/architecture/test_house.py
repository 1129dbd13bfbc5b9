"""The files around the code keep the rules: hashed lock, no registry, no machine path, a parsable compose."""

import re
import subprocess
from pathlib import Path

import yaml

from collector.config import Limits
from zaplake.keys import all_keys

ROOT = Path(__file__).parents[2]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_the_lock_is_pins_with_hashes_and_nothing_else() -> None:
    """No line gives an option or an address: where packages come from is the machine's business."""
    lock = (ROOT / "requirements.lock").read_text()
    pin = re.compile(r"[a-z0-9][a-z0-9._-]*==[^\s;]+( ; [^\\]+)? \\")
    more = re.compile(r"    (--hash=sha256:[0-9a-f]{64}( \\)?|#.*)")
    pins, is_hashed = 0, True
    for line in lock.splitlines():
        if pin.fullmatch(line):
            assert is_hashed, f"no hash above {line}"
            pins, is_hashed = pins + 1, False
        else:
            assert more.fullmatch(line), line
            is_hashed = is_hashed or "--hash=" in line
    assert is_hashed
    assert pins > 20


def test_no_file_names_a_registry_or_a_machine_path() -> None:
    hosts = (r"files.pythonhosted", r"pypi", r"registry.npmjs", r"deb.debian")
    registry = re.compile("|".join(rf"{re.escape(host)}\.org" for host in hosts).encode())
    folders = ("root", "home", "work")
    machine = re.compile("|".join(rf"/{folder}/[a-z.]" for folder in folders).encode())
    for path in tracked():
        content = path.read_bytes()
        assert not registry.search(content), path
        assert not machine.search(content), path


def test_compose_file_has_limits_checks_and_restart() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = compose["services"]
    assert {"postgres", "serve", "work", "collect", "rabbitmq"} <= set(services)
    for name, service in services.items():
        limits = service["deploy"]["resources"]["limits"]
        assert limits["memory"], name
        assert limits["cpus"], name
        if name != "migrate":  # runs once and ends
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} would be reachable from outside"
        if name not in {"postgres", "rabbitmq"}:
            assert service["env_file"], f"what .env says would not reach {name}"
            assert int(service["stop_grace_period"].rstrip("s")) > Limits().stop_grace_s + Limits().drain_s
            names = {variable for variable in service["environment"] if variable.startswith("ZAPLAKE_")}
            assert names <= {key.env for key in all_keys().values()}, f"{name} sets what is no setting"


def test_dockerfile_copies_every_room() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for room in ("asgi", "collector", "contracts", "ingest", "migrations", "outbox", "simulator", "zaplake"):
        assert f"COPY {room} {room}" in dockerfile
    assert "USER zaplake" in dockerfile


def test_every_suppression_says_why() -> None:
    """A silenced checker is a claim; the reason stands in its line."""
    silenced = re.compile(r"#\s*(type:\s*ignore\[[^\]]+\]|noqa:\s*[A-Z0-9, ]+)(?P<why>.*)$")
    bare = re.compile(r"#\s*(type:\s*ignore(?!\[)|noqa(?!:\s*[A-Z]))")
    found = []
    for path in tracked():
        if path.suffix != ".py" or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            match = silenced.search(line)
            if bare.search(line) or (match is not None and len(match["why"].strip("# ()")) < 8):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert not found, found
