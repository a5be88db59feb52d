"""A run's output for other eyes than a terminal's: plain text, colors only, or HTML.

Everything here works on a stream of pieces: an escape sequence or a color may begin in one and end
in a later one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

# The sequences of ECMA-48: CSI …, then strings (OSC, DCS, …) up to their end, then short ones.
_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|(?=\x1b))"
    r"|\x1b[ -/]*[0-Z\\`-~]"
)
#: The beginning of a sequence at the end of a piece.
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*|[ -/]*)\Z")
#: A sequence longer than this is no sequence; it is dropped as text would be.
_LONGEST: Final = 4096
# what is left of C0 and C1 once tabs and line ends are kept
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LINE_END: Final = re.compile(r"\r+\n")
#: Parameters of a color; longer ones are somebody's joke.
_COLOR: Final = re.compile(r"[0-9;]{0,64}")


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """The same text, cut where no escape sequence and no line end is cut."""
    rest = ""
    for text in texts:
        whole = rest + text
        cut = len(whole)
        unfinished = _UNFINISHED.search(whole, max(0, cut - _LONGEST))
        if unfinished is not None:
            cut = unfinished.start()
        elif whole.endswith("\r"):
            cut = len(whole.rstrip("\r"))
        rest = whole[cut:]
        yield whole[:cut]
    yield rest


def _clean(text: str) -> str:
    return _CONTROL.sub("", _LINE_END.sub("\n", text).replace("\r", "\n"))


def plain(texts: Iterable[str]) -> Iterator[str]:
    """Without colors and other sequences."""
    for piece in _pieces(texts):
        yield _clean(_SEQUENCE.sub("", piece))


def colored(texts: Iterable[str]) -> Iterator[str]:
    """With colors; other sequences, which could move the cursor or name a window, are left out."""
    for piece in _pieces(texts):
        yield "".join(part if is_color else _clean(part) for part, is_color, _ in _split(piece))


def as_html(texts: Iterable[str]) -> Iterator[str]:
    """Escaped, with colors as ``<span class="ansi…">``; :data:`STYLE` gives the classes."""
    state = _State()
    for piece in _pieces(texts):
        made = []
        for part, is_color, parameters in _split(piece):
            if is_color:
                state.apply(parameters)
            elif text := html.escape(_clean(part)):
                classes = state.classes()
                made.append(f'<span class="{classes}">{text}</span>' if classes else text)
        yield "".join(made)


def _split(piece: str) -> Iterator[tuple[str, bool, str]]:
    """(text, is it a color, its parameters), other sequences left out."""
    end = 0
    for found in _SEQUENCE.finditer(piece):
        yield piece[end : found.start()], False, ""
        if found["final"] == "m" and _COLOR.fullmatch(found["parameters"]):
            yield found[0], True, found["parameters"]
        end = found.end()
    yield piece[end:], False, ""


_ATTRIBUTES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_ENDS: Final = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}


class _State:
    """What the colors so far have switched on."""

    def __init__(self) -> None:
        self._attributes: set[str] = set()
        self._foreground: int | None = None
        self._background: int | None = None

    def _reset(self) -> None:
        self._attributes.clear()
        self._foreground = self._background = None

    def apply(self, parameters: str) -> None:
        """Apply the numbers of one ``CSI … m``."""
        codes = [int(code or 0) for code in parameters.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self._reset()
            elif code in _ATTRIBUTES:
                self._attributes.add(_ATTRIBUTES[code])
            elif code in _ENDS:
                self._attributes.difference_update(_ENDS[code])
            elif code in (38, 48):
                color = _indexed(codes)
                if code == 38:
                    self._foreground = color
                else:
                    self._background = color
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._foreground = code % 10 + (8 if code >= 90 else 0)
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self._background = code % 10 + (8 if code >= 100 else 0)
            elif code == 39:
                self._foreground = None
            elif code == 49:
                self._background = None

    def classes(self) -> str:
        """The classes of a span; empty when nothing is switched on."""
        names = sorted(f"ansi-{name}" for name in self._attributes)
        if self._foreground is not None:
            names.append(f"ansi-fg{self._foreground}")
        if self._background is not None:
            names.append(f"ansi-bg{self._background}")
        return " ".join(names)


def _indexed(codes: list[int]) -> int | None:
    """The color after 38 or 48, as one of sixteen; what has no class shows the default."""
    if codes[:1] == [5] and len(codes) >= 2:
        index = codes[1]
        del codes[:2]
        return index if index < 16 else None
    if codes[:1] == [2]:
        del codes[:4]
    return None


# fmt: off
_COLORS: Final = (
    "#2e3436", "#cc0000", "#4e9a06", "#c4a000", "#3465a4", "#75507b", "#06989a", "#d3d7cf",
    "#888a85", "#ef2929", "#8ae234", "#fce94f", "#729fcf", "#ad7fa8", "#34e2e2", "#eeeeec",
)
# fmt: on
STYLE: Final = "\n".join(
    (
        "body{background:#1d1f21;color:#d3d7cf;margin:1em}",
        "pre{font:13px/1.4 monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}",
        ".ansi-bold{font-weight:bold}.ansi-dim{opacity:.7}.ansi-italic{font-style:italic}",
        ".ansi-underline{text-decoration:underline}.ansi-strike{text-decoration:line-through}",
        ".ansi-inverse{filter:invert(1)}",
        *(f".ansi-fg{n}{{color:{color}}}" for n, color in enumerate(_COLORS)),
        *(f".ansi-bg{n}{{background:{color}}}" for n, color in enumerate(_COLORS)),
    )
)
