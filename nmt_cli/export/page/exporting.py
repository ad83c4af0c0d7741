"""Export of models to one page that translates offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.export.card import card
from nmt_cli.export.page.description import pack_model
from nmt_cli.export.page.html_file import PageModel, check_replaceable, write
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import english_name

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.seq2seq import Seq2Seq
    from nmt_cli.normalization.profile import TextProfile

PRECISIONS = ("int8",)


class ExportedPage(NamedTuple):
    """The size of a page that was written, and the models in it."""

    size: int
    """Size of the HTML file in bytes."""
    models: tuple[PageModel, ...]


def check_request(experiments: Sequence[Experiment], path: Path, precision: str) -> None:
    """Check, before any work, that a page with these models in this precision can be written to `path`.

    Raises:
        InputError: the precision is not int8, two models have the same direction, or no page can be written to the
            path.
    """
    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision}: must be int8 in a page; leave the option out")
    check_replaceable(path)
    pairs: set[tuple[str, str]] = set()
    for experiment in experiments:
        for pair in experiment.config.data.directions:
            if pair in pairs:
                raise InputError(f"two models translate from {pair[0]} to {pair[1]}; a page holds one of them")
            pairs.add(pair)


def export(
    loaded: Sequence[tuple[Experiment, Seq2Seq, Sequence[TextProfile | None]]], path: Path, *, checkpoint: str
) -> ExportedPage:
    """Write a page that translates with these models, one for each direction.

    Each model comes with the profile of the training text of each of its directions, or None. With a profile, the page
    adapts the case and the full stop of input lines to that text.

    Raises:
        InputError: a page cannot compute a model; the file cannot be written.
        NmtError: the disk is full.
    """
    models = []
    for experiment, model, profiles in loaded:
        titles = [" → ".join(map(english_name, direction)) for direction in experiment.config.data.directions]
        packed = pack_model(experiment, model, profiles)
        models.append(PageModel(packed, ", ".join(titles), card([experiment], checkpoint)))
    return ExportedPage(write(models, path), tuple(models))
