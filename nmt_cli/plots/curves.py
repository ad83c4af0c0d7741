"""Draws learning curves, and the scores of systems by sentence length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.plots.canvas import canvas, check_picture, replace_unprintable, save
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIRECTION_PREFIX = "bleu_"
"""Beginning of the name of the score of one direction; the two languages of the direction follow it."""
_COLOURS = ("#1f5fa8", "#c2571a", "#2c7a4b", "#8a3d8f", "#b08900", "#4a4a4a", "#c23b5a", "#1b8a94")


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """The score of the sentences whose source has from `low` to `high` words, with its confidence interval."""

    low: int
    high: int
    count: int
    score: float
    interval_low: float
    interval_high: float


def draw_curves(runs: Mapping[str, Sequence[Mapping[str, object]]], path: Path, *, reload_seconds: int = 0) -> None:
    """Write the learning curves of runs: losses on one panel, BLEU and chrF (if there are any) on a second one.

    For a model of several directions, the second panel has the mean BLEU and the BLEU of each direction. On an .html
    page one panel is below the other, so that they can be read on a telephone.

    Args:
        runs: the records of the metrics file of each run, by the name of the run.
        path: the picture.
        reload_seconds: seconds after which a page reloads itself; 0 for never.

    Raises:
        InputError: there is no loss yet, the ending is unknown, or matplotlib is missing.
    """
    check_picture(path)
    if not any(_series(records, "loss", "train", "validation")[0] for records in runs.values()):
        raise InputError(f"{path}: nothing to draw: there is no loss yet; wait for the first log line of the training")
    has_scores = any(
        _series(records, metric, "validation")[0] for records in runs.values() for metric in ("bleu", "chrf")
    )
    with canvas(runs) as figure:
        rows, columns = 1 + has_scores, 1
        if path.suffix.lower() != ".html":
            rows, columns = columns, rows
        figure.set_size_inches(1.0 + 5.0 * columns if columns > 1 else 6.5, 4.2 * rows)
        figure.set_layout_engine("constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for (name, records), colour in zip(runs.items(), _colours(len(runs)), strict=True):
            prefix = f"{name}: " if len(runs) > 1 else ""
            _line(axes[0], _series(records, "loss", "train"), f"{prefix}train", colour, alpha=0.45, linewidth=1)
            _line(axes[0], _series(records, "loss", "validation"), f"{prefix}validation", colour, marker="o")
            if has_scores:
                directions = _directions(records)
                mean = f"{prefix}mean BLEU" if directions else f"{prefix}BLEU"
                _line(axes[1], _series(records, "bleu", "validation"), mean, colour, marker="o")
                for number, direction in enumerate(directions, start=1):
                    own = _COLOURS[number % len(_COLOURS)] if len(runs) == 1 else colour
                    points = _series(records, f"{DIRECTION_PREFIX}{direction}", "validation")
                    _line(axes[1], points, f"{prefix}BLEU {direction}", own, marker=".", linewidth=1, linestyle=":")
                _line(
                    axes[1], _series(records, "chrf", "validation"), f"{prefix}chrF", colour, marker="s", linestyle="--"
                )
        for panel, label in zip(axes, ("loss", "score on the dev set"), strict=False):
            _style_axes(panel, "update", label)
        if has_scores:
            _keep_to_scores(axes[1])
        save(figure, path, reload_seconds=reload_seconds)


def draw_lengths(curves: Mapping[str, Sequence[LengthBucket]], path: Path) -> None:
    """Write the BLEU of each system by source length, with confidence bands; `curves` has the buckets by system.

    Empty buckets are left out.

    Raises:
        InputError: there are no sentences, the ending is unknown, or matplotlib is missing.
    """
    check_picture(path)
    filled = {name: [bucket for bucket in buckets if bucket.count] for name, buckets in curves.items()}
    ranges = sorted({(bucket.low, bucket.high) for buckets in filled.values() for bucket in buckets})
    if not ranges:
        raise InputError(f"{path}: nothing to draw: there are no sentences")
    with canvas(curves) as figure:
        figure.set_size_inches(max(6.5, 1.0 + 0.85 * len(ranges)), 4.2)
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for (name, buckets), colour in zip(filled.items(), _colours(len(filled)), strict=True):
            buckets.sort(key=lambda bucket: bucket.low)
            places = [ranges.index((bucket.low, bucket.high)) for bucket in buckets]
            low, high = ([b.interval_low for b in buckets], [b.interval_high for b in buckets])
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
            _line(axes, (places, [bucket.score for bucket in buckets]), name, colour, marker="o")
        counts = {(bucket.low, bucket.high): bucket.count for buckets in filled.values() for bucket in buckets}
        labels = [f"{low}–{high}\nn={counts[low, high]}" for low, high in ranges]
        axes.set_xticks(range(len(ranges)), labels)
        _style_axes(axes, "source words; n is the number of sentences", "BLEU")
        _keep_to_scores(axes)
        save(figure, path)


def _directions(records: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the directions that have their own BLEU in the records, in the order of their first appearance."""
    keys = dict.fromkeys(key for record in records for key in record if key.startswith(DIRECTION_PREFIX))
    return [key.removeprefix(DIRECTION_PREFIX) for key in keys]


def _series(records: Sequence[Mapping[str, object]], field: str, *events: str) -> tuple[list[float], list[float]]:
    """Return two lists of equal length, the steps and the values of `field`, from the records of the given events.

    Records in which the step or the value is not a finite number are left out.
    """
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


def _style_axes(axes: Axes, x_label: str, y_label: str) -> None:
    """Add labels, a light grid and a legend of all names; matplotlib would hide names with a leading underscore."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(replace_unprintable(y_label), parse_math=False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    lines = axes.get_lines()
    if lines:
        legend = axes.legend(frameon=False)
        for text, line in zip(legend.get_texts(), lines, strict=True):
            text.set_parse_math(False)
            text.set_text(replace_unprintable(line.get_gid() or ""))
            line.set_gid(None)


def _keep_to_scores(axes: Axes) -> None:
    """Limit the y axis, which shows a score, to 0 to 100; marks at its ends are still drawn whole."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 100.0))
    for line in axes.get_lines():
        line.set_clip_on(False)


def _colours(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]
