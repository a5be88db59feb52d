"""The log on a terminal and elsewhere: colours where they do good, no other control sequence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.cli.output import printable

RED = "\x1b[0;31mfatal\x1b[0m"


@pytest.mark.parametrize(
    ("text", "with_colors", "without"),
    [
        (RED, RED, "fatal"),
        ("a\r\nb\tc\n", "a\nb\tc\n", "a\nb\tc\n"),
        ("\x1b[2J\x1b[1;1Hx", "x", "x"),
        ("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy", "xy"),
        ("\x1bPq#0\x1b\\x", "x", "x"),
        ("\x1bcx\x1b(Bx", "xx", "xx"),
        ("a\x07b\x08c\x9b31m", "abc31m", "abc31m"),
        ("progress 1\rprogress 2", "progress 1progress 2", "progress 1progress 2"),
        ("ä 日本 <script>", "ä 日本 <script>", "ä 日本 <script>"),
        ("cut \x1b[3", "cut 3", "cut 3"),
    ],
)
def test_only_colors_tabs_and_lines_are_left(text: str, with_colors: str, without: str) -> None:
    assert printable(text, colors=True) == with_colors
    assert printable(text, colors=False) == without


@given(st.text(st.characters(codec="utf-8", include_characters="\x1b[m]\\0123456789;\x07\r\n")))
def test_no_escape_is_left_without_colors(text: str) -> None:
    assert "\x1b" not in printable(text, colors=False)
