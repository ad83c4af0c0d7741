"""Writes the configuration of `nmt init`, a template filled in for a text, and holds out a dev set if none is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from string import Template

from nmt_cli.config.loader import validate
from nmt_cli.config.schema import Config
from nmt_cli.config.yaml_text import parse_yaml, quote_scalar
from nmt_cli.corpora.holdout import SplitInput, hold_out
from nmt_cli.corpora.sizes import Sizes, sizes_for
from nmt_cli.corpora.survey import TextSurvey
from nmt_cli.data.output import open_new_outputs
from nmt_cli.data.pairs import Corpus
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import ensure_directory
from nmt_cli.text.direction import Direction
from nmt_cli.text.language_codes import bleu_tokenizer

SCHEDULES = {
    "constant": "the average below takes the place of a falling rate, so a training may end anywhere or go on",
    "cosine": "down to 0 at the end of max_epochs, so the last epochs gain the most",
}
COMMENT_COLUMN = 29
TEMPERATURE = 5.0
"""Value of the setting `data.corpus_temperature` if there are several directions (Arivazhagan et al., 2019)."""
MIN_DEV_PAIRS = 100
"""Least pairs of a dev set without a warning; with fewer, BLEU moves by several points from one draw of sentences to
another."""
MIN_TRAINING_PAIRS = 1_000
"""Least pairs to train on without a warning; even 1,000 simple captions give only 19 BLEU (README)."""
CountUpdates = Callable[[Config, int], float | None]
"""A function from a configuration and a number of pairs to the number of updates in an epoch, or to None if counting
takes too long."""


@dataclass(frozen=True, slots=True)
class Header:
    """The name, the seed and the languages of a run; the languages are None if each corpus has its own."""

    name: str
    seed: int
    source_lang: str | None
    target_lang: str | None
    licence: str | None = None
    """The licence of the text, if it is known."""


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The corpora to train on and to validate on, as the configuration names them."""

    train: Sequence[Corpus]
    num_pairs: int
    """Number of pairs to train on."""
    dev: Corpus | Sequence[Corpus]
    """The dev set, or one dev set for each direction."""
    dev_comment: str
    skips_invalid: bool = False
    directions: Sequence[Direction] = ()
    """The direction of each corpus, and of each dev set, if there are several directions; else empty."""
    smallest_direction_pairs: int | None = None
    """Number of pairs of the direction with the least text, if there are several directions."""
    reads_per_epoch: int = 1
    """Number of times that an epoch reads each pair: 2 if a pair is used in both directions."""


def write_configuration(
    output: Path, header: Header, plan: DataPlan, text: TextSurvey, count_updates: CountUpdates
) -> None:
    """Write a configuration that names the corpora of `plan` by their paths; the corpora are not copied.

    Raises:
        InputError: the file exists already or cannot be written.
    """
    content = configuration(header, plan, text, count_updates)
    with open_new_outputs([output]) as (file,):
        file.write(content.encode("utf-8"))


def data_directory(output: Path) -> Path:
    """Return the path of the directory `NAME.data`, next to the configuration `NAME.yaml`, for dev and training text.

    Raises:
        InputError: the directory would have the same name as the configuration.
    """
    directory = output.parent / f"{output.stem}.data"
    if directory == output:
        raise InputError(f"{output}: is also the name of the directory for the text held out. Choose another ending")
    return directory


def write_with_held_out(
    output: Path, header: Header, corpora: Sequence[Corpus], text: TextSurvey, count_updates: CountUpdates
) -> None:
    """Hold out a dev set: write its two files, two files of the remaining pairs, and the configuration; or nothing.

    Raises:
        InputError: a file exists already or cannot be written, or nothing is left to train on.
    """
    directory = data_directory(output)
    paths = _paths_of_split(output, directory, header)
    dev, train = (Corpus(str(first), str(second)) for first, second in (paths[:2], paths[2:]))
    # A name that cannot be written is found before the work.
    configuration(header, DataPlan([train], text.num_whole, dev, ""), text)
    with ensure_directory(directory), open_new_outputs([output, *paths]) as (config_file, *files):
        split_input = SplitInput(
            corpora, ("source", "target"), text.num_whole, dev=(files[0], files[1]), train=(files[2], files[3])
        )
        (split,) = hold_out([split_input], seed=header.seed)
        if not split.training:
            raise InputError(
                f"{corpora[0].source}: nothing is left to train on when {split.held_out:,} pairs and all with the "
                "same source or target are held out; give --dev-source and --dev-target"
            )
        comment = (
            f"{split.held_out:,} pairs held out by the seed; {split.left_out:,} others with the same source or "
            "target are in neither set."
        )
        plan = DataPlan([train], split.training, dev, comment)
        config_file.write(configuration(header, plan, text, count_updates).encode("utf-8"))
    others = f", {split.without_text:,} left out because a side has no text" if split.without_text else ""
    others += f", {text.num_invalid:,} left out because they are not UTF-8" if text.num_invalid else ""
    warn_of_small_dev(split.held_out)
    log(
        f"{directory}: {split.training:,} pairs to train on, {split.held_out:,} held out as the dev set, "
        f"{split.left_out:,} left out because they share a side with a held-out pair{others}"
    )


def warn_of_few_pairs(num_pairs: int) -> None:
    """Warn if there are so few pairs that no model learns to translate from them."""
    if num_pairs < MIN_TRAINING_PAIRS:
        warn(
            f"there {'is' if num_pairs == 1 else 'are'} only {format_count(num_pairs, 'pair')}. A model needs "
            "thousands, so this one will hardly translate: look for more text, or begin with a model of another "
            "language pair (training.init_from)"
        )


def warn_of_small_dev(num_pairs: int, advice: str = "name them with --dev-source and --dev-target") -> None:
    """Warn if a dev set has so few pairs that its score says little; `advice` says how to use other pairs."""
    if num_pairs < MIN_DEV_PAIRS:
        warn(
            f"the dev set has only {format_count(num_pairs, 'pair')}, so its BLEU rises and falls by chance. If you "
            f"have more pairs that are not trained on, {advice}"
        )


def _paths_of_split(output: Path, directory: Path, header: Header) -> list[Path]:
    """Return four paths: source and target of the new dev set, then of the training text.

    Raises:
        InputError: one of them exists.
    """
    assert header.source_lang is not None
    assert header.target_lang is not None
    endings = (header.source_lang, header.target_lang)
    if endings[0] == endings[1]:
        endings = (f"source.{endings[0]}", f"target.{endings[1]}")
    paths = [directory / f"{part}.{ending}" for part in ("dev", "train") for ending in endings]
    if existing := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise InputError(
            f"{', '.join(existing)}: exists already and is not overwritten; choose another name for {output}, or move "
            "it away"
        )
    return paths


def configuration(header: Header, plan: DataPlan, text: TextSurvey, count_updates: CountUpdates | None = None) -> str:
    """Return the text of the configuration, with reasons as comments, checked as `nmt train` will check it.

    The number of updates, and with it the time between validations, comes from `count_updates`, or else is estimated.
    """
    sizes = sizes_for(replace(text, num_pairs=plan.num_pairs), smallest_direction_pairs=plan.smallest_direction_pairs)
    written, config = _fill_template(_values(header, plan, sizes))
    updates_per_epoch = count_updates(config, plan.num_pairs) if count_updates is not None else None
    if updates_per_epoch is None and plan.reads_per_epoch > 1:
        updates_per_epoch = plan.reads_per_epoch * sizes.num_updates / sizes.max_epochs
    if updates_per_epoch is not None:
        written, _ = _fill_template(_values(header, plan, sizes.with_updates(updates_per_epoch)))
    return written


def _fill_template(values: Mapping[str, object]) -> tuple[str, Config]:
    """Return the template with these values, as text and as a checked configuration."""
    template = resources.files("nmt_cli.corpora").joinpath("template.yaml").read_text(encoding="utf-8")
    lines = []
    for line in template.splitlines():
        setting, mark, comment = line.partition("  # ")
        if any(values[name] is None for name in Template(setting).get_identifiers()):
            continue
        filled, remark = (Template(part).substitute(values) for part in (setting, comment))
        lines.append(f"{filled:<{COMMENT_COLUMN - 1}} # {remark}" if mark and setting else filled + mark + remark)
    written = "\n".join(lines).replace("\n  dev: \n", "\n  dev:\n") + "\n"
    place = "--name, --source-lang or a path"
    return written, validate(parse_yaml(written, place), place)


def _values(header: Header, plan: DataPlan, sizes: Sizes) -> dict[str, object]:
    """Return the values that fill the template; a setting whose value is None is left out."""
    limit = ""
    if sizes.vocab_size != sizes.usual_vocab_size:
        limit = f", and this text has {'few words' if sizes.vocab_size < sizes.usual_vocab_size else 'many characters'}"
    tokenize = None if header.target_lang is None else bleu_tokenizer(header.target_lang)
    directions: Sequence[Direction | None] = plan.directions
    devs = [plan.dev] if isinstance(plan.dev, Corpus) else plan.dev
    dev = [_corpus_yaml(*each) for each in zip(devs, directions or [None] * len(devs), strict=True)]
    return {
        **asdict(sizes),
        "checkpoint_freq": sizes.checkpoint_freq,
        "name": quote_scalar(header.name),
        "model_dir": quote_scalar(f"runs/{header.name}"),
        "seed": header.seed,
        "source_lang": header.source_lang and quote_scalar(header.source_lang),
        "target_lang": header.target_lang and quote_scalar(header.target_lang),
        "licence": header.licence and quote_scalar(header.licence),
        "num_pairs": f"{plan.num_pairs:,}",
        "train": "\n".join(
            f"    - {_corpus_yaml(*each)}"
            for each in zip(plan.train, directions or [None] * len(plan.train), strict=True)
        ),
        "corpus_temperature": f"{TEMPERATURE:g}" if directions else None,
        "dev": "".join(f"\n    - {one}" for one in dev) if directions else dev[0],
        "dev_comment": plan.dev_comment,
        "invalid_utf8": "skip" if plan.skips_invalid else None,
        "limit": limit,
        "character_coverage": sizes.character_coverage if sizes.character_coverage < 1 else None,
        "dropout": ", ".join(f"{key}: {value:g}" for key, value in sizes.dropout.model_dump().items()),
        "schedule_comment": SCHEDULES[sizes.schedule],
        "num_updates": f"{sizes.num_updates:,}",
        "num_validations": max(1, sizes.num_updates // sizes.validation_freq),
        "scoring": "scoring" if tokenize else None,
        "tokenize": tokenize,
    }


def _corpus_yaml(corpus: Corpus, direction: Direction | None = None) -> str:
    languages = "" if direction is None else ", source_lang: {}, target_lang: {}".format(*map(quote_scalar, direction))
    return f"{{source: {quote_scalar(corpus.source)}, target: {quote_scalar(corpus.target)}{languages}}}"
