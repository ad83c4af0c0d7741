"""Draws attention weights as heat maps in a PNG or SVG file, or as an HTML page on which to explore them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.data.output import open_output
from nmt_cli.plots.attention_page import EOS_LABEL, AttentionPicture, render_page
from nmt_cli.plots.canvas import canvas, check_picture, replace_unprintable, save
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 0.3  # inches a word takes in a heat map, so that its letters (10 points) stay apart
_LETTER = 0.085  # inches, of an ordinary letter at 10 points
_GAP = 0.35
_SCALE = 0.95  # inches beside the heat maps for the scale, of which the bar takes the first few
_READABLE = 20.0  # inches; more sentences than fit on such a square are left out
_WIDEST = 200.0  # inches; about 600 words, which nobody reads on one figure
_COLOUR_MAP = "gray"


def draw_attention(pictures: Iterable[AttentionPicture], path: Path) -> int:
    """Write attention to `path` as heat maps, or as a page for an `.html` path; return the number of drawn pictures.

    The heat maps are as in Bahdanau et al. (2015), Figure 3: white for 1 and black for 0. Words are in the order of the
    text, source from left to right, whatever the script. A figure has as many of the pictures as can be read on it.

    Raises:
        InputError: there is no picture, the ending is unknown, matplotlib is missing, or the sentences are too long.
    """
    ending = check_picture(path, draws_pages=False)
    drawn = list(pictures) if ending == ".html" else list(_readable(pictures))
    if not drawn:
        raise InputError(f"{path}: no sentence to draw; give at least one that is not empty and has a translation")
    if ending == ".html":
        with open_output(path) as file:
            file.write(render_page(drawn).encode("utf-8"))
        return len(drawn)
    texts = [text for picture in drawn for text in (*picture.source, *picture.target)]
    with canvas(texts) as figure:
        _place_panels(figure, [_Panel(picture) for picture in drawn], path)
        save(figure, path)
    return len(drawn)


class _Panel:
    """A heat map with its words; `left`, `top`, `wide` and `high` are the sizes of its labels and cells in inches."""

    def __init__(self, picture: AttentionPicture) -> None:
        self.picture = picture
        self.source = [*(replace_unprintable(word) for word in picture.source), EOS_LABEL]
        self.target = [replace_unprintable(word) for word in picture.target]
        self.left = _label_width(self.target)
        self.top = _label_width(self.source)
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


class _Grid:
    """A layout of panels in rows and columns, as nearly square as possible; all sizes are in inches."""

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
        """The upper left corner of each heat map's cells: inches from the left and from the top of the figure."""


def _readable(pictures: Iterable[AttentionPicture]) -> Iterator[AttentionPicture]:
    """Yield the first picture, and the next ones while all can be read on one figure; a warning says if more follow."""
    panels: list[_Panel] = []
    for picture in pictures:
        panels.append(_Panel(picture))
        grid = _Grid(panels)
        if len(panels) > 1 and max(grid.width, grid.height) > _READABLE:
            some = "sentence is" if len(panels) == 2 else f"{len(panels) - 1} sentences are"
            warn(f"only the first {some} drawn, as many as one figure can show. For more, write an .html page")
            return
        yield picture


def _place_panels(figure: Figure, panels: Sequence[_Panel], path: Path) -> None:
    """Draw all panels with cells of the same size, and one colour scale; `path` is only for the error message.

    Raises:
        InputError: the figure would be too large.
    """
    grid = _Grid(panels)
    if max(grid.width, grid.height) > _WIDEST:
        raise InputError(
            f"{path}: {format_count(len(panels), 'sentence')} of such length would need a figure of {grid.width:.0f} "
            f"by {grid.height:.0f} inches; draw fewer or shorter ones, or write an .html page"
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


def _label_width(words: Sequence[str]) -> float:
    """Return the width of the longest of the words in inches; East Asian letters count as twice as wide."""
    wide = {"W", "F"}
    lengths = [sum(2 if unicodedata.east_asian_width(letter) in wide else 1 for letter in word) for word in words]
    return _LETTER * max(lengths, default=0) + 0.15
