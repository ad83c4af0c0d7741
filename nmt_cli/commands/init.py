"""`nmt init`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.console import log, warn
from nmt_cli.data.lines import is_special_file
from nmt_cli.data.output import open_output
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.data.corpus import Corpus
    from nmt_cli.data.survey import TextSurvey

SCHEDULES = {
    "constant": "the average below takes the place of a falling rate, so a training may end anywhere or go on",
    "cosine": "down to 0 at the end of max_epochs, so the last epochs gain the most",
}


def init(
    source: Annotated[
        list[str],
        typer.Option("--source", metavar="FILE", help="Source sentences, one a line; .gz too. May be repeated."),
    ],
    target: Annotated[
        list[str], typer.Option("--target", metavar="FILE", help="Their translations, as many files in the same order.")
    ],
    source_lang: Annotated[str, typer.Option("--source-lang", metavar="XX", help="Language code, such as en.")],
    target_lang: Annotated[str, typer.Option("--target-lang", metavar="YY", help="Language code, such as de.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the configuration; must be new.")
    ],
    dev_source: Annotated[
        str | None,
        typer.Option(
            "--dev-source", metavar="FILE", help="Validation text; without it 5 % are held out, 1000 at most."
        ),
    ] = None,
    dev_target: Annotated[str | None, typer.Option("--dev-target", metavar="FILE", help="Its translations.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the run, trained in runs/NAME; that of the file.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**31 - 1, help="Draws what is held out; training's too.")
    ] = 1,
) -> None:
    """Write a commented configuration sized to your corpus.

    Example: nmt init --source a.en --target a.de --source-lang en --target-lang de -o en_de.yaml
    """
    _check_options(source, target, (dev_source, dev_target), (source_lang, target_lang), output)
    from nmt_cli.data.corpus import Corpus
    from nmt_cli.data.survey import survey

    corpora = [Corpus(*paths) for paths in zip(source, target, strict=True)]
    dev = Corpus(dev_source, dev_target) if dev_source is not None and dev_target is not None else None
    text = survey(corpora)
    log(
        f"{text.num_pairs:,} pairs, {text.words_a_line:.1f} words a target line, {text.distinct_words:,} distinct words"
    )
    if text.num_whole < (2 if dev is None else 1):
        raise InputError(
            f"{', '.join(source)}: {text.num_whole} pairs with text on both sides; there is nothing to train on"
        )
    if dev is not None and not survey([dev]).num_pairs:
        raise InputError(f"{dev.source}: the dev set is empty")
    name = name if name is not None else (output.stem if output.stem != "config" else f"{source_lang}_{target_lang}")
    if output.absolute() == Path("runs", name, "config.yaml").absolute():
        raise InputError(f"{output}: is where the run keeps its own configuration; choose another name")
    header = _Header(name, seed, source_lang, target_lang)
    if dev is not None:
        if text.num_invalid:
            warn(f"{text.num_invalid:,} pairs are not UTF-8; the configuration skips them")
        num_pairs = text.num_pairs - text.num_invalid
        plan = _Plan(corpora, num_pairs, dev, "Yours; never filtered.", skips_invalid=text.num_invalid > 0)
        written = _yaml(header, plan, text)
        with open_output(output) as file:
            file.write(written.encode("utf-8"))
    else:
        _write_with_held_out(output, header, corpora, text)
    log(f"configuration: {output}")
    log(f"try: nmt check --config {output}; nmt train --config {output}")


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    seed: int
    source_lang: str
    target_lang: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which text is for what."""

    train: Sequence[Corpus]
    num_pairs: int
    """To train on."""
    dev: Corpus
    dev_comment: str
    skips_invalid: bool = False


def _check_options(
    source: list[str], target: list[str], dev: tuple[str | None, str | None], languages: tuple[str, str], output: Path
) -> None:
    """`InputError` for what can be seen before any text is read."""
    if len(source) != len(target):
        raise InputError(
            f"--source names {len(source)} files and --target {len(target)}; give as many of one as of the other, in "
            "the same order"
        )
    if (dev[0] is None) != (dev[1] is None):
        raise InputError("--dev-source and --dev-target belong together: give both, or neither")
    if "-" in (*source, *target, *dev):
        raise InputError("standard input cannot be read twice; give files")
    for option, language in zip(("--source-lang", "--target-lang"), languages, strict=True):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", language):
            raise InputError(f"{option} {language}: must be a language code, such as en or pt_BR")
    if str(output) == "-":
        raise InputError("-o -: a configuration is a file, to whose name that of the run belongs; give -o NAME.yaml")
    if output.suffix == ".gz":
        raise InputError(f"{output}: a configuration is read as plain text; leave out .gz")
    if specials := [path for path in (*source, *target, *dev) if is_special_file(path)]:
        raise InputError(
            f"{', '.join(map(str, specials))}: is a pipe or a device; text that is read more than once must be a file"
        )
    if output.exists() or output.is_symlink():
        raise InputError(f"{output}: exists already and is not overwritten; choose another name, or move it away")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no directory {output.parent}; make it first")


def _write_with_held_out(output: Path, header: _Header, corpora: Sequence[Corpus], text: TextSurvey) -> None:
    """Hold out a dev set: the four files of text, then the configuration, or nothing of it all."""
    from nmt_cli.data.corpus import Corpus
    from nmt_cli.data.holdout import hold_out

    directory = output.parent / f"{output.stem}.data"
    endings = (header.source_lang, header.target_lang)
    if endings[0] == endings[1]:
        endings = (f"source.{endings[0]}", f"target.{endings[1]}")
    paths = [directory / f"{part}.{ending}" for part in ("dev", "train") for ending in endings]
    if existing := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise InputError(
            f"{', '.join(existing)}: exists already and is not overwritten; choose another name for {output}, or move "
            "it away"
        )
    dev, train = (Corpus(str(first), str(second)) for first, second in (paths[:2], paths[2:]))
    # A name that cannot be written is found before the work.
    _yaml(header, _Plan([train], text.num_whole, dev, ""), text)
    is_new = not directory.exists()
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be made: {(error.strerror or str(error)).lower()}") from error
    try:
        with ExitStack() as stack:
            config_file = stack.enter_context(open_output(output))  # the first in is the last to get its name
            dev_source, dev_target, train_source, train_target = (
                stack.enter_context(open_output(path)) for path in paths
            )
            split = hold_out(
                corpora,
                num_whole=text.num_whole,
                seed=header.seed,
                dev=(dev_source, dev_target),
                train=(train_source, train_target),
            )
            if not split.training:
                raise InputError(
                    f"{corpora[0].source}: nothing is left to train on when {split.held_out:,} pairs and all with the "
                    "same source or target are held out; give --dev-source and --dev-target"
                )
            comment = (
                f"{split.held_out:,} pairs held out by the seed; {split.left_out:,} others with the same source or "
                "target are in neither set."
            )
            plan = _Plan([train], split.training, dev, comment)
            config_file.write(_yaml(header, plan, text).encode("utf-8"))
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        if is_new and directory.is_dir():
            directory.rmdir()
        raise
    invalid = f", {text.num_invalid:,} not UTF-8 left out" if text.num_invalid else ""
    log(
        f"{directory}: {split.training:,} pairs to train on, {split.held_out:,} held out, {split.left_out:,} too like "
        f"them left out{invalid}"
    )


def _yaml(header: _Header, plan: _Plan, text: TextSurvey) -> str:
    """The configuration with its reasons, checked as `nmt train` will check it."""
    from nmt_cli.config.loader import parse_yaml, validate
    from nmt_cli.config.sizing import TextSize, sizes_for
    from nmt_cli.scoring import tokenizer_for

    sizes = sizes_for(
        TextSize(
            plan.num_pairs, text.words_a_line, text.characters_a_line, text.distinct_words, text.distinct_characters,
            text.covering_characters,
        )
    )  # fmt: skip
    dropout = ", ".join(f"{key}: {value:g}" for key, value in sizes.dropout.model_dump().items())
    train = "\n".join(
        f"    - {{source: {_scalar(corpus.source)}, target: {_scalar(corpus.target)}}}" for corpus in plan.train
    )
    limit = ""
    if sizes.vocab_size != sizes.usual_vocab_size:
        limit = f", and this text has {'few words' if sizes.vocab_size < sizes.usual_vocab_size else 'many characters'}"
    coverage = (
        f"  character_coverage: {sizes.character_coverage} # very many characters: rare ones are spelt in bytes\n"
        if sizes.character_coverage < 1
        else ""
    )
    invalid = "  invalid_utf8: skip         # some lines are not UTF-8; error would stop at the first\n"
    num_validations = max(1, sizes.num_steps // sizes.validation_freq)
    tokenize = tokenizer_for(header.target_lang)
    scoring = f"scoring:\n  tokenize: {tokenize or '':<16} # BLEU counts words, and these are not separated by blanks\n"
    written = f"""\
# Written by `nmt init` for {plan.num_pairs:,} pairs of text. `nmt schema` describes every key; those not named here
# keep their defaults. `nmt check` looks at the text, `nmt train` trains and resumes. Relative paths are relative to
# the directory in which you call nmt.
name: {_scalar(header.name)}
model_dir: {_scalar(f"runs/{header.name}")}
seed: {header.seed}
data:
  source_lang: {_scalar(header.source_lang)}
  target_lang: {_scalar(header.target_lang)}
  train:
{train}
  # {plan.dev_comment}
  dev: {{source: {_scalar(plan.dev.source)}, target: {_scalar(plan.dev.target)}}}
  # test: [{{name: mytest, source: PATH, target: PATH}}]   # what `nmt evaluate` scores
  max_length: {sizes.max_length:<14} # pieces; longer training pairs are left out and cost the most memory
{invalid if plan.skips_invalid else ""}tokenizer:
  model_type: bpe
  vocab_size: {sizes.vocab_size:<14} # pieces must recur to be learnt: fewer for less text{limit}
  joint: true                # names, numbers and cognates are cut alike on both sides
{coverage}model:
  # Sizes grow with the text: {plan.num_pairs:,} pairs cannot fill a larger model.
  embedding_size: {sizes.embedding_size}
  tied_embeddings: all       # one matrix for both embeddings and the softmax: fewer parameters, better on little text
  layer_norm: true           # steadier training at this learning rate
  encoder: {{rnn_type: gru, bidirectional: true, hidden_size: {sizes.hidden_size}, num_layers: {sizes.num_layers}}}
  decoder: {{rnn_type: gru, recurrence: conditional, hidden_size: {sizes.hidden_size}, num_layers: {sizes.num_layers}}}
  attention: {{type: additive, size: {sizes.hidden_size}}}
  lexical_model: true        # the source words looked at score the next word by themselves too
  # The less text, the more dropout; raise it if the dev loss rises while the training loss falls.
  dropout: {{{dropout}}}
training:
  batch_size: {sizes.batch_size:<14} # target pieces an update; small batches make more updates of little text
  learning_rate: {sizes.learning_rate:<11} # the peak, reached after the warm-up
  schedule: {sizes.schedule:<16} # {SCHEDULES[sizes.schedule]}
  warmup_steps: {sizes.warmup_steps}
  max_epochs: {sizes.max_epochs:<14} # about {sizes.num_steps:,} updates
  label_smoothing: 0.1
  ema_decay: 0.999           # the weights that translate are the average of the last tenth or so of the updates
  validation_freq: {sizes.validation_freq:<9} # steps; about {num_validations} validations in all
  checkpoint_freq: {sizes.checkpoint_freq:<9} # steps; a training that is killed loses no more
  patience: 5                # validations without a better BLEU, then training ends
decoding: {{beam_size: 5, length_penalty: 1.0}}
{scoring if tokenize else ""}"""
    values = parse_yaml(written, "--name, --source-lang or a path")
    validate(values, "--name, --source-lang or a path")
    return written


def _scalar(text: str) -> str:
    """A YAML string, quoted where a reader of YAML 1.1 or 1.2 might take it for something else."""
    is_plain = re.fullmatch(r"(?:\./|\.\./|/)?[A-Za-z_][A-Za-z0-9_./+-]*", text)
    if is_plain and text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", quoted)
