"""Settings: every key documented, later sources win, bad values and dangerous pairs named and refused."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import stat
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from ingest.config import IngestConfig
from zaplake import __version__
from zaplake.database import required_dsn
from zaplake.keys import ENV_ALIASES, NO_KEYS, TEXTS, all_keys, build
from zaplake.query import connect
from zaplake.reference import env_example, settings_page
from zaplake.secret import Secret, ensure_secret, kept_secret
from zaplake.settings import Settings, refuse_misfit
from zaplake.sources import load_settings
from zaplake.trouble import Trouble, UsageTrouble
from zaplake.wiring import collector_config, ingest_config, signing_secrets

ROOT = Path(__file__).parents[2]
VALUE = "s3cret-value-of-a-test"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(environ: dict[str, str], toml: str | None = None) -> UsageTrouble:
    path = None
    if toml is not None:
        path = Path("given.toml")
        path.write_text(toml)
    with pytest.raises(UsageTrouble) as caught:
        load_settings(path, environ)
    assert caught.value.exit_code == 2
    assert caught.value.next_step
    return caught.value


def test_defaults_are_the_settings_themselves() -> None:
    assert load_settings(None, {}) == Settings() == build({})


def test_every_key_has_a_text_and_stands_in_both_documents() -> None:
    page, example = (ROOT / "docs/settings.md").read_text(), (ROOT / ".env.example").read_text()
    for key in all_keys().values():
        assert key.text.endswith("."), f"{key.name} has no text; write it in zaplake/keys.py"
        assert f"| `{key.name}` | `{key.env}` |" in page
        assert f"#{key.env}=" in example
    assert (page, example) == (settings_page(), env_example()), "run: python -m zaplake.reference"


def test_every_setting_of_the_rooms_has_a_key() -> None:
    names = set(all_keys()) | NO_KEYS
    for field in dataclasses.fields(IngestConfig):
        assert f"ingest.limits.{field.name}" in names
    assert set(TEXTS) <= names, "a text without a key"
    assert len({key.env for key in all_keys().values()}) == len(all_keys())


def test_every_key_can_be_set_by_its_variable_to_its_default() -> None:
    """The example file, uncommented, is the defaults: so each line of it is understood."""
    lines = re.findall(r"^#(ZAPLAKE_\w+)=(.+)$", (ROOT / ".env.example").read_text(), flags=re.MULTILINE)
    assert len(lines) > 40
    assert load_settings(None, dict(lines)) == Settings()


def test_later_sources_win(tmp_path: Path) -> None:
    Path("zaplake.toml").write_text("[ingest]\nport = 1001\nhost = '10.0.0.1'\nworkers = 3\n")
    other = tmp_path / "other.toml"
    other.write_text("[ingest]\nport = 2002\n")
    third = tmp_path / "third.toml"
    third.write_text("[ingest]\nport = 3003\n")
    assert load_settings(None, {}).ingest.port == 1001
    assert load_settings(None, {"ZAPLAKE_CONFIG": str(other)}).ingest.port == 2002
    assert load_settings(third, {"ZAPLAKE_CONFIG": str(other)}).ingest.port == 3003
    assert load_settings(None, {"ZAPLAKE_INGEST_PORT": "4004"}).ingest.port == 4004
    overridden = load_settings(None, {"ZAPLAKE_INGEST_PORT": "4004"}, {"ingest.port": 5005, "data_dir": None})
    assert overridden.ingest == dataclasses.replace(Settings().ingest, host="10.0.0.1", port=5005, workers=3)
    assert overridden.data_dir == Path("data")


def test_a_tilde_is_the_home_for_all_that_the_data_folder_holds() -> None:
    home = Path("~/lake").expanduser()
    assert load_settings(None, {"ZAPLAKE_DATA_DIR": "~/lake"}).data_dir == home
    assert load_settings(None, {}, {"data_dir": Path("~/lake")}).data_dir == home


def test_aliases_and_their_own_names() -> None:
    for alias, name in ENV_ALIASES.items():
        settings = load_settings(None, {alias: "scheme://one"})
        assert attrgetter(name)(settings) == Secret("scheme://one")
        both = load_settings(None, {alias: "scheme://one", all_keys()[name].env: "scheme://two"})
        assert attrgetter(name)(both) == Secret("scheme://two")


def test_the_environment_can_say_lists_tables_and_flags() -> None:
    settings = load_settings(
        None,
        {
            "ZAPLAKE_SIGNING_SECRETS": f"{VALUE}, second-{VALUE}",
            "ZAPLAKE_GATEWAYS": '[{"name":"evo","family":"evolution","tokens":["' + VALUE + '"]}]',
            "ZAPLAKE_ACCOUNTS": '{"evo/shop": "shop"}',
            "ZAPLAKE_CAPTURE_PRESENCE": "true",
            "ZAPLAKE_CAPTURE_DENY_CHAT_CLASSES": "group,newsletter",
            "ZAPLAKE_INGEST_LIMITS_RATE_EVENTS_PER_S": "2.5",
            "ZAPLAKE_DATA_DIR": "/somewhere",
        },
    )
    assert settings.signing_secrets == (Secret(VALUE), Secret(f"second-{VALUE}"))
    assert settings.gateways[0].tokens == (Secret(VALUE),)
    assert settings.accounts == {"evo/shop": "shop"}
    assert settings.capture.presence
    assert settings.capture.deny.chat_classes == {"group", "newsletter"}
    assert settings.ingest.limits.rate_events_per_s == 2.5
    assert settings.data_dir == Path("/somewhere")
    assert VALUE not in f"{settings!r} {settings} {settings.signing_secrets[0]:>5}"


def test_toml_says_the_same() -> None:
    Path("zaplake.toml").write_text(
        f'signing_secrets = ["{VALUE}"]\n[log]\nlevel = "debug"\n[[gateways]]\nname = "w"\nfamily = "waha"\n'
        f'hmac_keys = ["{VALUE}"]\n[accounts]\n"w/default" = "shop"\n[capture.deny]\nkinds = ["call"]\n'
        "[collector.limits]\ndrain_s = 61\n"
    )
    settings = load_settings(None, {})
    assert settings.gateways[0].hmac_keys[0].reveal() == VALUE
    assert settings.accounts == {"w/default": "shop"}
    assert settings.capture.deny.kinds == {"call"}
    assert (settings.collector.limits.drain_s, settings.log.level) == (61.0, "debug")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ZAPLAKE_INGEST_PORT", "http", "ingest.port (ZAPLAKE_INGEST_PORT)"),
        ("ZAPLAKE_INGEST_PORT", "70000", "65535"),
        ("ZAPLAKE_LOG_LEVEL", "loud", "log.level (ZAPLAKE_LOG_LEVEL)"),
        ("ZAPLAKE_SIGNING_SECRETS", "", "empty"),
        ("ZAPLAKE_SIGNING_SECRETS", f"{VALUE},,", "empty"),
        ("ZAPLAKE_DATABASE_URL", " ", "empty"),
        ("ZAPLAKE_DATA_DIR", "~nobody-of-this-name/lake", "data_dir (ZAPLAKE_DATA_DIR)"),
        ("ZAPLAKE_ACCOUNTS", "{", "accounts (ZAPLAKE_ACCOUNTS)"),
        ("ZAPLAKE_ACCOUNTS", '{"noslash": "x"}', "'noslash'"),
        ("ZAPLAKE_GATEWAYS", '[{"name": "e", "family": "evolution", "tokns": []}]', "tokns"),
        ("ZAPLAKE_GATEWAYS", '[{"name": "e", "family": "other"}]', "other"),
        ("ZAPLAKE_COLLECTOR_HEARTBEAT_S", "0", "> 0"),
        ("ZAPLAKE_COLLECTOR_LIMITS_DRAIN_S", "3", "collector.limits.drain_s"),
        ("ZAPLAKE_INGEST_LIMITS_BODIES_BYTES_MAX", "10", "bodies_bytes_max"),
        ("ZAPLAKE_COLLECTOR_HOST", "0.0.0.0", "no gateway has a secret"),
    ],
)
def test_bad_values_and_pairs_are_named(variable: str, value: str, said: str) -> None:
    assert said in refused({variable: value}).what


@pytest.mark.parametrize(
    ("toml", "said", "suggestion"),
    [
        ("[ingest]\nprot = 1\n", "unknown setting ingest.prot in given.toml", "did you mean ingest.port?"),
        ("[colector]\nport = 1\n", "unknown setting colector.port", "did you mean collector.port?"),
        ("qqq = 1\n", "unknown setting qqq", "docs/settings.md"),
        ("[ingest]\nport = '80'\n", "ingest.port (given.toml): Expected `int`, got `str`", "Port"),
        ("data_dir = 3\n", "data_dir (given.toml)", "Folder"),
        ("ingest = 3\n", "unknown setting ingest in given.toml", ""),
        ("a = [\n", "cannot read given.toml", "TOML"),
    ],
)
def test_bad_toml_is_named(toml: str, said: str, suggestion: str) -> None:
    trouble = refused({}, toml)
    assert said in trouble.what
    assert suggestion in trouble.next_step


def test_unknown_variables_get_a_suggestion_and_service_links_are_nobodys() -> None:
    assert refused({"ZAPLAKE_INGST_PORT": "1"}).next_step == "did you mean ZAPLAKE_INGEST_PORT?"
    links = {
        "ZAPLAKE_PORT": "tcp://10.0.0.1:8000",
        "ZAPLAKE_SERVICE_HOST": "10.0.0.1",
        "ZAPLAKE_SERVICE_PORT_HTTP": "8000",
        "ZAPLAKE_PORT_8000_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(None, links) == Settings()


def test_a_missing_file_is_said() -> None:
    with pytest.raises(UsageTrouble, match=r"no settings file nowhere\.toml"):
        load_settings(Path("nowhere.toml"), {})


def test_tokens_of_the_default_gateways_do_not_mix_with_own_gateways() -> None:
    gateways = '[{"name":"e","family":"evolution"}]'
    assert "own" in refused({"ZAPLAKE_GATEWAYS": gateways, "ZAPLAKE_GATEWAY_TOKENS": VALUE}).what
    open_door = load_settings(None, {"ZAPLAKE_COLLECTOR_HOST": "0.0.0.0", "ZAPLAKE_GATEWAY_TOKENS": VALUE})
    assert open_door.collector.host == "0.0.0.0"


def test_what_the_rooms_refuse_is_trouble_too() -> None:
    short = load_settings(None, {"ZAPLAKE_GATEWAY_TOKENS": "short"})
    with pytest.raises(UsageTrouble, match="fewer than"):
        collector_config(short, secrets=(b"signs",))
    nowhere = load_settings(None, {"ZAPLAKE_COLLECTOR_BACKEND_URL": "backend:8000"})
    with pytest.raises(UsageTrouble, match="backend_url"):
        collector_config(nowhere, secrets=(b"signs",))


def test_the_wiring_hands_everything_on() -> None:
    given = load_settings(
        None,
        {
            "ZAPLAKE_SIGNING_SECRETS": f"{VALUE},second-{VALUE}",
            "ZAPLAKE_GATEWAY_TOKENS": VALUE,
            "ZAPLAKE_ACCOUNTS": '{"evolution/shop": "one"}',
            "ZAPLAKE_INGEST_LIMITS_GROUP_ROWS_MAX": "7",
            "ZAPLAKE_DATA_DIR": "/somewhere",
        },
    )
    secrets = signing_secrets(given)
    assert secrets == (VALUE.encode(), f"second-{VALUE}".encode())
    backend = ingest_config(given, dsn="postgresql://x", secrets=secrets)
    assert (backend.group_rows_max, backend.dsn, backend.secrets) == (7, "postgresql://x", secrets)
    collector = collector_config(given, secrets=secrets, backend_url="http://127.0.0.1:1")
    assert collector.data_folder == Path("/somewhere/outbox")
    assert {gateway.name: gateway.tokens for gateway in collector.gateways} == dict.fromkeys(
        ("evolution", "baileys", "waha", "cloudapi"), (VALUE,)
    )
    assert collector.accounts == {("evolution", "shop"): "one"}
    with pytest.raises(Trouble, match="no signing secret"):
        signing_secrets(load_settings(None, {}))


def test_no_error_shows_a_secret() -> None:
    for variable in ("ZAPLAKE_GATEWAYS", "ZAPLAKE_ACCOUNTS", "ZAPLAKE_INGEST_PORT"):
        trouble = refused(
            {variable: f'[{{"name": 3, "tokens": "{VALUE}"}}]', "ZAPLAKE_SIGNING_SECRETS": VALUE}
        )
        assert VALUE not in str(trouble)


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:pa#ss@h/db", "postgresql://u:pa/ss@h/db", "postgresql://u:p@h:pa/db"]
)
def test_no_error_shows_a_piece_of_the_database_s_password(dsn: str) -> None:
    with pytest.raises(UsageTrouble) as caught:
        required_dsn(load_settings(None, {"DATABASE_URL": dsn}))
    assert "pa" not in caught.value.what.replace("password", "")
    with pytest.raises(Trouble) as unreached:
        asyncio.run(connect(dsn))
    assert "'pa'" not in str(unreached.value)


@pytest.mark.parametrize("dsn", ["garbage", "mysql://h/x", "postgresql+asyncpg://h/x"])
def test_what_is_no_url_of_a_postgres_is_refused_instead_of_tried_for_ever(dsn: str) -> None:
    with pytest.raises(UsageTrouble, match="no URL of a Postgres"):
        required_dsn(load_settings(None, {"DATABASE_URL": dsn}))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:p%40@h:5432/db?sslmode=require",
        "postgresql://h",
        "postgres://u@h1:1,h2:2/db",
        "postgresql://u@[::1]:5432/db",
        "postgresql:///db?host=/run/postgresql",
    ],
)
def test_a_usual_dsn_is_taken(dsn: str) -> None:
    assert required_dsn(load_settings(None, {"DATABASE_URL": dsn})) == dsn


@pytest.mark.parametrize(
    "environ",
    [
        {"ZAPLAKE_COLLECTOR_LIMITS_REQUEST_TIMEOUT_S": "12"},
        {"ZAPLAKE_INGEST_LIMITS_COMMIT_S_MAX": "14"},
        {"ZAPLAKE_COLLECTOR_HEARTBEAT_S": "90"},
        {"ZAPLAKE_INGEST_LIMITS_BATCH_LINES_MAX": "999"},
        {"ZAPLAKE_INGEST_LIMITS_BLOB_BYTES_MAX": "100000000"},
    ],
    ids=lambda environ: next(iter(environ)),
)
def test_a_backend_and_a_collector_that_do_not_fit_are_refused_together(environ: dict[str, str]) -> None:
    refuse_misfit(Settings())
    settings = load_settings(None, environ)
    with pytest.raises(UsageTrouble, match="limits"):
        refuse_misfit(settings)


def test_the_signing_secret_is_made_once_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    assert kept_secret(folder) is None
    made = ensure_secret(folder)
    assert len(made.reveal()) == 64
    assert ensure_secret(folder) == made == kept_secret(folder)
    path = folder / "signing-secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(folder.iterdir()) == [path]
    path.chmod(0o640)
    with pytest.raises(Trouble, match="read by others"):
        kept_secret(folder)
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(Trouble, match="is empty"):
        ensure_secret(folder)
    with pytest.raises(Trouble, match="cannot read"):
        ensure_secret(path / "below-a-file")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(Trouble, match="cannot write to the data folder"):
        ensure_secret(tmp_path / "dangling")


def test_the_version_is_the_package_s() -> None:
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_secret_compares_in_full_and_never_prints() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert {Secret("a"), Secret("a")} == {Secret("a")}
    with pytest.raises(TypeError):
        msgspec.json.encode(Secret("a"))
