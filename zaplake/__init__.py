"""The composition root: settings, wiring, commands. Nobody imports it."""

from typing import Final

__version__: Final = "0.1.0"
