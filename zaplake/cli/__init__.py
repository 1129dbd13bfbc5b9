"""The ``zaplake`` command. Exit codes: 0 done, 1 failed, 2 wrong usage; an error says what to do next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnusedCliTokensError

from zaplake import __version__
from zaplake.trouble import Trouble

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

COMMANDS: Final = (
    ("up", "zaplake.cli.running:up", "Run everything on this machine: Postgres, backend, collector."),
    ("serve", "zaplake.cli.running:serve", "Run the backend that commits events to Postgres."),
    ("work", "zaplake.cli.working:work", "Run the rules on what is in the lake."),
    ("collect", "zaplake.cli.running:collect", "Run the collector beside a gateway."),
    ("db", "zaplake.cli.running:db", "Look after the lake's schema."),
    ("collector", "zaplake.cli.collector:app", "Look after the collector of a data folder."),
    ("alerts", "zaplake.cli.alerts:app", "Look after where alerts are sent."),
    ("gateway", "zaplake.cli.gateway:app", "Connect a gateway's webhook to the collector."),
    ("inbox", "zaplake.cli.inbox:app", "Look after the rules: lag, failures, replay."),
    ("lake", "zaplake.cli.lake:app", "Ask the lake."),
    ("doctor", "zaplake.cli.doctor:doctor", "Try each thing and say what to run next."),
)
"""Imported when they are called, so that a small question is not kept waiting by the web framework."""


def make_app(chosen: str | None = None) -> App:
    """The command tree; of the ``chosen`` command with all its help, of the others one line."""
    app = App(
        name="zaplake",
        version=__version__,
        help="A fault-tolerant WhatsApp data lake: nothing lost, nothing doubled, nothing hidden.\n\n"
        'Start with `zaplake up --demo`, then `zaplake lake sql "select * from lake.scopes"`.',
        default_parameter=Parameter(negative=()),
        help_format="markdown",
    )
    for place, (name, where, line) in enumerate(COMMANDS):
        own_help = {} if name == chosen else {"help": line}  # the command's docstring says much more
        app.command(where, name=name, sort_key=place, **own_help)
    app.command(version)
    return app


def version() -> int:
    """Print the version.

    **Examples**

    ```sh
    zaplake version
    ```
    """
    print(f"zaplake {__version__}")
    return OK


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; never raises."""
    try:
        result = make_app(arguments[0] if arguments else None)(
            arguments, exit_on_error=False, print_error=False, result_action="return_value"
        )
    except CycloptsError as error:
        return _tell(USAGE, " ".join(str(error).split()), _usage_step(error))
    except Trouble as trouble:
        return _tell(trouble.exit_code, trouble.what, trouble.next_step)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `zaplake … | head`; nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("ZAPLAKE_LOG_LEVEL", "").lower() == "debug":
            raise
        return _tell(
            FAILED,
            f"unexpected {type(error).__name__}: {error}",
            "run it again with ZAPLAKE_LOG_LEVEL=debug for the traceback, and report it",
        )
    return result if isinstance(result, int) else OK


def _usage_step(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return 'quote what belongs together, as in: zaplake lake sql "select 1"'
    return "`zaplake --help` shows the commands, `COMMAND --help` its options"


def _tell(code: int, what: str, next_step: str) -> int:
    print(f"zaplake: {what}\n  → {next_step}", file=sys.stderr)
    return code
