"""Figures: attention, learning curves, score by sentence length. The one door to matplotlib, loaded when drawing.

Everything comes in as plain values; no model, no corpus and no file but the one that is written is known here. The
figures do not depend on the user's matplotlib settings, and words are drawn as they are, dollar signs included.
"""

from __future__ import annotations

import html
import math
import os
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.attention_page import AttentionPicture, Candidate, SearchStep, render_page
from nmt_cli.console import warn
from nmt_cli.data.output import open_output
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AttentionPicture",
    "Candidate",
    "LengthBucket",
    "SearchStep",
    "check_picture",
    "draw_attention",
    "draw_curves",
    "draw_lengths",
]

_FAMILIES = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Noto Sans Arabic",
    "Noto Naskh Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Arial Unicode MS",
)
_CELL = 0.3  # inches a word takes in a heat map, so that its letters (10 points) stay apart
_LETTER = 0.085  # inches, of an ordinary letter at 10 points
_GAP = 0.35
_WIDEST = 200.0  # inches; about 600 words, which nobody reads on one figure
_PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title></head>
<body>
%s</body></html>
"""
_COLOURS = ("#1f5fa8", "#c2571a", "#2c7a4b", "#8a3d8f", "#b08900", "#4a4a4a", "#c23b5a", "#1b8a94")


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """The score of the sentences whose source has from `low` to `high` words, with its confidence interval if known."""

    low: int
    high: int
    count: int
    score: float
    interval_low: float | None = None
    interval_high: float | None = None


def draw_attention(pictures: Sequence[AttentionPicture], path: Path) -> None:
    """Write heat maps as in Bahdanau et al. (2015), Figure 3, white for 1 and black for 0; or the page, for `.html`.

    Words stand in the order of the text, source from left to right, whatever the script.
    """
    ending = check_picture(path, draws_pages=False)
    if not pictures:
        raise InputError(f"{path}: no sentence to draw; give at least one")
    if ending == ".html":
        with open_output(path) as file:
            file.write(render_page(pictures).encode("utf-8"))
        return
    texts = [text for picture in pictures for text in (picture.title, *picture.source, *picture.target)]
    with _canvas(texts) as figure:
        _place_panels(figure, [_Panel(picture) for picture in pictures], path)
        _save(figure, path)


def draw_curves(runs: Mapping[str, Sequence[Mapping[str, object]]], path: Path) -> None:
    """Write the learning curves of some runs: losses on one panel, BLEU and chrF (where there are any) on the other."""
    check_picture(path)
    if not any(_series(records, "loss", "train", "validation")[0] for records in runs.values()):
        raise InputError(f"{path}: nothing to draw: no train or validation record has a step and a loss")
    has_scores = any(
        _series(records, metric, "validation")[0] for records in runs.values() for metric in ("bleu", "chrf")
    )
    with _canvas(runs) as figure:
        figure.set_size_inches(11.0 if has_scores else 6.5, 4.2)
        figure.set_layout_engine("constrained")
        axes = figure.subplots(1, 2 if has_scores else 1, squeeze=False)[0]
        for (name, records), colour in zip(runs.items(), _colours(len(runs)), strict=True):
            prefix = f"{name}: " if len(runs) > 1 else ""
            _line(axes[0], _series(records, "loss", "train"), f"{prefix}train", colour, alpha=0.45, linewidth=1)
            _line(axes[0], _series(records, "loss", "validation"), f"{prefix}validation", colour, marker="o")
            if has_scores:
                _line(axes[1], _series(records, "bleu", "validation"), f"{prefix}BLEU", colour, marker="o")
                _line(
                    axes[1], _series(records, "chrf", "validation"), f"{prefix}chrF", colour, marker="s", linestyle="--"
                )
        for panel, label in zip(axes, ("loss", "score on the validation set"), strict=False):
            _dress(panel, "update", label)
        _save(figure, path)


def draw_lengths(curves: Mapping[str, Sequence[LengthBucket]], path: Path, *, metric: str = "BLEU") -> None:
    """Write the score of each system by source length, with confidence bands. Empty buckets are left out."""
    check_picture(path)
    filled = {name: [bucket for bucket in buckets if bucket.count] for name, buckets in curves.items()}
    ranges = sorted({(bucket.low, bucket.high) for buckets in filled.values() for bucket in buckets})
    if not ranges:
        raise InputError(f"{path}: nothing to draw: no length bucket holds a sentence")
    with _canvas([*curves, metric]) as figure:
        figure.set_size_inches(max(6.5, 1.0 + 0.85 * len(ranges)), 4.2)
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for (name, buckets), colour in zip(filled.items(), _colours(len(filled)), strict=True):
            buckets.sort(key=lambda bucket: bucket.low)
            places = [ranges.index((bucket.low, bucket.high)) for bucket in buckets]
            low = [bucket.score if bucket.interval_low is None else bucket.interval_low for bucket in buckets]
            high = [bucket.score if bucket.interval_high is None else bucket.interval_high for bucket in buckets]
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
            _line(axes, (places, [bucket.score for bucket in buckets]), name, colour, marker="o")
        counts = {(bucket.low, bucket.high): bucket.count for buckets in filled.values() for bucket in buckets}
        labels = [f"{low}–{high}\nn={counts[low, high]}" for low, high in ranges]
        axes.set_xticks(range(len(ranges)), labels)
        _dress(axes, "source words; n is the number of sentences", metric)
        _save(figure, path)


# One panel of a figure of attention


class _Panel:
    """A heat map with the room that its words take, in inches."""

    def __init__(self, picture: AttentionPicture) -> None:
        self.picture = picture
        self.source = [_printable(word) for word in picture.source]
        self.target = [_printable(word) for word in picture.target]
        self.title = _printable(picture.title)
        self.left = _room(self.target)
        self.top = _room(self.source) + (0.4 if self.title else 0.0)
        self.wide = _CELL * max(len(self.source), 1)
        self.high = _CELL * max(len(self.target), 1)

    def draw(self, axes: Axes) -> None:
        if self.source and self.target:
            weights = [[weight if math.isfinite(weight) else 0.0 for weight in row] for row in self.picture.weights]
            axes.imshow(weights, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
        else:
            axes.set_facecolor("black")
            axes.set_xlim(-0.5, max(len(self.source), 1) - 0.5)
            axes.set_ylim(max(len(self.target), 1) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4)
        axes.set_xticks(range(len(self.source)), self.source, rotation=90, parse_math=False)
        axes.set_yticks(range(len(self.target)), self.target, parse_math=False)
        if self.title:
            axes.set_title(self.title, loc="left", fontsize=11, pad=8, parse_math=False)


def _place_panels(figure: Figure, panels: Sequence[_Panel], path: Path) -> None:
    """Draw the panels on a grid as square as it goes, each cell of every heat map of the same size."""
    columns = math.ceil(math.sqrt(len(panels)))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    ranks = [panels[start::columns] for start in range(columns)]
    widths = [max(panel.left for panel in rank) + max(panel.wide for panel in rank) + _GAP for rank in ranks]
    heights = [max(panel.top for panel in row) + max(panel.high for panel in row) + _GAP for row in rows]
    width, height = sum(widths), sum(heights)
    if max(width, height) > _WIDEST:
        raise InputError(
            f"{path}: {len(panels)} sentences of these lengths need a figure of {width:.0f} by {height:.0f} inches; "
            "draw fewer, or write an .html page"
        )
    figure.set_size_inches(width, height)
    starts = list(accumulate(widths, initial=0.0)), list(accumulate(heights, initial=0.0))
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        left = starts[0][column] + max(other.left for other in ranks[column])
        top = starts[1][row] + max(other.top for other in rows[row])
        box = (left / width, 1 - (top + panel.high) / height, panel.wide / width, panel.high / height)
        panel.draw(figure.add_axes(box))


def _room(words: Sequence[str]) -> float:
    """Inches for the longest word; East Asian letters are twice as wide."""
    wide = {"W", "F"}
    lengths = [sum(2 if unicodedata.east_asian_width(letter) in wide else 1 for letter in word) for word in words]
    return _LETTER * max(lengths, default=0) + 0.15


# Curves


def _series(records: Sequence[Mapping[str, object]], field: str, *events: str) -> tuple[list[float], list[float]]:
    """Steps and values of the records of those events that have both as finite numbers."""
    points = [
        (_number(record.get("step")), _number(record.get(field))) for record in records if record.get("event") in events
    ]
    known = [(step, value) for step, value in points if step is not None and value is not None]
    return [step for step, _ in known], [value for _, value in known]


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON knows no largest integer
        return None
    return number if math.isfinite(number) else None


def _line(axes: Axes, points: tuple[Sequence[float], Sequence[float]], name: str, colour: str, **how: Any) -> None:
    if points[0]:
        axes.plot(*points, label="line", gid=name, color=colour, markersize=4, **how)


def _dress(axes: Axes, x_label: str, y_label: str) -> None:
    """Labels, a light grid and a legend that shows names as they are (matplotlib hides those with an underscore)."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(_printable(y_label), parse_math=False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    lines = axes.get_lines()
    if lines:
        legend = axes.legend(frameon=False)
        for text, line in zip(legend.get_texts(), lines, strict=True):
            text.set_parse_math(False)
            text.set_text(_printable(line.get_gid() or ""))
            line.set_gid(None)


def _colours(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]


# Canvas, fonts and files


@contextmanager
def _canvas(texts: Iterator[str] | Sequence[str] | Mapping[str, object]) -> Iterator[Figure]:
    """An empty figure, free of the user's settings, in installed fonts that have the letters of the texts."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*([Gg]lyph|natively).*")  # said once, with what to do, by _families
        matplotlib.rcdefaults()
        letters = {letter for text in texts for letter in _printable(text)}
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
    """The installed families that are needed to draw the letters; a warning names what to install for the rest."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    missing = {letter for letter in letters if not letter.isspace() and unicodedata.category(letter) != "Cf"}
    if any(ord(letter) > 0x24F for letter in missing):  # matplotlib's list of fonts can be older than the fonts
        listed = {entry.fname for entry in manager.ttflist}
        for file in font_manager.findSystemFonts():
            if file not in listed and any(name in Path(file).name for name in ("Noto", "SourceHan", "wqy")):
                with _tolerated():
                    manager.addfont(file)
    installed = set(manager.get_font_names())
    chosen = ["DejaVu Sans"]  # comes with matplotlib
    for family in _FAMILIES:
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
    """A free font that has the letter, by the first word of the letter's name."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    if script in {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH"}:
        return "Noto Sans CJK (Debian: fonts-noto-cjk)"
    return "Noto Sans (Debian: fonts-noto-core)"


@contextmanager
def _tolerated() -> Iterator[None]:
    """Pass over a font file that matplotlib cannot read: there are others."""
    try:
        yield
    except (OSError, RuntimeError, ValueError):
        return


def _printable(text: str) -> str:
    """The text with what no font and no XML file can hold replaced: controls, lone surrogates, noncharacters."""
    return "".join(
        "\ufffd" if unicodedata.category(c) in {"Cc", "Cs"} or ord(c) & 0xFFFE == 0xFFFE else c for c in text
    )


def _save(figure: Figure, path: Path) -> None:
    """Write the figure; one that is very large gets fewer dots an inch, to fit into memory."""
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
        metadata=None if is_png else {"Date": None},
    )
    content = picture.getvalue()
    if path.suffix.lower() == ".html":
        content = _PAGE % (html.escape(path.stem).encode("utf-8", "replace"), content[content.index(b"<svg") :])
    with open_output(path) as file:
        file.write(content)


def check_picture(path: Path, *, draws_pages: bool = True) -> str:
    """The ending of a picture's name, .png, .svg or .html; to be called before the work that it shows.

    Raises:
        InputError: it is another; matplotlib is not there, which all need but a page that it does not draw.
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
