"""What `doctor` says of the evaluation queue."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from codeflash_parallel.config.pyproject import QUEUE_TABLE
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.sources import key_of
from codeflash_parallel.queue.settings_reader import QueueSettingsWithSources, read_queue_settings
from codeflash_parallel.result.errors import CodeflashParallelError


def state_of_queue(settings: Settings) -> tuple[str, str]:
    """Return where the queue is and who serves it, and what is to be done; nothing is made there."""
    from codeflash_parallel.config.cache_paths import queue_folder
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient

    try:
        folder = queue_folder(settings)
        with EvalQueueClient(folder) as client:
            daemon = client.daemon
    except CodeflashParallelError as error:
        return "", str(error)
    if daemon is None:
        return f"{folder}, no daemon is running", ""
    return f"{folder}, served by process {daemon.pid}, {daemon.slots_busy} of {daemon.slots} slots busy", ""


def queue_configured(project: Path) -> QueueSettingsWithSources:
    """Return the settings of the queue and where they come from."""
    return read_queue_settings(project, os.environ, {})


def queue_rows(configured: QueueSettingsWithSources) -> list[tuple[str, str, str]]:
    """Return name, value and source of every setting of the queue, for people."""
    return [
        (f"{QUEUE_TABLE}.{key_of(field.name)}", _shown(value), configured.sources[field.name])
        for field in fields(configured.settings)
        for value in [getattr(configured.settings, field.name)]
    ]


def queue_data(configured: QueueSettingsWithSources) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        field.name: {"value": _plain(value), "source": configured.sources[field.name]}
        for field in fields(configured.settings)
        for value in [getattr(configured.settings, field.name)]
    }


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return str(value)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
