"""The evaluation of models: translations and scores of test sets, and the report that `nmt card` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.file_checks import read_parallel, refuse_overwriting, refuse_overwriting_data
from nmt_cli.assembly.model_options import named_models
from nmt_cli.assembly.translation_pool import open_pool
from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask
from nmt_cli.data.lines import is_standard_input
from nmt_cli.data.output import check_writable, open_output
from nmt_cli.export.evaluation_report import REPORT, read_report
from nmt_cli.scoring import check_tokenizer, score_corpus
from nmt_cli.system.console import Progress, log
from nmt_cli.system.errors import InputError
from nmt_cli.translation.counts import Counts

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.config.schema import Config, ScoringConfig
    from nmt_cli.experiment import Experiment
    from nmt_cli.scoring import Score
    from nmt_cli.translation.line_tasks import LinePool

LENGTH_PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
"""Values of alpha in the length penalty ((5+n)/6)^alpha that are tried on the dev set."""


@dataclass(frozen=True, slots=True)
class _TestSet:
    """A source text and its references; `files` names the source first."""

    name: str
    files: tuple[str, ...]
    source: list[str]
    references: list[list[str]]

    @classmethod
    def read(cls, name: str, *files: str) -> _TestSet:
        """Read the files, the source first; `InputError` if one cannot be read or they differ in length."""
        source, *references = read_parallel(files)
        return cls(name, files, source, references)


def evaluate_models(
    models: ModelOptions,
    source: str | None,
    references: Sequence[str],
    *,
    only: Sequence[str] = (),
    directory: Path | None = None,
    tunes_length_penalty: bool = False,
) -> None:
    """Translate and score test sets, and write the translations and a report of the scores.

    Args:
        models: one model or an ensemble, whose first configuration names the test sets.
        source: a text to translate and score instead of these test sets, or None.
        references: the reference translations of `source`.
        only: the names of the test sets to score; if there are none, all are.
        directory: for the translations and the report; None means the reports directory of the first model.
        tunes_length_penalty: use the length penalty that is best on the dev set instead of the configured one.

    Raises:
        InputError: a file or a model cannot be read, there is no such set, or an output would replace a file that is
            read or that no evaluation has made.
    """
    _check_source_and_references(source, references)
    if source is not None and only:
        raise InputError("--only chooses among the configured test sets; leave it out with --source")
    if source is None and len(parts := models.of_each_direction()) > 1:
        _evaluate_each(parts, only, directory, tunes_length_penalty=tunes_length_penalty)
        return
    experiments = models.experiments()
    config = experiments[0].config
    check_tokenizer(config.scoring.tokenize, "scoring.tokenize")
    dev = _dev_set(experiments[0], "--tune-length-penalty") if tunes_length_penalty else None
    sets = _configured_sets(experiments[0], only) if source is None else [_given_set(source, references, config)]
    conditions: dict[str, Any] = {}
    with ExitStack() as opened:
        # A training may choose another checkpoint meanwhile.
        while conditions != (identity := _model_identity(experiments, models.checkpoint)):
            opened.close()
            task, decoding = TranslationTask(file=None, output=None), DecodingOverrides()
            pool = opened.enter_context(open_pool("lines", task, experiments, models, decoding))
            conditions = identity
        reports = directory or experiments[0].reports_path
        _make_directory(reports, sets, experiments, is_own=directory is None)
        overrides: dict[str, Any] = {}
        if dev is not None:
            conditions["length_penalty"] = _tune_length_penalty(pool, dev, config)
            overrides = {"length_penalty": conditions["length_penalty"]["chosen"]}
        for test in sets:
            _score_set(pool, test, reports, conditions, config, overrides)
    log(f"translations and {REPORT} -> {reports}")


def _evaluate_each(
    parts: Sequence[ModelOptions], only: Sequence[str], directory: Path | None, *, tunes_length_penalty: bool
) -> None:
    """Evaluate each direction of the models that has a test set, or one named in `only`; `parts` has one per direction.

    Raises:
        InputError: no direction has a test set, or none of this name.
    """
    _configured_sets(named_models(parts[0].directories)[0], only)  # or they are refused
    for part in parts:
        names = [test.name for test in part.experiments()[0].config.data.test if test.name in only or not only]
        if names:
            evaluate_models(part, None, (), only=names, directory=directory, tunes_length_penalty=tunes_length_penalty)


def calibrate_confidence(models: ModelOptions, source: str | None, references: Sequence[str]) -> None:
    """Fit the confidence of a model to a text with one reference, or to its dev set, and print how good it is.

    Raises:
        InputError: several models or references are given, or a file cannot be read.
    """
    _check_source_and_references(source, references)
    if source is None and len(parts := models.of_each_direction()) > 1:
        for part in parts:
            calibrate_confidence(part, None, ())
        return
    experiments = models.experiments()
    if len(experiments) > 1 or len(references) > 1:
        raise InputError("--calibrate: fits one model to one reference; give one --model and one --reference")
    experiment = experiments[0]
    text = _dev_set(experiment, "--calibrate") if source is None else _TestSet.read("", source, *references)
    refuse_overwriting_data(experiment.confidence_path, text.files, [experiment])
    from nmt_cli.assembly.confidence import calibrate

    found = calibrate(
        experiment,
        text.source,
        text.references[0],
        checkpoint=models.checkpoint,
        device=models.device,
        threads=models.threads,
    )
    of_direction = "" if experiment.direction is None else f" of {experiment.direction}"
    print(f"confidence{of_direction}: {found.summary()}", flush=True)
    log(f"the calibration -> {experiment.confidence_path}")


def _check_source_and_references(source: str | None, references: Sequence[str]) -> None:
    """Refuse a source without references, and references without a source."""
    if (source is None) != (not references):
        raise InputError("--source and --reference belong together: give both, or neither")


def _dev_set(experiment: Experiment, option: str) -> _TestSet:
    """Return the dev set of a run, all its texts as one; `InputError` names the option if there is none."""
    dev = experiment.config.data.dev_sets
    if not dev:
        way_out = "give --source and --reference" if option == "--calibrate" else f"leave out {option}"
        raise InputError(f"{experiment.config_path}: names no dev set, which {option} needs; {way_out}")
    sets = [_TestSet.read("dev", text.source, text.target) for text in dev]
    files = tuple(path for one in sets for path in one.files)
    references = [line for one in sets for line in one.references[0]]
    return _TestSet("dev", files, [line for one in sets for line in one.source], [references])


def _configured_sets(experiment: Experiment, only: Sequence[str]) -> list[_TestSet]:
    """Return the configured test sets, or those named in `only`; `InputError` if there is none or a name is unknown."""
    sets = {test.name: test for test in experiment.config.data.test}
    if not sets:
        raise InputError(
            f"{experiment.config_path}: names no test set; give --source FILE and --reference FILE, or add data.test "
            "to the configuration and run `nmt train` again"
        )
    if unknown := [name for name in only if name not in sets]:
        raise InputError(f"{experiment.config_path}: no test set {', '.join(unknown)}; there are: {', '.join(sets)}")
    return [_TestSet.read(name, sets[name].source, sets[name].target) for name in dict.fromkeys(only or sets)]


def _given_set(source: str, references: Sequence[str], config: Config) -> _TestSet:
    """Read a test set that the configuration does not name.

    The set gets the name of its file with a digest of its text, so that it replaces no other set in a report.
    """
    files = [os.path.abspath(path) if path and not is_standard_input(path) else path for path in (source, *references)]
    test = _TestSet.read("", *files)
    stem = Path(next(path for path in files if not is_standard_input(path))).name
    for ending in (".gz", ".txt", f".{config.data.direction.source}", f".{config.data.direction.target}"):
        stem = stem.removesuffix(ending)
    digest = sha256(json.dumps([test.source, *test.references]).encode()).hexdigest()
    return replace(test, name=f"{stem or 'text'}-{digest[:8]}")


def _output_path(directory: Path, test: _TestSet, config: Config) -> Path:
    """Return the file of the translations of a set."""
    return directory / f"{test.name}.{config.data.direction.target}"


def _make_directory(
    directory: Path, sets: Sequence[_TestSet], experiments: Sequence[Experiment], *, is_own: bool
) -> None:
    """Make the directory of the outputs; `InputError` if an output cannot be written to it, or would replace an input,
    data of a model, or a file that `nmt evaluate` has not made."""
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory}: is a file; give -o a directory")
    inputs = [path for test in sets for path in test.files]
    report = directory / REPORT
    check_writable(report)
    refuse_overwriting(report, inputs, experiments)
    made = read_report(report)
    for test in sets:
        output = _output_path(directory, test, experiments[0].config)
        check_writable(output)
        refuse_overwriting(output, inputs, experiments)
        if output.is_file() and not is_own and test.name not in made:
            told = f"{REPORT} beside it does not say" if report.exists() else f"no {REPORT} beside it says"
            raise InputError(
                f"{output}: exists, and {told} that `nmt evaluate` made it. Move it away or choose another -o"
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{directory}: cannot be made: {str(reason).lower()}") from error


def _score_set(
    pool: LinePool,
    test: _TestSet,
    directory: Path,
    conditions: dict[str, Any],
    config: Config,
    overrides: dict[str, Any],
) -> None:
    """Translate a set, write its translations, add its scores to the report and print them."""
    with open_output(_output_path(directory, test, config)) as file:
        hypotheses, scores = _translate_and_score(pool, test.name, test, config.scoring, overrides)
        file.writelines(f"{line}\n".encode() for line in hypotheses)
    pool.report()
    _add_to_report(directory / REPORT, test, conditions, scores)
    print(f"{test.name}: " + "  ".join(f"{s.label} = {s.score:.2f}" for s in scores), flush=True)
    for s in scores:
        print(f"  {s.label}  {s.signature}")


def _translate_and_score(
    pool: LinePool, description: str, test: _TestSet, scoring: ScoringConfig, overrides: dict[str, Any]
) -> tuple[list[str], list[Score]]:
    """Return the translations of a text and their scores.

    `description` stands at the progress bar, and `overrides` replaces decoding options for this text.
    """
    hypotheses = []
    pool.counts = Counts()
    with Progress(description, total=len(test.source), unit="line") as progress:
        for output in pool.translate_lines(test.source, overrides):
            hypotheses.append(output.decode("utf-8").removesuffix("\n"))
            progress.advance()
    return hypotheses, score_corpus(hypotheses, test.references, lowercase=scoring.lowercase, tokenize=scoring.tokenize)


def _tune_length_penalty(pool: LinePool, dev: _TestSet, config: Config) -> dict[str, Any]:
    """Return the length penalty with the best dev BLEU, and the BLEU of each value tried, as an entry of the report."""
    bleu: dict[float, float] = {}
    for penalty in sorted({*LENGTH_PENALTIES, config.decoding.length_penalty}):
        overrides = {"length_penalty": penalty}
        _, scores = _translate_and_score(pool, f"length penalty {penalty:g}", dev, config.scoring, overrides)
        bleu[penalty] = scores[0].score
        log(f"length penalty {penalty:g}: dev {scores[0].label} = {scores[0].score:.2f}")
    # Of equal ones that which is nearest to the usual.
    best = max(bleu, key=lambda penalty: (bleu[penalty], -abs(penalty - config.decoding.length_penalty)))
    log(f"length penalty {best:g} is best. To use it: nmt translate --length-penalty {best:g}")
    return {"chosen": best, "dev_bleu": {f"{penalty:g}": score for penalty, score in bleu.items()}}


def _model_identity(experiments: Sequence[Experiment], checkpoint: str) -> dict[str, Any]:
    """Return the entries of a report that identify the models: directories, checkpoints and fingerprints."""
    return {
        "models": [os.path.abspath(experiment.directory) for experiment in experiments],
        "checkpoint": checkpoint,
        "checkpoints": [experiment.checkpoints.resolve(checkpoint).name for experiment in experiments],
        "fingerprints": [experiment.fingerprint(checkpoint) for experiment in experiments],
    }


def _add_to_report(path: Path, test: _TestSet, conditions: dict[str, Any], scores: Sequence[Score]) -> None:
    """Add the scores of a set to the report. The report is read again first, as another command may have added sets."""
    source, *references = test.files
    entry = {
        **conditions,
        "source": source,
        "references": references,
        **{score.name: {"score": score.score, "signature": score.signature} for score in scores},
    }
    text = json.dumps({"sets": {**read_report(path), test.name: entry}}, indent=2, ensure_ascii=False)
    with open_output(path) as file:
        # Names of files that are not UTF-8 become escapes that JSON knows.
        file.write((text + "\n").encode(errors="backslashreplace"))
