"""Colours are printed where the command line wants them, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text

from codeflash_parallel.cli.main import main
from codeflash_parallel.report.color import COLOR, ColorMode
from codeflash_parallel.report.console import make_console
from codeflash_parallel.report.progress_board import PlainLines, open_board


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    before = COLOR.set(ColorMode.AUTO)
    yield
    COLOR.reset(before)


@pytest.mark.parametrize(
    ("mode", "stream", "has_colour"),
    [
        (ColorMode.AUTO, Terminal, True),
        (ColorMode.AUTO, io.StringIO, False),
        (ColorMode.ALWAYS, io.StringIO, True),
        (ColorMode.NEVER, Terminal, False),
    ],
)
def test_colours_are_where_they_are_wanted(mode: ColorMode, stream: type[io.StringIO], has_colour: bool):
    COLOR.set(mode)
    out = stream()
    make_console(out).print(Text("won", style="bold green"))
    assert ("\x1b[" in out.getvalue()) is has_colour
    assert "won" in out.getvalue()


def test_colours_in_a_file_do_not_bring_the_live_board_with_them():
    COLOR.set(ColorMode.ALWAYS)
    with open_board(io.StringIO()) as board:
        assert isinstance(board, PlainLines)


def test_the_choice_of_one_command_is_not_that_of_the_next(tmp_path: Path):
    place = ["--project", str(tmp_path), "--cache-dir", str(tmp_path / "cache")]
    main(["list", "--color", "never", *place])
    assert COLOR.get() is ColorMode.NEVER
    main(["list", *place])
    assert COLOR.get() is ColorMode.AUTO


def test_another_word_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "--color", "sometimes"]) == 2
    assert "invalid choice: 'sometimes'" in capsys.readouterr().err
