"""Choose among n-best lists or samples, by the scores of further models or by agreement.

`python -m benchmarks.better_models.choosing`:

    candidates LIST --source FILE --texts OUT --sources OUT [--reverse]   the candidates for `nmt rescore`, a line each
    tune LIST --scores FILE ... --reference FILE -o WEIGHTS.json          the weights with the best BLEU
    choose LIST --scores FILE ... --weights WEIGHTS.json -o OUT           a line for each sentence
    agree LIST ... -o OUT                                                 minimum Bayes risk with chrF

A LIST is what `nmt translate --format moses` writes. Scores are log-probabilities, as `nmt rescore` writes them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sacrebleu import BLEU

from benchmarks.better_models.lines import read_lines, reversed_words, write_lines

Array = npt.NDArray[np.float64]
ORDERS, BETA = 6, 2
"""N-grams of characters up to this length, and the weight of recall, in sacreBLEU's chrF2."""
WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
"""What is tried for each further score."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A translation from an n-best list; `score` is the log-probability after its length penalty."""

    text: str
    log_prob: float
    score: float


def read_lists(path: Path) -> list[list[Candidate]]:
    """Return the candidates of each sentence.

    Raises:
        ValueError: a sentence has none.
    """
    rows = [line.rsplit(" ||| ", 2) for line in read_lines(path)]
    numbered = [(int(row[0].partition(" ||| ")[0]), row) for row in rows]
    lists: list[list[Candidate]] = []
    for number, group in groupby(numbered, key=lambda each: each[0]):
        if number != len(lists):
            raise ValueError(f"{path}: sentence {len(lists)} has no candidate")
        lists.append(
            [
                Candidate(first.partition(" ||| ")[2], float(log_prob.partition("F0=")[2]), float(score))
                for _, (first, log_prob, score) in group
            ]
        )
    return lists


# Scores of further models -----------------------------------------------------------------------------------------


def features(lists: Sequence[Sequence[Candidate]], scores: Sequence[Sequence[float]]) -> list[Array]:
    """Return for each sentence the scores (candidates, 1 + further models), all with the length penalty of the list."""
    found, first = [], 0
    for candidates in lists:
        last = first + len(candidates)
        penalties = np.array([each.log_prob / each.score if each.score else 1.0 for each in candidates])
        columns = [np.array([each.score for each in candidates])]
        columns += [np.array(further[first:last]) / penalties for further in scores]
        found.append(np.stack(columns, axis=1))
        first = last
    return found


def choices(features_of: Sequence[Array], weights: Sequence[float]) -> list[int]:
    """Return the number of the best candidate of each sentence; the first of equals."""
    vector = np.array([1.0, *weights])
    return [int(np.argmax(each @ vector)) for each in features_of]


def tuned(
    lists: Sequence[Sequence[Candidate]],
    scores: Sequence[Sequence[float]],
    references: Sequence[str],
    tokenize: str,
) -> tuple[tuple[float, ...], float, float]:
    """Return the weights with the best corpus BLEU, that BLEU, and the BLEU without further scores."""
    metric = BLEU(tokenize=tokenize, effective_order=True)
    counts = []
    for candidates, reference in zip(lists, references, strict=True):
        of = {text: metric.sentence_score(text, [reference]) for text in {each.text for each in candidates}}
        found = [of[each.text] for each in candidates]
        counts.append(np.array([[*each.counts, *each.totals, each.sys_len, each.ref_len] for each in found]))
    features_of = features(lists, scores)

    def bleu(weights: Sequence[float]) -> float:
        chosen = choices(features_of, weights)
        total = np.sum([of[number] for of, number in zip(counts, chosen, strict=True)], axis=0).tolist()
        score = BLEU.compute_bleu(total[:4], total[4:8], sys_len=total[8], ref_len=total[9], smooth_method="exp")
        return float(score.score)

    bleu_of = {weights: bleu(weights) for weights in product(WEIGHTS, repeat=len(scores))}
    best = max(bleu_of, key=lambda weights: bleu_of[weights])  # the smallest of equals, which comes first
    return best, bleu_of[best], bleu_of[(0.0,) * len(scores)]


# Agreement --------------------------------------------------------------------------------------------------------


def agreement(texts: Sequence[str]) -> Array:
    """Return sacreBLEU's sentence chrF of each text (row) against each other one as its reference (column).

    The sum of the smaller of two counts is the number of thresholds that both reach, which is a product of matrices of
    zeros and ones.
    """
    plain = ["".join(text.split()) for text in texts]
    number = len(texts)
    precision, recall, orders = (np.zeros((number, number)) for _ in range(3))
    for order in range(1, ORDERS + 1):
        grams = [Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in plain]
        places: dict[tuple[str, int], int] = {}
        rows, columns = [], []
        for row, counter in enumerate(grams):
            for gram, count in counter.items():
                for threshold in range(count):
                    rows.append(row)
                    columns.append(places.setdefault((gram, threshold), len(places)))
        reached = np.zeros((number, len(places)), dtype=np.float32)
        reached[rows, columns] = 1.0
        matches = (reached @ reached.T).astype(np.float64)
        totals = matches.diagonal()
        both = (totals[:, None] > 0) & (totals[None, :] > 0)
        precision += np.divide(matches, totals[:, None], out=np.zeros_like(matches), where=both)
        recall += np.divide(matches, totals[None, :], out=np.zeros_like(matches), where=both)
        orders += both
    precision, recall = (
        np.divide(sums, orders, out=np.zeros_like(sums), where=orders > 0) for sums in (precision, recall)
    )
    weighted = BETA**2 * precision + recall
    score: Array = 100 * (1 + BETA**2) * np.divide(
        precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0
    )  # fmt: skip
    return score


def most_agreeing(texts: Sequence[str]) -> str:
    """Return the text with the highest mean chrF, all of them in turn being the reference; equal texts count each."""
    number_of = Counter(texts)
    distinct = list(number_of)
    weights = np.array([number_of[text] for text in distinct], dtype=np.float64)
    return distinct[int(np.argmax(agreement(distinct) @ weights))]


# Commands ---------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("candidates", "tune", "choose", "agree"))
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--reverse", action="store_true", help="the words of each candidate from the last to the first")
    parser.add_argument("--scores", nargs="*", type=Path, default=[])
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    lists = read_lists(asked.lists[0])
    for further in asked.lists[1:]:
        lists = [[*some, *more] for some, more in zip(lists, read_lists(further), strict=True)]
    if asked.what == "candidates":
        sources = read_lines(asked.source)
        texts = [each.text for candidates in lists for each in candidates]
        write_lines(asked.texts, map(reversed_words, texts) if asked.reverse else texts)
        pairs = zip(lists, sources, strict=True)
        write_lines(asked.sources, (source for candidates, source in pairs for _ in candidates))
    elif asked.what == "agree":
        write_lines(asked.output, (most_agreeing([each.text for each in candidates]) for candidates in lists))
    else:
        scores = [list(map(float, read_lines(path))) for path in asked.scores]
        if asked.what == "tune":
            best, bleu, plain = tuned(lists, scores, read_lines(asked.reference), asked.tokenize)
            write_lines(asked.output, [json.dumps({"weights": best, "bleu": bleu, "without": plain})])
        else:
            weights = json.loads(read_lines(asked.weights)[0])["weights"]
            chosen = choices(features(lists, scores), weights)
            write_lines(asked.output, (some[number].text for some, number in zip(lists, chosen, strict=True)))


if __name__ == "__main__":
    main()
