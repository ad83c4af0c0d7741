"""Trained models applied to given translations: their probabilities, and a shortlist learned from their alignments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt_cli.assembly.file_checks import refuse_overwriting, refuse_standard_input_twice
from nmt_cli.assembly.model_options import ModelOptions
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.data.lines import input_name
from nmt_cli.data.output import open_output
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import Progress, log
from nmt_cli.system.errors import InputError
from nmt_cli.translation.forced_decoding import PairScorer
from nmt_cli.translation.shortlist import LinkCounts, write_shortlist
from nmt_cli.translation.windows import windows_of_pairs


def open_scorer(model_dirs: Sequence[Path | Experiment], **loading_options: Any) -> PairScorer:
    """Return a scorer of given pairs, which are not normalized; `loading_options` and errors are as for
    `open_translator`."""
    translator = open_translator(model_dirs, normalize_input=False, **loading_options)
    return PairScorer(translator.models, translator.tokenizers, translator.options.batch_tokens)


def write_log_probs(source: str, target: str, output: Path | None, models: ModelOptions) -> None:
    """Write the natural log-probability of each target line with its `</s>`, not divided by its length.

    Raises:
        InputError: an input or a model cannot be read, the inputs differ in length, or the output is one of them.
    """
    refuse_standard_input_twice([source, target])
    experiments = models.experiments()
    refuse_overwriting(output, [source, target], experiments)
    scorer = open_scorer(experiments, **models.loading_options)
    with open_output(output) as out:
        for window in windows_of_pairs(source, target):
            for log_prob in scorer.log_probs([(pair.source, pair.target) for pair in window]):
                out.write(f"{log_prob:.6f}\n".encode())
            out.flush()


def learn_shortlist(
    source: str, target: str, output: Path, models: ModelOptions, *, likely: int, frequent: int
) -> None:
    """Write the target pieces that a search may use for a source: the `frequent` most frequent, and for each source
    piece the `likely` ones that the attention of the model links to it most often.

    Raises:
        InputError: an input or the model cannot be read, the inputs differ in length, the output is one of them, no
            pair has text, or the model has no attention.
    """
    (experiment,) = models.experiments()
    refuse_standard_input_twice([source, target])
    refuse_overwriting(output, [source, target], [experiment])
    if output.suffix == ".gz":
        raise InputError(f"{output}: a shortlist cannot be compressed. Leave out .gz")
    scorer = open_scorer([experiment], **models.loading_options)
    if not scorer.models.has_attention:
        raise InputError("this model has no attention (model.attention.type: none), so it cannot make a shortlist")
    sides = scorer.tokenizers
    counts = LinkCounts(*(side.vocab_size for side in sides))
    num_pairs = 0
    with open_output(output) as out, Progress("aligning", unit="pair") as progress:
        for window in windows_of_pairs(source, target):
            scores = scorer.scores([(pair.source, pair.target) for pair in window])
            counts.add(
                [
                    (sides[0].ids_of(scored.source_pieces), sides[1].ids_of(scored.target_pieces), scored.piece_weights)
                    for scored in scores
                ]
            )
            num_pairs += len(window)
            progress.advance(len(window))
        if not num_pairs:
            raise InputError(f"{input_name(source)} is empty; a shortlist is learned from parallel text")
        if not counts.has_links:
            raise InputError(
                f"{input_name(source)} | {input_name(target)}: no pair has text on both sides; a shortlist is learned "
                "from parallel text"
            )
        made = counts.shortlist(frequent=frequent, likely=likely, joint=sides[0].has_same_model(sides[1]))
        write_shortlist(out, made, experiment.fingerprints)
    log(
        f"{output}: {len(made.frequent_F):,} frequent pieces and up to {likely} for each source piece hold "
        f"{counts.link_coverage(made):.2%} of the links of {num_pairs:,} pairs"
    )
