"""Where settings come from: defaults, then a TOML file, then the environment, then the command line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

import contracts.configured
import ingest.config
from ingest.inbox.config import InboxConfigError
from zaplake.keys import ENV_ALIASES, ENV_PREFIX, Key, all_keys, build
from zaplake.secret import Secret
from zaplake.settings import Settings, refuse_dangerous
from zaplake.trouble import UsageTrouble

CONFIG_ENV: Final = "ZAPLAKE_CONFIG"
CONFIG_FILE: Final = Path("zaplake.toml")
# Kubernetes puts these into every pod beside a service called zaplake; they are nobody's settings.
_SERVICE_LINK: Final = re.compile(
    r"ZAPLAKE_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?=.*|PORT_\d+_(TCP|UDP)(_\w+)?=.*|PORT=(tcp|udp)://.*)"
)
_SEE: Final = "see docs/settings.md"


def load_settings(
    config: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings of this process; ``overrides`` are the command line's by dotted name (None: not given).

    Raises UsageTrouble that names the key, where it was set, and what to do.
    """
    values: dict[str, object] = {}
    for source, key, value, text in _given(config, environ):
        values[key.name] = _converted(key, value, source, from_text=text)
    for name, value in (overrides or {}).items():
        if value is not None:
            values[name] = _converted(all_keys()[name], value, "the command line", from_text=False)
    try:
        settings = build(values)
    except InboxConfigError as error:
        raise UsageTrouble(f"settings: work.limits: {error}", _SEE) from error
    except ingest.config.ConfigError as error:
        raise UsageTrouble(f"settings: ingest.limits: {error}", _SEE) from error
    except contracts.configured.ConfigError as error:
        place = "collector." if str(error).startswith("limits.") else ""
        raise UsageTrouble(f"settings: {place}{error}", _SEE) from error
    refuse_dangerous(settings)
    return settings


def config_path(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The TOML file that counts: ``--config``, ZAPLAKE_CONFIG, ./zaplake.toml when it is there."""
    named = config or (Path(environ[CONFIG_ENV]) if environ.get(CONFIG_ENV) else None)
    if named is not None and not named.is_file():
        raise UsageTrouble(
            f"there is no settings file {named}", "name an existing file, or leave --config out"
        )
    return named or (CONFIG_FILE if CONFIG_FILE.is_file() else None)


def _given(config: Path | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Key, object, bool]]:
    path = config_path(config, environ)
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageTrouble(f"cannot read {path}: {error}", "repair the file; it must be TOML") from error
        for name, value in _leaves(document, ()):
            yield str(path), _known(name, str(path)), value, False
    by_env = {key.env: key for key in all_keys().values()}
    for alias, name in ENV_ALIASES.items():
        if environ.get(alias):
            yield alias, all_keys()[name], environ[alias], True
    for variable, value in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_ENV:
            continue
        if variable in by_env:
            yield variable, by_env[variable], value, True
        elif not _SERVICE_LINK.fullmatch(f"{variable}={value}"):
            raise UsageTrouble(f"unknown setting {variable} in the environment", _suggest(variable, by_env))


def _leaves(table: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        path = (*prefix, name)
        dotted = ".".join(path)
        if isinstance(value, dict) and dotted not in all_keys():
            yield from _leaves(value, path)
        else:
            yield dotted, value


def _known(name: str, source: str) -> Key:
    if name not in all_keys():
        raise UsageTrouble(f"unknown setting {name} in {source}", _suggest(name, all_keys()))
    return all_keys()[name]


def _suggest(name: str, names: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"remove it; all keys: {_SEE[4:]}"


def _converted(key: Key, value: object, source: str, *, from_text: bool) -> object:
    try:
        if from_text and isinstance(value, str):
            value = _from_text(key, value)
        return msgspec.convert(value, key.hint, strict=not from_text, dec_hook=_decode)
    except (ValueError, TypeError, RuntimeError) as error:  # the last one: no such home
        raise UsageTrouble(f"{key.name} ({source}): {error}", f"{key.text} {_SEE}") from error


def _from_text(key: Key, text: str) -> object:
    """Lists are ``a,b`` or JSON; tables and lists of tables are JSON; everything else is itself."""
    if isinstance(key.default, (tuple, frozenset)):
        if text.lstrip().startswith("["):
            return msgspec.json.decode(text)
        if not text.strip() and not key.is_secret_list:
            return []
        return [item.strip() for item in text.split(",")]
    if isinstance(key.default, Mapping):
        return msgspec.json.decode(text) if text.strip() else {}
    return text


def _decode(kind: type[Any], value: object) -> object:
    assert kind in (Secret, Path), "every other type of a key is one that msgspec converts itself"
    if not isinstance(value, str | Path):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return Path(value).expanduser() if kind is Path else Secret(str(value))
