"""Settings as JSON, and back again: for stored runs and for jobs of the queue. Light."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import SETTINGS, Settings
from codeflash_parallel.config.settings_table import SettingGroup
from codeflash_parallel.result.errors import EnvironmentFault

#: Settings that change no verdict: whoever goes on with a run may have others.
FREE = tuple(name for name, columns in SETTINGS.items() if not columns.group.changes_verdict)


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON values that mean the same from any folder."""
    # Whoever reads them has a place of its own, does it, and hands it on to nobody.
    plain = {
        name: row.default if row.group == SettingGroup.PLACE else getattr(settings, name)
        for name, row in SETTINGS.items()
    }
    if settings.extra_tests:
        plain["extra_tests"] = str(Path(settings.extra_tests).resolve())
    if "/" in settings.python:
        plain["python"] = str(Path(settings.python).expanduser().absolute())
    place, colon, name = settings.ranking.rpartition(":")
    if place.endswith(".py"):
        plain["ranking"] = f"{Path(place).absolute()}{colon}{name}"
    return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}


def changed_settings(document: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return the names of settings that differ from those of a document and may lead to other verdicts."""
    mine = settings_document(settings)
    return [name for name in SETTINGS if name not in FREE and mine[name] != document.get(name)]


def settings_of(document: Mapping[str, Any], **changed: Any) -> Settings:
    """Return the settings that `settings_document` wrote, some of them changed.

    Raises:
        EnvironmentFault: `BAD_JOURNAL`: they are none of this version.
    """
    try:
        plain = {name: SETTINGS[name].kind.made(value) for name, value in document.items()}
        return Settings(**{**plain, **changed})
    except (KeyError, ValueError, TypeError) as error:
        message = f"The settings of the run are none of version {__version__}: {error}."
        raise EnvironmentFault("BAD_JOURNAL", message, "Resume it with the version that began it.") from error
