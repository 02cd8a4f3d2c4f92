"""What `doctor` says of the evaluation queue."""

from __future__ import annotations

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import CodeflashParallelError


def state_of_queue(settings: Settings) -> tuple[str, str]:
    """Return where the queue is and who serves it, and what is to be done; nothing is made there."""
    from codeflash_parallel.config.cache_paths import queue_folder
    from codeflash_parallel.queue.sync_client import EvalQueueClient

    try:
        folder = queue_folder(settings)
        with EvalQueueClient(folder) as client:
            daemon = client.daemon
    except CodeflashParallelError as error:
        return "", str(error)
    if daemon is None:
        return f"{folder}, no daemon is running", ""
    return f"{folder}, served by process {daemon.pid}, {daemon.slots_busy} of {daemon.slots} slots busy", ""
