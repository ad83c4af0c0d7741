"""The model card: what a model is, what it was trained on, how good it is, and what it cannot do.

Markdown with the YAML front matter of the usual model hubs (Mitchell et al., "Model Cards for Model Reporting", 2019).
Facts that the model directory does not hold are given as unknown. Paths are shown without their directories, which
belong to the machine of the training.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nmt_cli.data.pairs import LengthLimits
from nmt_cli.export.evaluation_report import REPORT, read_report
from nmt_cli.system.errors import InputError, ModelError
from nmt_cli.system.storage import read_metadata
from nmt_cli.training.checkpoints import MODEL_FILE, read_meta, read_progress

if TYPE_CHECKING:
    from pathlib import Path

    from nmt_cli.config.schema import Config
    from nmt_cli.data.store import CorpusRecord
    from nmt_cli.experiment import Experiment
    from nmt_cli.text.direction import Direction

LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
"""Keys of the metrics in the report of `nmt evaluate`, with their names in the card."""
UNKNOWN = "unknown"
Lines = Iterator[str]


@dataclass(frozen=True, slots=True)
class EvaluationScores:
    """The scores of one test set, from the report of `nmt evaluate`."""

    name: str
    models: tuple[str, ...]
    """Names of the model directories, without the directories above them; several models are an ensemble."""
    checkpoints: tuple[str, ...]
    fingerprints: tuple[str, ...]
    """SHA-256 of each model (`Experiment.fingerprint`); empty for a report of an earlier version."""
    scores: Mapping[str, tuple[float, str]]
    """Score and sacreBLEU signature of each metric, by its key in `LABELS`."""
    files: tuple[str, ...]
    """File names, without directories, of the source and of the references."""
    asked_checkpoint: str
    is_configured: bool
    """False if the configuration does not name this test set, or names it with other files."""
    length_penalty: float | None
    """Length penalty that was chosen on the dev set; None if the default was used."""

    @property
    def command(self) -> str:
        """The shell command `nmt evaluate ...` that computes these scores again."""
        words = ["nmt", "evaluate", *(word for model in self.models for word in ("--model", model))]
        words += ["--checkpoint", self.asked_checkpoint] if self.asked_checkpoint != "best" else []
        if self.is_configured:
            words += ["--only", self.name]
        else:
            words += ["--source", *self.files[:1]]
            words += [word for reference in self.files[1:] for word in ("--reference", reference)]
        return shlex.join(words + ([] if self.length_penalty is None else ["--tune-length-penalty"]))


def card(experiments: Sequence[Experiment], checkpoint: str = "best") -> str:
    """Return the model card, in Markdown with front matter, of one model or several.

    Raises:
        InputError: there is no such model or checkpoint.
    """
    described = [_Model(experiment, checkpoint) for experiment in experiments]
    from nmt_cli.config.yaml_text import dump_yaml

    text = "\n".join(line for model in described for line in model.lines())
    return f"---\n{dump_yaml(_front_matter(described))}---\n\n{text}"


def escape_markdown(text: str) -> str:
    """Return a text on one line and escaped, so that Markdown shows it as it is, also in a cell of a table."""
    one_line = re.sub(r"[\s\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text)
    return re.sub(r"([\\`*\[\]<>|&#~$])|(?<!\w)_|_(?!\w)", lambda found: f"\\{found[0]}", one_line)


def _front_matter(models: Sequence[_Model]) -> dict[str, Any]:
    """Return the keys and values of the front matter of a card, by which model hubs search."""
    configs = [model.config for model in models]
    languages = dict.fromkeys(language for config in configs for language in config.data.languages)
    licences = {config.data.licence for config in configs}
    licence = licences.pop() if len(licences) == 1 else None
    datasets = dict.fromkeys(name for model in models for name in model.datasets())
    results = [
        {
            "name": model.config.name,
            "results": [model.result(measured) for measured in model.measured if model.is_of_this_model(measured)],
        }
        for model in models
    ]
    has_attention = any(config.model.attention.type != "none" for config in configs)
    return {
        "language": list(languages),
        "license": _licence_name(licence) if licence else UNKNOWN,
        "tags": ["translation", "rnn", *(["attention"] if has_attention else []), "nmt"],
        "pipeline_tag": "translation",
        "library_name": "nmt-cli",
        "datasets": list(datasets),
        "metrics": list(LABELS),
        "model-index": [entry for entry in results if entry["results"]],
    }


def _licence_name(licence: str) -> str:
    """Return the name by which hubs know a licence: `cc-by-2.0` for `CC-BY 2.0 (France) Attribution: tatoeba.org`."""
    common = re.match(r"CC[- ](BY(?:-(?:NC|SA|ND))*)[- ](\d\.\d)\b", licence, flags=re.IGNORECASE)
    return f"cc-{common[1]}-{common[2]}".lower() if common else licence.lower()


def _dataset(corpus: Any) -> str:
    """Return the name that the two files of a corpus have in common, or both names."""
    names = [PurePath(path).name.removesuffix(".gz") for path in (corpus.source, corpus.target)]
    stems = [name.rpartition(".")[0] or name for name in names]
    return stems[0] if stems[0] == stems[1] else " ".join(names)


def _direction_text(direction: Direction) -> str:
    """Return a direction in words, escaped for Markdown: `from de to en`."""
    return f"from {escape_markdown(direction.source)} to {escape_markdown(direction.target)}"


class _Model:
    """One model and the sections of its card."""

    def __init__(self, experiment: Experiment, checkpoint: str) -> None:
        from nmt_cli.improve.record import Provenance

        self.experiment = experiment
        self.config: Config = experiment.config
        self.tokenizers = experiment.tokenizers
        self.checkpoint = experiment.checkpoints.resolve(checkpoint)
        self.meta = read_meta(self.checkpoint, experiment.fingerprints)
        self.fingerprint = experiment.fingerprint(self.checkpoint.name)
        read_metadata(self.checkpoint / MODEL_FILE)  # refuses a file that is cut off
        made_by = Provenance(experiment.improvement_path)
        is_improved = made_by.path.is_file()
        self.improved_from = made_by.texts() if is_improved else None
        """Path, SHA-256 and number of lines of each text that `nmt improve` was given; None if it did not make the
        model. The configuration does not name these texts."""
        self.reverse = made_by.reverse if is_improved else None
        """Directory of another model that translated text for `nmt improve`; None if there was none."""
        self.measured = [
            # The directory may have been renamed since.
            replace(measured, models=(experiment.name,)) if self.is_of_this_model(measured) else measured
            for measured in _read_scores(experiment)
        ]

    def is_of_this_model(self, measured: EvaluationScores) -> bool:
        """Return True if these scores were measured with this model's checkpoint alone, not with an ensemble."""
        if measured.fingerprints:
            return measured.fingerprints == (self.fingerprint,)
        return (measured.models, measured.checkpoints) == ((self.experiment.name,), (self.checkpoint.name,))

    def datasets(self) -> list[str]:
        """Return the name of each training corpus: the stem that its two files share, else both file names.

        For a model made by `nmt improve` they are the stems of the texts that it was given.
        """
        if self.improved_from is None:
            return [_dataset(corpus) for corpus in self.config.data.train]
        names = (PurePath(path).name.removesuffix(".gz") for path, _, _ in self.improved_from)
        return list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))

    def result(self, measured: EvaluationScores) -> dict[str, Any]:
        """Return the scores of a test set as an entry of `model-index` in the front matter."""
        data = self.config.data
        of_test = (data.direction_of(test) for test in data.test if test.name == measured.name)
        direction = next(of_test, data.directions[0])
        chosen = {} if measured.length_penalty is None else {"length_penalty": measured.length_penalty}
        return {
            "task": {"type": "translation", "name": f"Translation {direction}"},
            "dataset": {"name": measured.name, "type": measured.name},
            "metrics": [
                {
                    "type": metric,
                    "name": LABELS[metric],
                    "value": round(score, 2),
                    "args": {"signature": signature, **chosen},
                }
                for metric, (score, signature) in measured.scores.items()
            ],
        }

    def lines(self) -> Lines:
        """Yield the lines of the card, without the front matter."""
        data = self.config.data
        yield f"# {escape_markdown(self.config.name)}"
        yield ""
        yield (
            f"Translates {' and '.join(_direction_text(one) for one in data.directions)}: a recurrent encoder-decoder "
            f"{'without' if self.config.model.attention.type == 'none' else 'with'} attention, trained with nmt "
            f"{escape_markdown(str(self.meta.get('nmt', f'(version {UNKNOWN})')))}."
        )
        for section in (self._training_data, self._model, self._scores, self._decoding, self._limits):
            yield ""
            yield from section()
        yield ""

    def _training_data(self) -> Lines:
        data = self.config.data
        known = self._corpus_records()
        yield "## Training data"
        yield ""
        yield f"Licence, as the configuration states it: {escape_markdown(data.licence) if data.licence else UNKNOWN}."
        if data.licence:
            yield "The front matter passes it on; a model may be under another licence than its data."
        yield ""
        if self.improved_from is not None:
            yield from self._improvement_inputs(self.improved_from)
            return
        yield "| file | lines | used | weight | SHA-256 |"
        yield "|---|---|---|---|---|"
        for corpus in data.train:
            record = known.get(f"{corpus.source} | {corpus.target}")
            digests = record.digests if record is not None else ()
            for place, path in enumerate((corpus.source, corpus.target)):
                digest = f"`{digests[place]}`" if place < len(digests) else UNKNOWN
                counts = (
                    (f"{record.report.read:,}", f"{record.report.kept:,}") if record is not None else (UNKNOWN,) * 2
                )
                name = escape_markdown(PurePath(path).name)
                yield f"| {name} | {' | '.join(counts)} | {corpus.weight:g} | {digest} |"
        left_out = {reason for record in known.values() for reason in record.report.left_out}
        if left_out:
            yield ""
            yield f"Pairs were left out that are {escape_markdown(', '.join(sorted(left_out)))}."
        yield ""
        dev = ", ".join(escape_markdown(PurePath(text.source).name) for text in data.dev_sets)
        yield f"Dev set, by which checkpoints were chosen: {dev or 'none'}."
        if self.config.training.init_from:
            yield ""
            origin = escape_markdown(PurePath(self.config.training.init_from).name)
            yield f"Training went on from another model, {origin}."

    def _corpus_records(self) -> dict[str, CorpusRecord]:
        """Return the cache's records of the training corpora, by name.

        Records of earlier attempts are left out only if they and the checkpoint have digests of their texts.
        """
        from nmt_cli.data.store import records

        try:
            training_digests = str(read_progress(self.checkpoint).get("text", "")).split()
        except ModelError:  # as of an average
            training_digests = []
        data = self.config.data
        return {
            record.name: record
            for record in records(
                self.experiment.cache_path,
                [tokenizer.fingerprint for tokenizer in self.tokenizers],
                LengthLimits(data.max_length, data.max_length_ratio, data.invalid_utf8),
            )
            if not training_digests or all(digest[:16] in training_digests for digest in record.digests)
        }

    def _improvement_inputs(self, texts: Sequence[tuple[str, str, int | None]]) -> Lines:
        others = f"the model `{escape_markdown(PurePath(self.reverse).name)}`" if self.reverse else "models of its own"
        yield f"`nmt improve` made the model from these files, and from what {others} translated of them."
        yield "So a part of the text that it learned from was written by machines. `nmt inspect` prints each stage."
        yield ""
        yield "| file | lines | SHA-256 |"
        yield "|---|---|---|"
        for path, digest, lines in texts:
            count = UNKNOWN if lines is None else f"{lines:,}"
            yield f"| {escape_markdown(PurePath(path).name)} | {count} | `{digest}` |"

    def _model(self) -> Lines:
        from nmt_cli.config.architecture import architecture

        tokenizer = self.config.tokenizer
        shapes: Mapping[str, Sequence[int]] = self.meta["shapes"]
        size = (self.checkpoint / "model.safetensors").stat().st_size
        different = {one.fingerprint: one for one in self.tokenizers}
        shared = "both" if len(self.config.data.languages) <= 2 else "all"
        rows = {
            "parameters": f"{sum(math.prod(shape) for shape in shapes.values()):,}",
            "size of the weights": f"{size / 1e6:,.1f} MB in float32",
            **architecture(self.config.model),
            "vocabulary": f"SentencePiece {tokenizer.model_type}, "
            + " and ".join(f"{one.vocab_size:,}" for one in different.values())
            + f" pieces{'' if len(different) > 1 else f', shared by {shared} languages'}",
            "normalisation of text": tokenizer.normalization,
            "checkpoint": self.checkpoint.name,
            "epochs trained": _epochs(self.checkpoint),
            "seed": str(self.config.seed),
        }
        yield "## Model"
        yield ""
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {name} | {escape_markdown(value)} |" for name, value in rows.items())

    def _scores(self) -> Lines:
        yield "## Scores"
        yield ""
        metrics = {name: value for name, value in self.meta["metrics"].items() if isinstance(value, (int, float))}
        shown = ", ".join(f"{escape_markdown(name)} {value:.2f}" for name, value in metrics.items())
        yield f"On the dev set, of this checkpoint: {shown or UNKNOWN}."
        yield ""
        if not self.measured:
            yield f"On test sets: {UNKNOWN}. `nmt evaluate` measures them."
            return
        yield "On test sets, with the decoding defaults in float32, unless something else is said:"
        for measured in self.measured:
            of_other = "" if self.is_of_this_model(measured) else ", which is not this checkpoint alone"
            made_by = ", ".join(
                f"{model} {checkpoint}"
                for model, checkpoint in zip(measured.models, measured.checkpoints or (UNKNOWN,) * 9, strict=False)
            )
            yield ""
            yield f"### {escape_markdown(measured.name)}"
            yield ""
            with_penalty = (
                "" if (chosen := measured.length_penalty) is None
                else f", with the length penalty {chosen:g}, which was chosen on the dev set"
            )  # fmt: skip
            yield f"By {escape_markdown(made_by)}{of_other}{with_penalty}:"
            yield ""
            yield "| metric | score | signature |"
            yield "|---|---|---|"
            for metric, (score, signature) in measured.scores.items():
                yield f"| {LABELS[metric]} | {score:.2f} | {escape_markdown(signature)} |"
            yield ""
            yield from _code(measured.command)

    def _decoding(self) -> Lines:
        yield "## Decoding defaults"
        yield ""
        yield "| | |"
        yield "|---|---|"
        for name, value in self.config.decoding.model_dump().items():
            yield f"| `{name}` | {value:g} |" if isinstance(value, float) else f"| `{name}` | {value} |"

    def _limits(self) -> Lines:
        decoding = self.config.decoding
        yield "## Limits"
        yield ""
        yield "- Each line is translated by itself. The model does not see the other lines."
        yield f"- A line of more than {decoding.max_source_pieces} pieces is cut into parts, each translated by itself."
        yield (
            f"- A translation has at most {decoding.max_length_a:g} times the pieces of its source plus "
            f"{decoding.max_length_b}."
        )
        yield "- The model can leave out, add or change meaning and still sound fluent. Check what matters."
        yield "- Texts unlike the training data are translated worse. Only a test set of such texts tells how much."
        yield "- Biases of the training data are biases of the model. They have not been studied."


def _read_scores(experiment: Experiment) -> list[EvaluationScores]:
    """Return the scores of each test set in the report of `nmt evaluate`; an empty list if there is none to read."""
    try:
        entries = read_report(experiment.reports_path / REPORT)
    except InputError:
        return []
    configured = {test.name: [test.source, test.target] for test in experiment.config.data.test}
    return [
        EvaluationScores(
            name=name,
            models=tuple(PurePath(path).name or path for path in _strings(entry.get("models"))),
            checkpoints=tuple(_strings(entry.get("checkpoints"))),
            fingerprints=tuple(_strings(entry.get("fingerprints"))),
            scores={metric: score for metric in LABELS if (score := _score(entry.get(metric))) is not None},
            files=tuple(PurePath(path).name for path in _entry_paths(entry)),
            asked_checkpoint=entry["checkpoint"] if isinstance(entry.get("checkpoint"), str) else "best",
            is_configured=name in configured and _entry_paths(entry) in (configured[name], []),
            length_penalty=_chosen_length_penalty(entry),
        )
        for name, entry in entries.items()
    ]


def _entry_paths(entry: Mapping[str, Any]) -> list[str]:
    """Return the paths of source and references in a report's entry; empty in a report of an earlier version."""
    return [*_strings([entry.get("source")]), *_strings(entry.get("references"))]


def _chosen_length_penalty(entry: Mapping[str, Any]) -> float | None:
    chosen = entry["length_penalty"].get("chosen") if isinstance(entry.get("length_penalty"), dict) else None
    return float(chosen) if isinstance(chosen, (int, float)) else None


def _strings(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _score(value: Any) -> tuple[float, str] | None:
    if not isinstance(value, dict) or not isinstance(value.get("score"), (int, float)):
        return None
    return float(value["score"]), str(value.get("signature", UNKNOWN))


def _epochs(checkpoint: Path) -> str:
    """Return the number of epochs after which a checkpoint was written; `unknown` for an average of checkpoints."""

    try:
        epochs = read_progress(checkpoint).get("epochs_done")
    except ModelError:
        return UNKNOWN
    return f"{round(epochs, 2):g}" if isinstance(epochs, float) else UNKNOWN


def _code(text: str) -> Lines:
    """Yield the lines of a block of code in Markdown, with a fence that no run of backquotes in the text can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}sh"
    yield re.sub(r"[\r\n\x85\u2028\u2029]", " ", text)
    yield fence
