"""Output rendered for other eyes than a terminal's."""

from __future__ import annotations

import html
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.api.terminal import as_html, colored, plain


def test_plain_text_has_neither_colors_nor_other_sequences() -> None:
    text = "\x1b[0;32mok: [a]\x1b[0m\r\n\x1b]0;a title\x07\x1b[2J\x1b[1;1Hnext\x08\n"
    assert "".join(plain([text])) == "ok: [a]\nnext\n"


def test_colored_text_keeps_colors_and_nothing_else() -> None:
    text = "\x1b[31mred\x1b[0m\x1b[2J\x1b]52;c;aGk=\x1b\\\x1bPq\x1b\\\x9b31m\x00.\r\n"
    assert "".join(colored([text])) == "\x1b[31mred\x1b[0m31m.\n"


def test_html_escapes_everything_and_shows_colors_as_classes() -> None:
    made = "".join(as_html(["\x1b[1;31m<script>alert('x')</script>\x1b[0m & \x1b[92mb\x1b[39mc"]))
    assert made == (
        '<span class="ansi-bold ansi-fg1">&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;</span>'
        ' &amp; <span class="ansi-fg10">b</span>c'
    )


def test_a_color_goes_on_over_events() -> None:
    assert list(as_html(["\x1b[36ma\n", "b\n", "\x1b[mc"])) == [
        '<span class="ansi-fg6">a\n</span>',
        '<span class="ansi-fg6">b\n</span>',
        "c",
        "",
    ]


@pytest.mark.parametrize(
    ("codes", "classes"),
    [
        ("38;5;9", "ansi-fg9"),
        ("48;5;3", "ansi-bg3"),
        ("38;5;200", ""),
        ("38;2;1;2;3", ""),
        ("38;2;1;2;3;4", "ansi-underline"),
        ("1;22", ""),
        ("7", "ansi-inverse"),
        ("41;97", "ansi-fg15 ansi-bg1"),
        ("41;49", ""),
        ("999", ""),
        ("38", ""),
        (";;4", "ansi-underline"),
    ],
)
def test_each_color_has_its_class(codes: str, classes: str) -> None:
    made = "".join(as_html([f"\x1b[{codes}mx"]))
    assert made == (f'<span class="{classes}">x</span>' if classes else "x")


def test_a_color_of_absurd_length_is_dropped() -> None:
    assert "".join(as_html(["\x1b[" + "1;" * 100_000 + "1mx"])) == "x"
    assert "".join(plain(["\x1b[" + "9" * 100_000 + "mx"])) == "x"


_ALPHABET = st.sampled_from(
    ["a", "<", "&", '"', "\n", "\r", "\t", "\x1b", "[", "]", "0", "1", ";", "m", "J", "\x07", "\\"]
)


@given(st.lists(_ALPHABET, max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_where_the_text_is_cut_into_pieces_changes_nothing(
    letters: list[str], cuts: list[int]
) -> None:
    text = "".join(letters)
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert "".join(plain(pieces)) == "".join(plain([text]))
    assert "".join(colored(pieces)) == "".join(colored([text]))
    bare = [re.sub("<[^>]*>", "", "".join(as_html(each))) for each in (pieces, [text])]
    assert bare[0] == bare[1]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_html_holds_no_tag_but_ours_and_loses_no_text(text: str) -> None:
    made = "".join(as_html([text]))
    assert set(re.findall("<[^>]*>", made)) <= {"</span>"} | set(
        re.findall('<span class="[a-z0-9 -]*">', made)
    )
    assert html.unescape(re.sub("<[^>]*>", "", made)) == "".join(plain([text]))


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(plain([text])))
