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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.attention_page import END, AttentionPicture, Candidate, SearchStep, render_page
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
_SCALE = 0.95  # inches beside the heat maps for the scale, of which the bar takes the first few
_READABLE = 20.0  # inches; more sentences than fit on such a square are left out
_WIDEST = 200.0  # inches; about 600 words, which nobody reads on one figure
_PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title></head>
<body>
%s</body></html>
"""
_COLOUR_MAP = "gray"
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


def draw_attention(pictures: Iterable[AttentionPicture], path: Path) -> int:
    """Write heat maps as in Bahdanau et al. (2015), Figure 3, white for 1 and black for 0; or the page, for `.html`.

    Words stand in the order of the text, source from left to right, whatever the script. A figure takes as many of the
    pictures as can be read on it. Return the number of those that are drawn.
    """
    ending = check_picture(path, draws_pages=False)
    drawn = list(pictures) if ending == ".html" else list(_readable(pictures))
    if not drawn:
        raise InputError(f"{path}: no sentence to draw; give at least one")
    if ending == ".html":
        with open_output(path) as file:
            file.write(render_page(drawn).encode("utf-8"))
        return len(drawn)
    texts = [text for picture in drawn for text in (picture.title, *picture.source, *picture.target)]
    with _canvas(texts) as figure:
        _place_panels(figure, [_Panel(picture) for picture in drawn], path)
        _save(figure, path)
    return len(drawn)


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
        if has_scores:
            _keep_to_scores(axes[1])
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
        _keep_to_scores(axes)
        _save(figure, path)


# One panel of a figure of attention


class _Panel:
    """A heat map with the room that its words take, in inches."""

    def __init__(self, picture: AttentionPicture) -> None:
        self.picture = picture
        self.source = [*(_printable(word) for word in picture.source), END]
        self.target = [_printable(word) for word in picture.target]
        self.title = _printable(picture.title)
        self.left = _room(self.target)
        self.top = _room(self.source) + (0.4 if self.title else 0.0)
        self.wide = _CELL * len(self.source)
        self.high = _CELL * max(len(self.target), 1)

    def draw(self, axes: Axes) -> None:
        num_words = len(self.source) - 1
        if self.target:
            weights = [[weight if math.isfinite(weight) else 0.0 for weight in row] for row in self.picture.weights]
            axes.imshow(weights, cmap=_COLOUR_MAP, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
        else:
            axes.set_facecolor("black")
            axes.set_xlim(-0.5, num_words + 0.5)
            axes.set_ylim(0.5, -0.5)
        axes.axvline(num_words - 0.5, color="0.5", linewidth=1)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4)
        axes.set_xticks(range(num_words + 1), self.source, rotation=90, parse_math=False)
        axes.get_xticklabels()[-1].set_color("0.4")
        axes.set_yticks(range(len(self.target)), self.target, parse_math=False)
        if self.title:
            axes.set_title(self.title, loc="left", fontsize=11, pad=8, parse_math=False)


class _Grid:
    """The places of some panels in rows and columns, as square as it goes, in inches from the upper left."""

    def __init__(self, panels: Sequence[_Panel]) -> None:
        count = math.ceil(math.sqrt(len(panels)))
        rows = [panels[start : start + count] for start in range(0, len(panels), count)]
        columns = [panels[start::count] for start in range(count)]
        left = [max(panel.left for panel in column) for column in columns]
        top = [max(panel.top for panel in row) for row in rows]
        widths = [side + max(panel.wide for panel in column) + _GAP for side, column in zip(left, columns, strict=True)]
        heights = [side + max(panel.high for panel in row) + _GAP for side, row in zip(top, rows, strict=True)]
        self.width, self.height = sum(widths), sum(heights)
        self.places = [
            (across + left[column], down + top[row])
            for row, down in enumerate(accumulate(heights[:-1], initial=0.0))
            for column, across in enumerate(accumulate(widths[:-1], initial=0.0))
        ][: len(panels)]
        """The upper left corner of each heat map."""


def _readable(pictures: Iterable[AttentionPicture]) -> Iterator[AttentionPicture]:
    """Yield the first picture, and the next ones while all can be read on one figure; a warning says if more follow."""
    panels: list[_Panel] = []
    for picture in pictures:
        panels.append(_Panel(picture))
        grid = _Grid(panels)
        if len(panels) > 1 and max(grid.width, grid.height) > _READABLE:
            some = "sentence is" if len(panels) == 2 else f"{len(panels) - 1} sentences are"
            warn(f"only the first {some} drawn, as many as can be read on one figure; for more, write an .html page")
            return
        yield picture


def _place_panels(figure: Figure, panels: Sequence[_Panel], path: Path) -> None:
    """Draw the panels, each cell of every heat map of the same size, and one scale for all."""
    grid = _Grid(panels)
    if max(grid.width, grid.height) > _WIDEST:
        raise InputError(
            f"{path}: {len(panels)} sentences of these lengths need a figure of {grid.width:.0f} by {grid.height:.0f} "
            "inches; draw fewer, or write an .html page"
        )
    width, height = grid.width + _SCALE, max(grid.height, panels[0].top + 1.2)
    figure.set_size_inches(width, height)

    def axes(left: float, top: float, wide: float, high: float) -> Axes:
        return figure.add_axes((left / width, 1 - (top + high) / height, wide / width, high / height))

    for panel, (left, top) in zip(panels, grid.places, strict=True):
        panel.draw(axes(left, top, panel.wide, panel.high))
    top = grid.places[0][1]
    _draw_scale(figure, axes(grid.width - _GAP / 2, top, 0.16, min(2.4, height - top)))


def _draw_scale(figure: Figure, axes: Axes) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import PercentFormatter

    shades = ScalarMappable(cmap=_COLOUR_MAP)
    shades.set_clim(0.0, 1.0)
    bar = figure.colorbar(shades, cax=axes, ticks=[0.0, 0.5, 1.0], format=PercentFormatter(1.0, symbol=" %"))
    bar.set_label("attention")


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


def _keep_to_scores(axes: Axes) -> None:
    """Let the axis of a score show nothing below 0 or above 100, where there is none, and marks at its ends whole."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 100.0))
    for line in axes.get_lines():
        line.set_clip_on(False)


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
