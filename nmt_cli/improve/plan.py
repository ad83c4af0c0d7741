"""The plan of `nmt improve`: from a configuration and the amounts of text to a list of stages. Nothing is read here.

The parts are back-translation (Sennrich et al., 2016) with a tag (Caswell et al., 2019), repeated with better models
(Hoang et al., 2018), forward translation of text in the source language (Zhang & Zong, 2016) and of the pairs
themselves (Nguyen et al., 2020), and distillation (Kim & Rush, 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt_cli.config.loader import dump_config, parse_yaml, validate
from nmt_cli.config.schema import Config
from nmt_cli.improve.stages import STAGES, Stage, Work
from nmt_cli.rules.corpus import cleaned_names

TAG = "<BT>"
"""The first piece of a source that a machine wrote."""
SAMPLE_FROM = 500_000
"""Pairs from which on sampled translations teach more than the best ones (Edunov et al., 2018, figure 4)."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The choices of one `nmt improve`."""

    rounds: int = 1
    ensemble: int = 1
    distil: bool = False
    ratio: float = 2.0
    """Lines of translated text in each epoch, as a multiple of the pairs; at most all there are."""
    beam_size: int = 5
    """Beam for text that is translated to be learnt from."""
    sample: bool | None = None
    """Draw such translations instead of searching; None decides by the number of pairs."""
    int8: bool = True
    """Translate in int8, which only CPUs can."""
    resizes: bool = True
    """Trainings on all of the text get the sizes that suit it, where the configuration has those for the pairs."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Lines of each file."""

    pairs: tuple[int, ...]
    target: tuple[int, ...] = ()
    source: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Text:
    """A file that the stages have made, or one of the user's."""

    path: Path
    lines: int


@dataclass(frozen=True, slots=True)
class _Corpus:
    """Pairs to train on."""

    source: Path
    target: Path
    lines: int
    weight: float
    alignment: str | None = None

    @property
    def visits(self) -> float:
        """Pairs of it in one epoch."""
        return self.lines * self.weight

    def exchanged(self) -> _Corpus:
        """Return the pairs of the other direction."""
        return _Corpus(self.target, self.source, self.lines, self.weight)


def plan(
    config: Config, recipe: Recipe, amounts: Amounts, directory: Path, sizes: Mapping[str, Any] | None = None
) -> list[Stage]:
    """Return the stages that lead from a configuration with absolute paths to the last model, in order.

    `sizes` are dotted keys with the values for trainings on the pairs and the translated text together.
    """
    return _Planner(config, recipe, amounts, directory, sizes or {}).stages()


def final_models(stages: Sequence[Stage]) -> list[Path]:
    """Return the model directories of which one becomes the result: those of the last purpose."""
    return [stage.outputs[0] for stage in stages if stage.config is not None and stage.purpose == stages[-1].purpose]


class _Planner:
    """Appends one stage after the other."""

    def __init__(
        self, config: Config, recipe: Recipe, amounts: Amounts, directory: Path, sizes: Mapping[str, Any]
    ) -> None:
        self._config, self._recipe, self._amounts, self._sizes = config, recipe, amounts, sizes
        self._directory = directory / STAGES
        self._stages: list[Stage] = []
        sample = recipe.sample
        self._samples = sum(amounts.pairs) >= SAMPLE_FROM if sample is None else sample
        # A training that goes out from another run keeps its tokenizer only if that needs no other symbols.
        self._tag = TAG if config.training.init_from is None else None

    def stages(self) -> list[Stage]:
        pairs = self._clean_pairs()
        targets, sources = self._clean_text("target"), self._clean_text("source")
        forward: list[Path] = []
        if sources:
            forward = [self._train("forward", "a first model", pairs, [])]
        made: list[_Corpus] = []
        for number in range(1, self._recipe.rounds + 1):
            is_last = number == self._recipe.rounds
            if targets:
                made = self._translate_back(number, pairs, targets, sources, forward)
            else:
                made = self._translated(sources, forward, "self", "target", f"round {number}: teach itself", tag=None)
            members = self._recipe.ensemble if is_last else 1
            purpose = f"round {number}: train on both" if members == 1 else f"round {number}: train an ensemble"
            is_result = is_last and not self._recipe.distil
            forward = [
                self._train("forward", purpose, pairs, made, member=member, is_result=is_result)
                for member in range(members)
            ]
        if self._recipe.distil:
            self._distil(pairs, made if targets else [], sources, forward)
        return self._stages

    # Text ---------------------------------------------------------------------------------------------------------

    def _clean_pairs(self) -> list[_Corpus]:
        found = []
        for corpus, lines in zip(self._config.data.train, self._amounts.pairs, strict=True):
            source, target = Path(corpus.source), Path(corpus.target)
            if corpus.alignment is None:  # else its links would belong to other lines
                source, target = self._clean(
                    "pairs", "leave out wrong pairs", (source, target), lines, ("--keep", "markup")
                )
            found.append(_Corpus(source, target, lines, corpus.weight, corpus.alignment))
        return found

    def _clean_text(self, side: str) -> list[_Text]:
        """Clean text in one language; no line of the dev and test sets, of the pairs, or of an earlier file stays."""
        data = self._config.data
        if data.monolingual is None:
            return []
        known = [*([data.dev] if data.dev else []), *data.test, *data.train]
        without = [Path(getattr(pair, side)) for pair in known]
        found: list[_Text] = []
        for path, lines in zip(getattr(data.monolingual, side), getattr(self._amounts, side), strict=True):
            others = [*without, *(text.path for text in found)]
            options = [word for other in dict.fromkeys(others) for word in ("--without", str(other))]
            purpose = f"clean text in the {side} language"
            (cleaned,) = self._clean("text", purpose, (Path(path),), lines, options, reads=others)
            found.append(_Text(cleaned, lines))
        return found

    def _clean(
        self,
        name: str,
        purpose: str,
        texts: tuple[Path, ...],
        lines: int,
        options: Sequence[str],
        reads: Sequence[Path] = (),
    ) -> tuple[Path, ...]:
        directory = self._next(name)
        prefix = str(directory / name)
        made = cleaned_names([str(path) for path in texts], prefix)
        self._stages.append(
            Stage(
                directory,
                purpose,
                ("clean", *map(str, texts), "-o", prefix, *options),
                inputs=tuple(dict.fromkeys((*texts, *reads))),
                outputs=tuple(made),
                work=Work("clean", lines, stored=lines * len(texts)),
            )
        )
        return tuple(made[:-1])

    def _next(self, name: str) -> Path:
        return self._directory / f"{len(self._stages) + 1:02d}-{name}"

    # Translation --------------------------------------------------------------------------------------------------

    def _translate_back(
        self, number: int, pairs: list[_Corpus], targets: list[_Text], sources: list[_Text], forward: list[Path]
    ) -> list[_Corpus]:
        """Train the reverse direction, with what the model so far translates, and translate the target text by it."""
        begin = f"round {number}: "
        taught: list[_Corpus] = []
        if forward:
            # From the second round on the model knows more than the pairs, so that these too are worth translating.
            again = [_Text(pair.source, pair.lines) for pair in pairs] if number > 1 else []
            taught = self._translated(
                [*sources, *again], forward, "forth", "target", f"{begin}translate for the reverse", tag=self._tag,
                is_reverse=True,
            )  # fmt: skip
        reverse = self._train("reverse", f"{begin}train the reverse direction", pairs, taught, is_reverse=True)
        return self._translated(
            targets, [reverse], "back", "source", f"{begin}translate the target text back", tag=self._tag
        )

    def _translated(
        self,
        texts: list[_Text],
        models: list[Path],
        name: str,
        side: str,
        purpose: str,
        *,
        tag: str | None,
        is_reverse: bool = False,
    ) -> list[_Corpus]:
        """Return pairs of texts and their translations, the bad ones left out, with the weight that the ratio gives.

        `side` is the side of the model's direction that is written. With `is_reverse` the pairs teach the reverse
        direction, whose source is then the translation.
        """
        data = self._config.data
        ending = data.target_lang if side == "target" else data.source_lang
        weight = self._weight(texts)
        corpora = []
        for text in texts:
            made = self._translate(name, purpose, text, models, ending)
            is_source = side == "source" or is_reverse
            both = (made, text.path) if is_source else (text.path, made)
            options = ["--keep", "markup", *(("--tag", tag) if tag else ())]
            source, target = self._clean(name, f"{purpose}: leave out bad ones", both, text.lines, options)
            corpora.append(_Corpus(source, target, text.lines, weight))
        return corpora

    def _translate(
        self, name: str, purpose: str, text: _Text, models: list[Path], ending: str, *, is_teacher: bool = False
    ) -> Path:
        directory = self._next(f"{name}-translate" if name in ("back", "forth", "self") else name)
        output = directory / f"translated.{ending}"
        training, recipe = self._config.training, self._recipe
        samples = self._samples and not is_teacher
        beam = self._config.decoding.beam_size if is_teacher else recipe.beam_size
        options = ["--sample", "--seed", str(self._config.seed)] if samples else ["--beam-size", str(beam)]
        options += ["--precision", "int8"] if recipe.int8 else []
        options += ["--device", "cpu" if recipe.int8 else training.device]
        options += ["--threads", str(training.threads)] if training.threads else []
        named = [word for model in models for word in ("--model", str(model))]
        self._stages.append(
            Stage(
                directory,
                purpose,
                ("translate", str(text.path), *named, "-o", str(output), *options),
                inputs=(text.path, *models),
                outputs=(output,),
                work=Work("translate", text.lines, stored=text.lines, rows=(1 if samples else beam) * len(models)),
            )
        )
        return output

    def _weight(self, texts: list[_Text]) -> float:
        """Return the weight at which an epoch has the lines of the ratio, at most all; three digits, as one types."""
        weights = (corpus.weight for corpus in self._config.data.train)
        pairs = sum(weight * lines for weight, lines in zip(weights, self._amounts.pairs, strict=True))
        return float(f"{min(1.0, self._recipe.ratio * pairs / max(1, sum(text.lines for text in texts))):.3g}")

    # Training -----------------------------------------------------------------------------------------------------

    def _distil(self, pairs: list[_Corpus], made: list[_Corpus], sources: list[_Text], teachers: list[Path]) -> None:
        """Train one model on what the teachers make of the sources, and on the text that was translated back."""
        ending, purpose = self._config.data.target_lang, "distil: translate by the teachers"
        taught = []
        for pair in pairs:
            text = _Text(pair.source, pair.lines)
            output = self._translate("teach", purpose, text, teachers, ending, is_teacher=True)
            taught.append(_Corpus(pair.source, output, pair.lines, pair.weight))
        weight = self._weight(sources)
        more = []
        for text in sources:
            output = self._translate("teach", purpose, text, teachers, ending, is_teacher=True)
            more.append(_Corpus(text.path, output, text.lines, weight))
        self._train("student", "distil: train one model", taught, [*made, *more], is_result=True)

    def _train(
        self,
        name: str,
        purpose: str,
        pairs: list[_Corpus],
        made: list[_Corpus],
        *,
        member: int = 0,
        is_reverse: bool = False,
        is_result: bool = False,
    ) -> Path:
        directory = self._next(name)
        model = directory / "model"
        corpora = [*((pair.exchanged() for pair in pairs) if is_reverse else pairs), *made]
        usual = sum(pair.visits for pair in pairs)
        factor = sum(corpus.visits for corpus in corpora) / max(1.0, usual)
        values = parse_yaml(dump_config(self._config), name)
        values["model_dir"] = str(model)
        values["seed"] = self._config.seed + member
        _set_data(values, corpora, is_reverse=is_reverse, is_result=is_result)
        if is_reverse:
            _turn(values)
        if self._tag and any(corpus in made for corpus in corpora) and values["tokenizer"]["model_type"] != "word":
            values["tokenizer"]["symbols"] = list(dict.fromkeys((*values["tokenizer"]["symbols"], self._tag)))
        training = values["training"]
        training["validation_freq"] = max(1, round(training["validation_freq"] * factor))
        if training["max_steps"] is not None:
            training["max_steps"] = max(1, round(training["max_steps"] * factor))
        if made and not is_reverse:
            _set_sizes(values, self._sizes)
        config = validate(values, name)
        stage = Stage(
            directory,
            purpose,
            (),
            inputs=tuple(dict.fromkeys(path for c in corpora for path in (c.source, c.target))),
            outputs=(model,),
            work=Work("train", _visits(config, corpora), stored=sum(corpus.lines for corpus in corpora)),
            config=config,
        )
        self._stages.append(replace(stage, arguments=("train", "--config", str(stage.config_path))))
        return model


def _set_data(values: dict[str, Any], corpora: Sequence[_Corpus], *, is_reverse: bool, is_result: bool) -> None:
    data = values["data"]
    data["monolingual"] = None
    data["train"] = [
        {
            "source": str(corpus.source),
            "target": str(corpus.target),
            "weight": corpus.weight,
            "alignment": None if is_reverse else corpus.alignment,
        }
        for corpus in corpora
    ]
    if not is_result:
        data["test"] = []


def _set_sizes(values: dict[str, Any], sizes: Mapping[str, Any]) -> None:
    for key, value in sizes.items():
        *sections, last = key.split(".")
        place = values
        for section in sections:
            place = place[section]
        place[last] = value


def _turn(values: dict[str, Any]) -> None:
    """Exchange the languages in the values of a configuration."""
    data, pretrained = values["data"], values["model"]["pretrained"]
    values["name"] = f"{values['name']}-reverse"
    data["source_lang"], data["target_lang"] = data["target_lang"], data["source_lang"]
    if data["dev"] is not None:
        data["dev"] = {"source": data["dev"]["target"], "target": data["dev"]["source"]}
    pretrained["source"], pretrained["target"] = pretrained["target"], pretrained["source"]
    values["training"]["init_from"] = None
    if values["scoring"]["tokenize"] != "none":  # another language may need another way to cut words
        values["scoring"]["tokenize"] = None


def _visits(config: Config, corpora: Sequence[_Corpus]) -> float:
    """Return the pairs that a training goes through, if nothing ends it early."""
    an_epoch = sum(corpus.visits for corpus in corpora)
    training = config.training
    pairs_a_step = training.batch_size / (PIECES_A_LINE if training.batch_type == "tokens" else 1)
    limits = [training.max_epochs * an_epoch] if training.max_epochs is not None else []
    limits += [training.max_steps * pairs_a_step] if training.max_steps is not None else []
    return min(limits)


PIECES_A_LINE = 20
"""About how many target pieces a pair has, where only the number of updates is configured."""
