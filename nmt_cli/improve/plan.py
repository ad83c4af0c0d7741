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

from nmt_cli.config.schema import Config, TextPair
from nmt_cli.corpora.filter_pairs import cleaned_paths
from nmt_cli.data.sampler import temperature_weights
from nmt_cli.improve.stages import STAGES, Stage, StageWork
from nmt_cli.improve.training import Corpus, input_paths, num_training_pairs, training_config
from nmt_cli.text.direction import Direction

TAG = "<BT>"
"""Tag that begins each back-translated source sentence (Caswell et al., 2019)."""
MIN_SAMPLING_PAIRS = 500_000
"""Number of pairs from which on sampled translations teach more than the best ones (Edunov et al., 2018, figure 4)."""

FEWEST_LINES = 2
"""The fewest lines of each translated corpus in an epoch. Training refuses a corpus of which no line is left, and
leaves out some lines for their length."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of `nmt improve` that decide which stages there are and which models they make."""

    rounds: int = 1
    ensemble: int = 1
    distil: bool = False
    ratio: float = 2.0
    """Lines of translated text in each epoch, as a multiple of the pairs; at most all lines."""
    beam_size: int = 5
    """Beam size for translations that a later stage learns from."""
    sample: bool | None = None
    """True to sample the translations to learn from instead of searching them; None decides by the number of pairs."""
    int8: bool = True
    """True to translate in int8, which only CPUs can."""
    resizes: bool = True
    """True to give a training on pairs and translated text larger sizes, if the configured ones are the usual ones for
    the pairs alone."""
    reverse: str | None = None
    """Absolute path of a model of the reverse directions, which translates back in the first round."""


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Number of lines of each file: of the pairs, and of the text in the target and in the source language."""

    pairs: tuple[int, ...]
    target: tuple[int, ...] = ()
    source: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Text:
    """A text in one language: a file that a stage makes, or one of the user's."""

    path: Path
    lines: int
    language: str


def plan(
    config: Config,
    recipe: Recipe,
    line_counts: LineCounts,
    directory: Path,
    sizes: Mapping[str, Any] | None = None,
    output_line_counts: Mapping[Path, int] | None = None,
) -> list[Stage]:
    """Return the stages that lead from a configuration with absolute paths to the last model, in order.

    `sizes` are dotted keys with the values for trainings on the pairs and the translated text together.
    `output_line_counts` has the numbers of lines of the texts that stages have made so far. It changes no command, but
    the weights and lengths of trainings; for a text that is not made yet they follow from the lines before cleaning.
    """
    return _Planner(config, recipe, line_counts, directory, sizes or {}, output_line_counts or {}).stages()


def has_reverse_directions(directions: Sequence[Direction]) -> bool:
    """Return whether a model has each of its directions both ways, so that it can translate back by itself."""
    return len(directions) > 1 and {direction.reverse_direction for direction in directions} == set(directions)


def final_models(stages: Sequence[Stage]) -> list[Path]:
    """Return the models of the last training stage, or stages for an ensemble; the best one becomes the result."""
    return [stage.outputs[0] for stage in stages if stage.config is not None and stage.purpose == stages[-1].purpose]


class _Planner:
    """Builds the list of stages; its methods append stages and return the texts or models that these will make."""

    def __init__(
        self,
        config: Config,
        recipe: Recipe,
        line_counts: LineCounts,
        directory: Path,
        sizes: Mapping[str, Any],
        output_line_counts: Mapping[Path, int],
    ) -> None:
        self._config, self._recipe, self._sizes = config, recipe, sizes
        self._line_counts, self._output_line_counts = line_counts, output_line_counts
        self._directory = directory / STAGES
        self._stages: list[Stage] = []
        sample = recipe.sample
        self._samples = sum(line_counts.pairs) >= MIN_SAMPLING_PAIRS if sample is None else sample
        self._directions = config.data.directions
        self._is_own_reverse = has_reverse_directions(self._directions)
        # A training that goes out from another run keeps its tokenizer only if that needs no other symbols.
        self._tag = TAG if config.training.init_from is None else None

    def stages(self) -> list[Stage]:
        pairs = self._clean_pairs()
        targets, sources = self._clean_text("target"), self._clean_text("source")
        if self._is_own_reverse:  # all text is in a target language
            targets, sources = [*targets, *sources], []
        forward: list[Path] = []
        if self._is_own_reverse or (sources and not self._recipe.reverse):
            forward = [self._train("forward", "a first model", pairs, [])]
        synthetic: list[Corpus] = []
        for number in range(1, self._recipe.rounds + 1):
            is_last = number == self._recipe.rounds
            if targets:
                synthetic = self._translate_back(number, pairs, targets, sources, forward)
            else:
                purpose = f"round {number}: teach itself"
                synthetic = self._translate_and_clean(pairs, sources, forward, "self", "target", purpose, tag=None)
            members = self._recipe.ensemble if is_last else 1
            purpose = f"round {number}: train on both" if members == 1 else f"round {number}: train an ensemble"
            is_result = is_last and not self._recipe.distil
            forward = [
                self._train("forward", purpose, pairs, synthetic, member=member, is_result=is_result)
                for member in range(members)
            ]
        if self._recipe.distil:
            self._distil(pairs, synthetic if targets else [], sources, forward)
        return self._stages

    # Text ---------------------------------------------------------------------------------------------------------

    def _clean_pairs(self) -> list[Corpus]:
        data, found = self._config.data, []
        for corpus, lines in zip(data.train, self._line_counts.pairs, strict=True):
            source, target = Path(corpus.source), Path(corpus.target)
            if corpus.alignment is None:  # else its links would belong to other lines
                source, target = self._clean(
                    "pairs", "leave out wrong pairs", (source, target), lines, ("--keep", "markup")
                )
            direction, kept = data.direction_of(corpus), self._lines(target, lines)
            found.append(Corpus(source, target, kept, corpus.weight, direction, corpus.alignment))
        factors = temperature_weights([corpus.lines for corpus in found], data.corpus_temperature)
        return [
            corpus if factor == 1.0 else replace(corpus, weight=_rounded_weight(factor * corpus.weight))
            for factor, corpus in zip(factors, found, strict=True)
        ]

    def _clean_text(self, side: str) -> list[_Text]:
        """Add stages that clean the monolingual text of a side, source or target; return the cleaned texts.

        No line of the dev and test sets, of the pairs, or of an earlier file stays.
        """
        data = self._config.data
        known = [*data.dev_sets, *data.test, *data.train]
        found: list[_Text] = []
        for (path, language), lines in zip(data.monolingual_files(side), getattr(self._line_counts, side), strict=True):
            without = [Path(one) for pair in known for one in _texts_in(language, pair, data.direction_of(pair))]
            others = [*without, *(text.path for text in found if text.language == language)]
            options = [word for other in dict.fromkeys(others) for word in ("--without", str(other))]
            purpose = f"clean text in the {side} language"
            (cleaned,) = self._clean("text", purpose, (Path(path),), lines, options, extra_inputs=others)
            found.append(_Text(cleaned, self._lines(cleaned, lines), language))
        return found

    def _clean(
        self,
        name: str,
        purpose: str,
        texts: tuple[Path, ...],
        lines: int,
        options: Sequence[str],
        extra_inputs: Sequence[Path] = (),
    ) -> tuple[Path, ...]:
        directory = self._next_directory(name)
        prefix = str(directory / name)
        made = cleaned_paths([str(path) for path in texts], prefix)
        self._stages.append(
            Stage(
                directory,
                purpose,
                ("clean", *map(str, texts), "-o", prefix, *options),
                inputs=tuple(dict.fromkeys((*texts, *extra_inputs))),
                outputs=tuple(made),
                work=StageWork("clean", lines, stored_lines=lines * len(texts)),
            )
        )
        return tuple(made[:-1])

    def _lines(self, path: Path, before: int) -> int:
        """Return the number of lines of a cleaned text; if it is not made yet, `before`, the number before cleaning."""
        return self._output_line_counts.get(path, before)

    def _next_directory(self, name: str) -> Path:
        return self._directory / f"{len(self._stages) + 1:02d}-{name}"

    # Translation --------------------------------------------------------------------------------------------------

    def _translate_back(
        self, number: int, pairs: list[Corpus], targets: list[_Text], sources: list[_Text], forward: list[Path]
    ) -> list[Corpus]:
        """Add the stages that translate the target text into the source language; return the pairs that they will make.

        A model that has each direction both ways translates the text itself. Otherwise, the model in `Recipe.reverse`
        does it in the first round, and else a model that is trained on the pairs and on translations by `forward`.
        """
        begin = f"round {number}: "
        back = f"{begin}translate the target text back"
        reverse_models = [Path(self._recipe.reverse)] if self._recipe.reverse and number == 1 else []
        if models := forward if self._is_own_reverse else reverse_models:
            return self._translate_and_clean(pairs, targets, models, "back", "source", back, tag=self._tag)
        taught: list[Corpus] = []
        if forward:
            # From the second round on the model knows more than the pairs, so that these too are worth translating.
            again = _sources(pairs) if number > 1 else []
            purpose = f"{begin}translate for the reverse"
            taught = self._translate_and_clean(
                pairs, [*sources, *again], forward, "forth", "target", purpose, tag=self._tag, is_reverse=True
            )
        reverse = self._train("reverse", f"{begin}train the reverse direction", pairs, taught, is_reverse=True)
        return self._translate_and_clean(pairs, targets, [reverse], "back", "source", back, tag=self._tag)

    def _translate_and_clean(
        self,
        pairs: list[Corpus],
        texts: list[_Text],
        models: list[Path],
        name: str,
        side: str,
        purpose: str,
        *,
        tag: str | None,
        is_reverse: bool = False,
    ) -> list[Corpus]:
        """Add stages that translate texts and clean the pairs; return the pairs with weights by `Recipe.ratio`.

        `side` is the side of the model's directions, source or target, into whose language is translated. With
        `is_reverse` the pairs are for the reverse direction, with the translation as source.
        """
        is_source = side == "source" or is_reverse
        corpora = []
        for text in texts:
            for direction in self._directions:
                model_direction = direction.reverse_direction if side == "source" else direction
                if model_direction.source != text.language:
                    continue
                made = self._translate(name, purpose, text, models, model_direction)
                both = (made, text.path) if is_source else (text.path, made)
                options = ["--keep", "markup", *(("--tag", tag) if tag else ())]
                source, target = self._clean(name, f"{purpose}: leave out bad ones", both, text.lines, options)
                corpora.append(Corpus(source, target, self._lines(target, text.lines), 1.0, direction))
        weighted = self._with_weights(pairs, corpora)
        return [replace(one, direction=one.direction.reverse_direction) for one in weighted] if is_reverse else weighted

    def _translate(
        self,
        name: str,
        purpose: str,
        text: _Text,
        models: list[Path],
        direction: Direction,
        *,
        is_teacher: bool = False,
    ) -> Path:
        """Add the stage that translates a text in `direction` by one model or an ensemble, and return its output file.

        With `is_teacher`, the stage never samples, and its beam size is that of the configuration.
        """
        directory = self._next_directory(f"{name}-translate" if name in ("back", "forth", "self") else name)
        output = directory / f"translated.{direction.target}"
        training, recipe = self._config.training, self._recipe
        samples = self._samples and not is_teacher
        beam = self._config.decoding.beam_size if is_teacher else recipe.beam_size
        options = ["--sample", "--seed", str(self._config.seed)] if samples else ["--beam-size", str(beam)]
        if self._config.tokenizer.model_type == "word":  # else a model would learn to write the sign of unknown words
            options.append("--copy-unknown")
        options += ["--precision", "int8"] if recipe.int8 else []
        options += ["--device", "cpu" if recipe.int8 else training.device]
        options += ["--threads", str(training.threads)] if training.threads else []
        reverse = self._recipe.reverse
        if len(self._directions) > 1 or (reverse is not None and Path(reverse) in models):
            options += direction.options  # the given model may have more directions
        named = [word for model in models for word in ("--model", str(model))]
        num_rows = (1 if samples else beam) * len(models)
        self._stages.append(
            Stage(
                directory,
                purpose,
                ("translate", str(text.path), *named, "-o", str(output), *options),
                inputs=(text.path, *models),
                outputs=(output,),
                work=StageWork("translate", text.lines, stored_lines=text.lines, rows=num_rows),
            )
        )
        return output

    def _with_weights(self, pairs: list[Corpus], corpora: list[Corpus]) -> list[Corpus]:
        """Return the translated corpora with weights: in each direction, an epoch has `Recipe.ratio` times as many of
        their lines as pairs, but no line twice. A much smaller corpus gets a higher weight, so that it has lines."""

        def weight(corpus: Corpus) -> float:
            wanted = self._recipe.ratio * sum(
                pair.pairs_per_epoch for pair in pairs if pair.direction == corpus.direction
            )
            usual = wanted / max(1, sum(other.lines for other in corpora if other.direction == corpus.direction))
            return min(1.0, max(usual, FEWEST_LINES / max(1, corpus.lines)))

        return [replace(corpus, weight=_rounded_weight(weight(corpus))) for corpus in corpora]

    # Training -----------------------------------------------------------------------------------------------------

    def _distil(self, pairs: list[Corpus], synthetic: list[Corpus], sources: list[_Text], teachers: list[Path]) -> None:
        """Add stages that train a model on the teachers' translations of all source text and on `synthetic`."""
        purpose = "distil: translate by the teachers"
        taught = []
        for pair, text in zip(pairs, _sources(pairs), strict=True):
            output = self._translate("teach", purpose, text, teachers, pair.direction, is_teacher=True)
            taught.append(Corpus(pair.source, output, pair.lines, pair.weight, pair.direction))
        more = []
        for text in sources:
            for direction in self._directions:
                if direction.source == text.language:
                    output = self._translate("teach", purpose, text, teachers, direction, is_teacher=True)
                    more.append(Corpus(text.path, output, text.lines, 1.0, direction))
        more = self._with_weights(pairs, more)
        self._train("student", "distil: train one model", taught, [*synthetic, *more], is_result=True)

    def _train(
        self,
        name: str,
        purpose: str,
        pairs: list[Corpus],
        synthetic: list[Corpus],
        *,
        member: int = 0,
        is_reverse: bool = False,
        is_result: bool = False,
    ) -> Path:
        directory = self._next_directory(name)
        model = directory / "model"
        corpora = [*((pair.exchanged() for pair in pairs) if is_reverse else pairs), *synthetic]
        # The configuration counts its updates for the pairs as they were given.
        given = zip(self._config.data.train, self._line_counts.pairs, strict=True)
        usual = sum(corpus.weight * lines for corpus, lines in given)
        factor = sum(corpus.pairs_per_epoch for corpus in corpora) / max(1.0, usual)
        config = training_config(
            self._config,
            corpora,
            model=model,
            seed=self._config.seed + member,
            factor=factor,
            symbols=[self._tag] if self._tag and synthetic else [],
            sizes={} if is_reverse or not synthetic else self._sizes,
            is_reverse=is_reverse,
            is_result=is_result,
        )
        stage = Stage(
            directory,
            purpose,
            (),
            inputs=input_paths(config),
            outputs=(model,),
            work=StageWork(
                "train", num_training_pairs(config, corpora), stored_lines=sum(corpus.lines for corpus in corpora)
            ),
            config=config,
        )
        self._stages.append(replace(stage, arguments=("train", "--config", str(stage.config_path))))
        return model


def _sources(pairs: Sequence[Corpus]) -> list[_Text]:
    """Return the source sides of pairs as texts."""
    return [_Text(pair.source, pair.lines, pair.direction.source) for pair in pairs]


def _texts_in(language: str, pair: TextPair, direction: Direction) -> list[str]:
    """Return the files of a pair that are in a language; `direction` is that of the pair."""
    return [path for path, own in zip((pair.source, pair.target), direction, strict=True) if own == language]


def _rounded_weight(weight: float) -> float:
    """Return a weight rounded to three significant digits, as a person would type it."""
    return float(f"{weight:.3g}")
