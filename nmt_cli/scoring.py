"""BLEU, chrF and TER by sacreBLEU, with its signatures; the only module that scores with that library.

Every number equals the output of the `sacrebleu` command, to the last digit, paired bootstrap included. Text comes as
lines; files and output are the business of the commands.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sacrebleu import BLEU, CHRF, SACREBLEU_DIR, TER
from sacrebleu.metrics import base
from sacrebleu.significance import estimate_ci
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS

from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError
from nmt_cli.text.letters import WITHOUT_SPACES

METRICS = ("bleu", "chrf", "ter")
TOKENIZERS = tuple(BLEU.TOKENIZERS)
DEFAULT_SEED = 12345  # sacreBLEU's own
DEFAULT_LENGTH_EDGES = (10, 20, 30, 40, 50, 60)

_TOKENIZER_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one system by one metric, not rounded, with sacreBLEU's signature of the metric."""

    name: str  # a member of METRICS
    label: str  # sacreBLEU's name of the metric: BLEU, chrF2, TER
    score: float
    signature: str
    text: str  # the line that sacreBLEU prints, from the label on


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over bootstrap samples, and half the width of the 95 % confidence interval around it."""

    mean: float
    half_width: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system against a baseline in one metric, by paired bootstrap; `signature` holds samples and seed."""

    hypothesis: Score
    baseline: Score
    hypothesis_estimate: Estimate
    baseline_estimate: Estimate
    p_value: float
    signature: str
    is_identical: bool
    """True if every sentence has the same counts as in the baseline: the system is a copy of it, or differs only in
    what the metric ignores, as TER ignores case."""


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """The scores of the sentences whose source has `min_words` to `max_words` words; None means no upper limit."""

    min_words: int
    max_words: int | None
    num_lines: int
    scores: list[Score]

    @property
    def label(self) -> str:
        """The range in short, as `11-20` or `61+`."""
        return f"{self.min_words}+" if self.max_words is None else f"{self.min_words}-{self.max_words}"


def score_corpus(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[Score]:
    """Return the scores of a corpus in the order of `metrics`; `references` has a sequence of lines per reference.

    `lowercase` and `tokenize` are for BLEU, as in the `sacrebleu` command: chrF keeps case, and TER never regards it.

    Raises:
        InputError: there is no line or reference, the texts differ in length, or a metric or tokenizer is unfit.
    """
    _check_parallel([("the system", hypotheses), *_named_references(references)])
    counters = [_Metric(name, references, lowercase=lowercase, tokenize=tokenize) for name in checked_metrics(metrics)]
    return [counter.score(counter.statistics(hypotheses)) for counter in counters]


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str | None = None,
    num_samples: int = 1000,
    seed: int = DEFAULT_SEED,
) -> list[Comparison]:
    """Compare a system with a baseline by each metric, as `sacrebleu --paired-bs` does (Koehn, 2004).

    sacreBLEU's class `PairedTest` gives the same numbers from the same random draws. It is not used because it holds
    all samples at once, gigabytes for a large test set, and finds a system significantly different (p = 0.001) from
    its own copy. Here an identical system has p = 1.

    Raises:
        InputError: there is no line or reference, the texts differ in length, or a metric or tokenizer is unfit.
    """
    _check_parallel([("the system", hypotheses), ("the baseline", baseline), *_named_references(references)])
    counters = [_Metric(name, references, lowercase=lowercase, tokenize=tokenize) for name in checked_metrics(metrics)]
    ours = [counter.statistics(hypotheses) for counter in counters]
    theirs = [counter.statistics(baseline) for counter in counters]
    samples = _resample([*zip(counters, ours, strict=True), *zip(counters, theirs, strict=True)], num_samples, seed)
    return [
        _compare(
            counter.score(ours[i]),
            counter.score(theirs[i]),
            samples[i],
            samples[len(counters) + i],
            counter.signature(num_samples=num_samples, seed=seed),
            is_identical=ours[i] == theirs[i],
        )
        for i, counter in enumerate(counters)
    ]


def bootstrap_interval(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    metric: str = "bleu",
    tokenize: str | None = None,
    num_samples: int = 1000,
    seed: int = DEFAULT_SEED,
) -> tuple[Score, Estimate]:
    """Return the score of a corpus and its bootstrap estimate, as `sacrebleu --confidence` gives them.

    Raises:
        InputError: there is no line or reference, the texts differ in length, or a metric or tokenizer is unfit.
    """
    _check_parallel([("the system", hypotheses), *_named_references(references)])
    (name,) = checked_metrics([metric])
    counter = _Metric(name, references, lowercase=False, tokenize=tokenize)
    statistics = counter.statistics(hypotheses)
    (sample,) = _resample([(counter, statistics)], num_samples, seed)
    return counter.score(statistics), _estimate(sample)


def score_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    edges: Sequence[int] = DEFAULT_LENGTH_EDGES,
    metrics: Sequence[str] = ("bleu", "chrf"),
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[LengthBucket]:
    """Return the scores of the sentences grouped by the number of white-space words in their source.

    `edges` are the largest lengths of all buckets but the last, rising: (10, 20) gives 0-10, 11-20 and 21+. A bucket
    without a sentence is left out.

    Raises:
        InputError: there is no line or reference, the texts differ in length, or a metric or tokenizer is unfit.
    """
    _check_parallel([("the source", sources), ("the system", hypotheses), *_named_references(references)])
    buckets = []
    for low, high, rows in length_groups(sources, edges):
        scores = score_corpus(
            [hypotheses[i] for i in rows],
            [[reference[i] for i in rows] for reference in references],
            metrics=metrics,
            lowercase=lowercase,
            tokenize=tokenize,
        )
        buckets.append(LengthBucket(low, high, len(rows), scores))
    return buckets


def length_groups(sources: Sequence[str], edges: Sequence[int]) -> Iterator[tuple[int, int | None, list[int]]]:
    """Yield the fewest words, the most words (None for no limit) and the sentence indices of each group.

    `edges` are as in `score_by_length`; a group without a sentence is left out.
    """
    if list(edges) != sorted(set(edges)):
        raise ValueError(f"edges must rise, are {list(edges)}")
    lengths = [len(source.split()) for source in sources]
    for low, high in zip([0, *(edge + 1 for edge in edges)], [*edges, None], strict=True):
        rows = [i for i, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if rows:
            yield low, high, rows


def checked_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names in lower case, each once, in the order given.

    Raises:
        InputError: one is not in METRICS.
    """
    checked = dict.fromkeys(name.lower() for name in names)
    for name in checked:
        if name not in METRICS:
            raise InputError(f"metric {name}: must be one of {', '.join(METRICS)}")
    return tuple(checked)


def check_tokenizer(name: str | None, option: str = "tokenizer") -> None:
    """Refuse a tokenizer that sacreBLEU does not have or that cannot run here; nothing is downloaded.

    `option` is the command-line option or configuration key that the message names.

    Raises:
        InputError: it is unknown, or needs a package or a model file that is not there; the message says how to get it.
    """
    if name is None:
        return
    if name not in TOKENIZERS:
        raise InputError(f"{option} {name}: must be one of {', '.join(TOKENIZERS)}")
    if name in SPM_MODELS:
        url = SPM_MODELS[name]["url"]
        path = Path(SACREBLEU_DIR, "models", PurePosixPath(url).name)
        if not path.is_file() or path.stat().st_size == 0:
            raise InputError(
                f"{option} {name}: needs a model file that is not there; fetch it once:\n"
                f"  curl -L --create-dirs -o {path} {url}"
            )
    try:
        with _sacrebleu_silenced():
            BLEU(tokenize=name)
    except (ImportError, RuntimeError, OSError, AssertionError) as error:
        extra = _TOKENIZER_EXTRAS.get(name)
        advice = f"install it: pip install '{extra}'" if extra else str(error).strip() or type(error).__name__
        raise InputError(f"{option} {name}: cannot be used here; {advice}") from None


def check_line_counts(counts: Sequence[tuple[str, int]]) -> None:
    """Refuse inputs, each a name and its number of lines, that are empty or not of one length.

    Raises:
        InputError: the message names the two inputs that differ, with their counts.
    """
    first_name, first_count = counts[0]
    if first_count == 0:
        raise InputError(f"{first_name}: there are no lines")
    for name, count in counts[1:]:
        if count != first_count:
            raise InputError(
                f"{first_name} has {format_count(first_count, 'line')} and {name} has {format_count(count, 'line')}; "
                "line i of one must belong to line i of the other, so the counts must be equal"
            )


# Shares of the lines that are not blank. A mark such as @-@ hardly ever stands in plain text; a space before a full
# stop or a comma may, so that most lines must have it. French sets ! ? ; : apart, which is why they do not count.
_MARKED_SHARE = 0.1
_SPACED_SHARE = 0.5
_TOKENISER_MARK = re.compile(r"@-@|&(?:apos|quot|#124|#91|#93);")
_SPACED_PUNCTUATION = re.compile(r"\S +[.,](?: |$)")
_SENTENCEPIECE_MARK = re.compile("\u2581")
_SUBWORD_NMT_MARK = re.compile(r"\S@@(?: |$)")
_LINES_OF_SCRIPT = 1_000
"""Number of first lines of a text by which its script is identified."""


def tokenisation_warning(lines: Sequence[str]) -> str | None:
    """Return a warning if the lines look like words and punctuation set apart by a tokeniser, else None."""
    if _share(lines, _TOKENISER_MARK) >= _MARKED_SHARE:
        what = "marks of a tokeniser (such as @-@ or &apos;)"
    elif _share(lines, _SPACED_PUNCTUATION) > _SPACED_SHARE:
        what = "spaces before full stops and commas"
    else:
        return None
    return (
        f"{what}: this looks like tokenised text, whose score cannot be compared with others; "
        "detokenise it, or give --tokenize none if it is meant to be tokenised"
    )


def has_no_spaces(lines: Sequence[str]) -> bool:
    """Return whether most letters are of a script without spaces between words, such as Chinese or Thai."""
    text = "".join(lines[:_LINES_OF_SCRIPT])
    return 2 * len(WITHOUT_SPACES.findall(text)) > sum(map(str.isalpha, text))


def pieces_warning(lines: Sequence[str]) -> str | None:
    """Return a warning if the lines look like subword pieces that were not put together, else None."""
    if _share(lines, _SENTENCEPIECE_MARK) >= _MARKED_SHARE:
        return "the mark \u2581: this looks like SentencePiece pieces, not text; decode it first (nmt decode)"
    if _share(lines, _SUBWORD_NMT_MARK) >= _MARKED_SHARE:
        return "the mark @@: this looks like subword-nmt pieces, not text; join them first (sed 's/@@ //g')"
    return None


def _share(lines: Sequence[str], pattern: re.Pattern[str]) -> float:
    filled = [line for line in lines if line.strip()]
    return sum(pattern.search(line.rstrip()) is not None for line in filled) / max(1, len(filled))


@contextmanager
def _sacrebleu_silenced() -> Iterator[None]:
    logger = logging.getLogger("sacrebleu")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


class _Metric:
    """A metric of sacreBLEU with its references prepared, for the scores of one or several systems."""

    def __init__(
        self, name: str, references: Sequence[Sequence[str]], *, lowercase: bool, tokenize: str | None
    ) -> None:
        self.name = name
        self._metric: base.Metric
        if name == "bleu":
            check_tokenizer(tokenize)
            with _sacrebleu_silenced():
                # force: no remark on tokenised text, tokenisation_warning speaks instead
                self._metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True, references=references)
        elif name == "chrf":
            self._metric = CHRF(references=references)
        else:
            self._metric = TER(references=references)

    def statistics(self, hypotheses: Sequence[str]) -> list[list[float]]:
        """Return the counts of each sentence, such as matching n-grams; their sum gives the score of the corpus."""
        counts: list[list[float]] = self._metric._extract_corpus_statistics(hypotheses, None)
        return counts

    def score(self, statistics: list[list[float]]) -> Score:
        result = self._metric._aggregate_and_compute(statistics)
        return Score(self.name, result.name, float(result.score), self.signature(), result.format())

    def score_of_sum(self, sums: npt.NDArray[np.float32]) -> float | np.floating:
        score: float | np.floating = self._metric._compute_score_from_stats(cast(list[Any], sums)).score
        return score

    def signature(self, *, num_samples: int | None = None, seed: int | None = None) -> str:
        signature = self._metric.get_signature()
        signature.update("bs", num_samples)
        signature.update("seed", seed)
        return str(signature.format())


_Sample = npt.NDArray[np.floating]


def _resample(items: Sequence[tuple[_Metric, list[list[float]]]], num_samples: int, seed: int) -> list[_Sample]:
    """Return one array (num_samples,) of scores for each item: all items are scored on the same random draws."""
    # Single precision and its results kept as they come, because sacreBLEU does so: the last digits depend on it.
    tables = [(metric, np.array(statistics, dtype=np.float32)) for metric, statistics in items]
    num_lines = len(tables[0][1])
    generator = np.random.default_rng(seed)
    scores: list[list[float | np.floating]] = [[] for _ in tables]
    for _ in range(num_samples):
        rows = generator.choice(num_lines, size=num_lines, replace=True)
        for found, (metric, table) in zip(scores, tables, strict=True):
            found.append(metric.score_of_sum(table[rows].sum(0)))
    return [np.array(found) for found in scores]


def _compare(
    hypothesis: Score,
    baseline: Score,
    hypothesis_sample: _Sample,
    baseline_sample: _Sample,
    signature: str,
    *,
    is_identical: bool,
) -> Comparison:
    differences = np.abs(hypothesis_sample - baseline_sample)
    shifted = differences - differences.mean()
    num_beyond = int(np.sum(shifted > abs(baseline.score - hypothesis.score)))
    return Comparison(
        hypothesis,
        baseline,
        _estimate(hypothesis_sample),
        _estimate(baseline_sample),
        1.0 if is_identical or not differences.any() else (num_beyond + 1) / (len(shifted) + 1),
        signature,
        is_identical,
    )


def _estimate(sample: _Sample) -> Estimate:
    mean, half_width = estimate_ci(sample)
    return Estimate(float(mean), float(half_width))


def _named_references(references: Sequence[Sequence[str]]) -> list[tuple[str, Sequence[str]]]:
    if not references:
        raise InputError("no reference is given; give at least one")
    return [(f"reference {i}", reference) for i, reference in enumerate(references, 1)]


def _check_parallel(named: Sequence[tuple[str, Sequence[str]]]) -> None:
    check_line_counts([(name, len(lines)) for name, lines in named])
