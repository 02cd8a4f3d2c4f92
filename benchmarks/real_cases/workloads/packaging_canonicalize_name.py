"""Names of requirements: most are short, some have capitals, dots and runs of separators."""

from __future__ import annotations

from packaging.utils import canonicalize_name

STEMS = (
    "requests",
    "Django",
    "zope.interface",
    "typing_extensions",
    "ruamel.yaml.clib",
    "My__Odd.-Name",
    "six",
)
NAMES = [
    f"{stem}{separator}{number}" for number in range(60) for stem in STEMS for separator in ("", "-", "_")
]


def main() -> list[str]:
    return [canonicalize_name(name) for name in NAMES]
