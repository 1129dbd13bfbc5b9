"""The import contracts of pyproject.toml hold: rooms keep apart, contracts stay pure."""

from importlinter.api import read_configuration
from importlinter.cli import lint_imports


def test_import_contracts_hold() -> None:
    assert read_configuration()["contracts_options"], "no contracts are configured"
    assert lint_imports(no_cache=True) == 0
