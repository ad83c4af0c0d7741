"""The common parts of all figures: making an empty figure with fonts for its letters, and writing it to a file."""

from __future__ import annotations

import html
import math
import os
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.data.output import open_output
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAMILIES = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "Hiragino Sans"),
    *("PingFang SC", "Microsoft YaHei", "WenQuanYi Zen Hei", "Noto Sans Arabic", "Noto Naskh Arabic"),
    *("Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS"),
)
_PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">%s<title>%s</title>
<style>body { margin: 1rem; background: #fff } svg { max-width: 100%%; height: auto }
@media (prefers-color-scheme: dark) { body { background: #000 } svg { filter: invert(1) hue-rotate(180deg) } }</style>
</head>
<body>
%s</body></html>
"""


@contextmanager
def canvas(texts: Iterator[str] | Sequence[str] | Mapping[str, object]) -> Iterator[Figure]:
    """Yield an empty figure with installed fonts for the letters of `texts`, ignoring the user's matplotlib settings.

    Raises:
        InputError: matplotlib is missing.
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*([Gg]lyph|natively).*")  # said once, with what to do, by _families
        matplotlib.rcdefaults()
        letters = {letter for text in texts for letter in replace_unprintable(text)}
        matplotlib.rcParams.update(
            {
                "font.family": [*_families(letters), "sans-serif"],
                "font.size": 10,
                "axes.unicode_minus": False,
                "svg.fonttype": "none",  # words stay words: searchable, and shaped by whoever shows them
                "svg.hashsalt": "nmt",  # the same figure is the same file
            }
        )
        yield Figure()


def _families(letters: set[str]) -> list[str]:
    """Return the names of installed fonts that have these letters, and warn about letters that no font has."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    missing = {letter for letter in letters if not letter.isspace() and unicodedata.category(letter) != "Cf"}
    if any(ord(letter) > 0x24F for letter in missing):  # matplotlib's list of fonts can be older than the fonts
        listed = {entry.fname for entry in manager.ttflist}
        for file in font_manager.findSystemFonts():
            if file not in listed and any(name in Path(file).name for name in ("Noto", "SourceHan", "wqy")):
                with _skipping_bad_fonts():
                    manager.addfont(file)
    installed = set(manager.get_font_names())
    chosen = ["DejaVu Sans"]  # comes with matplotlib
    others = sorted(name for name in installed if name.startswith("Noto S") and name not in _FAMILIES)
    for family in (*_FAMILIES, *others):  # Noto has a family for each script
        if family in installed and missing:
            face = font_manager.get_font(manager.findfont(family, fallback_to_default=False))
            drawable = {letter for letter in missing if ord(letter) in face.get_charmap()}
            if drawable and family not in chosen:
                chosen.append(family)
            missing -= drawable
    if missing:
        sample = "".join(sorted(missing)[:5])
        fonts = " or ".join(sorted({_font_for(letter) for letter in missing}))
        warn(
            f"no installed font has {len(missing)} of the characters, such as {sample}: they are drawn as boxes; "
            f"install {fonts}"
        )
    return chosen


def _font_for(letter: str) -> str:
    """Return the name of a free font to install for a letter, chosen by the first word of its Unicode name."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    if script in {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH"}:
        return "Noto Sans CJK (Debian: fonts-noto-cjk)"
    return "Noto Sans (Debian: fonts-noto-core)"


@contextmanager
def _skipping_bad_fonts() -> Iterator[None]:
    """Ignore an error in the block that means that matplotlib cannot read a font file; there are other fonts."""
    try:
        yield
    except (OSError, RuntimeError, ValueError):
        return


def replace_unprintable(text: str) -> str:
    """Return the text with U+FFFD for characters that no font or XML file can hold: controls, lone surrogates,
    noncharacters."""
    return "".join(
        "\ufffd" if unicodedata.category(c) in {"Cc", "Cs"} or ord(c) & 0xFFFE == 0xFFFE else c for c in text
    )


def save(figure: Figure, path: Path, *, reload_seconds: int = 0) -> None:
    """Write the figure as .png, .svg or .html, by the ending of the path.

    A very large figure gets fewer dots per inch, to fit into memory. A page reloads itself after `reload_seconds`, if
    these are not 0.
    """
    width, height = figure.get_size_inches()
    dots = min(160.0, 14_000 / max(width, height), math.sqrt(60_000_000 / (width * height)))
    is_png = path.suffix.lower() == ".png"
    picture = BytesIO()
    figure.savefig(
        picture,
        format="png" if is_png else "svg",
        dpi=dots,
        bbox_inches="tight",
        pad_inches=0.15,
        # Without these, an SVG holds no time and no address of a foreign site.
        metadata=None if is_png else dict.fromkeys(("Creator", "Date", "Format", "Type")),
    )
    content = picture.getvalue()
    if path.suffix.lower() == ".html":
        again = b'<meta http-equiv="refresh" content="%d">' % reload_seconds if reload_seconds else b""
        title = html.escape(path.stem).encode("utf-8", "replace")
        content = _PAGE % (again, title, content[content.index(b"<svg") :])
    with open_output(path) as file:
        file.write(content)


def check_picture(path: Path, *, draws_pages: bool = True) -> str:
    """Return the ending of a picture's name: .png, .svg or .html. Call this before the work that the picture shows.

    `draws_pages` says whether matplotlib draws the .html page too.

    Raises:
        InputError: the ending is another one; or matplotlib is missing, and the picture needs it.
    """
    ending = path.suffix.lower()
    if ending not in (".png", ".svg", ".html"):
        found = f"not {ending!r}" if ending else "and there is none"
        raise InputError(f"{path}: the ending says what to write: it must be .png, .svg or .html, {found}")
    if draws_pages or ending != ".html":
        _matplotlib()
    return ending


def _matplotlib() -> Any:
    os.environ["MPLBACKEND"] = "agg"  # nothing is shown; what stands there may be no backend
    try:
        import matplotlib
    except ImportError as problem:
        raise InputError("drawing needs matplotlib: pip install 'nmt-cli[plots]'") from problem
    return matplotlib
