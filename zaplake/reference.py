"""Writes docs/settings.md and .env.example from the keys (``python -m zaplake.reference``); tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from zaplake.keys import Key, all_keys
from zaplake.secret import Secret

SETTINGS_MD: Final = Path("docs/settings.md")
ENV_EXAMPLE: Final = Path(".env.example")

_MD_HEAD: Final = """# Settings

Later wins: default, TOML file (`--config FILE`, else `ZAPLAKE_CONFIG`, else `./zaplake.toml`), environment,
command line. A key that is not in this table is refused, and so is a value or a pair of values that
would lose events.

In the environment a list is `a,b` (or JSON), a table or a list of tables is JSON. Secrets are never printed.
This page is written by `python -m zaplake.reference`.

```toml
# zaplake.toml
signing_secrets = ["the new one signs", "the old one is still accepted"]

[collector]
backend_url = "https://lake.example.org"

[[gateways]]
name = "evolution"
family = "evolution"            # evolution, baileys, waha or cloudapi
tokens = ["a long secret"]      # header X-Collector-Token, Authorization: Bearer, or a path segment
jwt_keys = []                   # Evolution's jwt_key
hmac_keys = []                  # WAHA's hmac.key
app_secrets = []                # Cloud API's app secret
# verify_token = "…"            # Cloud API's handshake
instances = ["shop-1"]          # the expected ones; others are stored too, with an alert

[gateways.amqp]                 # Evolution's RabbitMQ, beside its webhook; the members are those of [amqp]
url_file = "/run/secrets/amqp"  # else url, else AMQP_URL

[accounts]
"evolution/shop-1" = "shop"     # instances of one scope share rows
```
"""

_ENV_HEAD: Final = """\
# Every setting with its default; docs/settings.md says more. Copy to .env and uncomment what you change.
# compose.yaml reads .env by itself; a shell does with: set -a; . ./.env; set +a
# For compose.yaml these three are needed: uncomment them, with a value each (openssl rand -hex 32)
#POSTGRES_PASSWORD=
#ZAPLAKE_SIGNING_SECRETS=
#ZAPLAKE_GATEWAY_TOKENS=
# And with its RabbitMQ (docker compose --profile rabbitmq up -d): AMQP_URL=amqp://zaplake:<password>@rabbitmq/
#RABBITMQ_PASSWORD=
#AMQP_URL=
"""


def settings_page() -> str:
    """docs/settings.md."""
    title = "## {}\n\n| key | environment | default | what |\n|---|---|---|---|"
    return _page(_MD_HEAD, title, _row)


def env_example() -> str:
    """.env.example."""
    return _page(_ENV_HEAD, "# {}", lambda key: f"# {key.text}\n#{key.env}={_shown(key)}")


def _page(head: str, title: str, line: Callable[[Key], str]) -> str:
    """The keys below their sections, each of which stands where its first key does."""
    sections: dict[str, list[str]] = {}
    for key in all_keys().values():
        section = ".".join(key.path[:-1]) or "General"
        sections.setdefault(section, [title.format(section)]).append(line(key))
    return "\n".join([head, *(line for lines in sections.values() for line in (*lines, ""))])


def _row(key: Key) -> str:
    default = f"`{_shown(key)}`" if _shown(key) else "–"
    return f"| `{key.name}` | `{key.env}` | {default} | {key.text} |"


def _shown(key: Key) -> str:
    """The default as one would write it in the environment; empty when there is none."""
    value = key.default
    if value is None or value == () or value == frozenset() or value == {}:
        return ""
    assert not isinstance(value, Secret | Mapping), "no secret and no table has a default"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Writes both files into the working directory."""
    SETTINGS_MD.write_text(settings_page(), encoding="utf-8")
    ENV_EXAMPLE.write_text(env_example(), encoding="utf-8")


if __name__ == "__main__":
    main()
