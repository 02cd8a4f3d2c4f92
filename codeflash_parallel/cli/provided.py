"""Providers that the command line names: commands, and Python callables in a process of their own."""

from __future__ import annotations

import argparse
from typing import Any

from codeflash_parallel.model.settings import Settings


def provided(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Return the repairer and the refiner, where one is named."""
    return {}
