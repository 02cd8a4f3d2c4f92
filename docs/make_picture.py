"""Make the README's picture from a real run of the demonstration: `python docs/make_picture.py`."""
# ruff: noqa: INP001, T201 - a script that prints

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from codeflash_parallel.report.console import Detail, print_report
from codeflash_parallel.run.run_folder import stored_result

ROOT = Path(__file__).resolve().parents[1]

#: Wide enough for two line profiles side by side.
_COLUMNS = 120


def main() -> int:
    """Run the demonstration and write `docs/demo.svg`."""
    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-picture-") as cache:
        command = [
            *(sys.executable, str(ROOT / "fixtures" / "demonstration" / "run.py")),
            *("--cache-dir", cache, "--output-format", "json"),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        result = stored_result(json.loads(done.stdout))
    whole = _recording_console()
    print_report(result, whole, Detail.NORMAL)
    picture = _recording_console()
    picture.print(_first_screen(Text.from_ansi(whole.export_text(styles=True))))
    title = "codeflash-parallel run --candidates candidates/ --parallel-candidates 4"
    (ROOT / "docs" / "demo.svg").write_text(
        picture.export_svg(title=title, code_format=_format()), encoding="utf-8"
    )
    print(f"docs/demo.svg: {result.summary}")
    return done.returncode


def _recording_console() -> Console:
    options = {"markup": False, "emoji": False, "highlight": False}
    return Console(file=io.StringIO(), width=_COLUMNS, record=True, **options)


def _first_screen(report: Text) -> Text:
    """Return a report up to its reasons: verdict, table, bars, why candidates lost."""
    lines = report.split("\n")
    end = next(i for i, line in enumerate(lines) if line.plain.startswith(("review", "timed:")))
    return Text("\n").join(lines[:end])


def _format() -> str:
    """Return rich's template without the fonts that it would load from elsewhere."""
    # the comment names a host, too
    return re.sub(r"@font-face \{\{.*?\}\}\s*|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
