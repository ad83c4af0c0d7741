"""Measures `nmt translate --glossary`: are all terms there, once, aligned, and what do they cost?

Run it as `python -m benchmarks.glossary --model DIR --train SOURCE TARGET --test SOURCE TARGET`. Both texts have to be
split into words by spaces. It prints a table in Markdown.

The lists of terms come from the training text: a source word and a target word belong together if each is the other's
best by Dice's coefficient. *Statistics* takes all such pairs. *Reference* takes, for each line, the source words with a
likely translation in the reference. *Second choice* forces the second-best word, which the model would rarely take.
*Irrelevant* holds the words that the test set does not have.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.normalization.glossary_terms import TermMatch
from nmt_cli.scoring import score_corpus
from nmt_cli.translation.glossary import Entry, Glossary
from nmt_cli.translation.results import TranslatedLine, Translation
from nmt_cli.translation.terms import TermEncoder
from nmt_cli.translation.translator import Translator

Glossaries = Sequence[Glossary]
SMALLEST_COUNT, LARGEST_SHARE, LEAST_DICE, LEAST_LIKELY = 20, 0.03, 0.4, 0.08
"""A term stands in so many lines, and in no larger share of them: words such as *in* are no terms."""


class EachLine(Glossary):
    """Has the terms of each line, one line after the other, from a glossary of its own."""

    _of_line: Iterator[Glossary]

    def __init__(self, glossaries: Glossaries) -> None:
        every = [entry for glossary in glossaries for entry in glossary.entries]
        super().__init__("all", tuple(every))
        object.__setattr__(self, "_of_line", iter(glossaries))

    def matches(self, text: str) -> list[TermMatch]:
        return next(self._of_line).matches(text)


@dataclass(frozen=True, slots=True)
class Dice:
    """Strengths of association between words of two languages."""

    likely: dict[str, list[tuple[float, str]]]
    """For each source word its target words, best first."""
    best_source: dict[str, str]

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str]) -> Dice:
        """Count words and pairs of words, each once a line."""
        pairs: Counter[tuple[str, str]] = Counter()
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for lines in zip(sources, targets, strict=True):
            words = [set(filter(str.isalpha, line.split())) for line in lines]
            for side in (0, 1):
                counts[side].update(words[side])
            pairs.update((one, other) for one in words[0] for other in words[1])
        likely: dict[str, list[tuple[float, str]]] = {}
        best: dict[str, tuple[float, str]] = {}
        for (one, other), count in pairs.items():
            dice = 2 * count / (counts[0][one] + counts[1][other])
            is_term = SMALLEST_COUNT <= counts[0][one] <= LARGEST_SHARE * len(sources)
            if is_term and count >= 3 and dice > 0.02:
                likely.setdefault(one, []).append((dice, other))
                best[other] = max(best.get(other, (0.0, "")), (dice, one))
        return cls(
            {one: sorted(found, reverse=True) for one, found in likely.items()}, {o: w for o, (_, w) in best.items()}
        )

    def terms(self) -> dict[str, str]:
        """Return the pairs of which each is the other's best."""
        return {
            one: found[0][1]
            for one, found in self.likely.items()
            if found[0][0] >= LEAST_DICE and self.best_source[found[0][1]] == one
        }


@dataclass(slots=True)
class Seen:
    """Counts of what the translations say for the terms of a text."""

    lines: int = 0
    terms: int = 0
    present: int = 0
    once: int = 0
    aligned: int = 0
    doubled: int = 0
    """Words of the output that stand there more often than in the output without terms and in the reference."""
    repeated: int = 0
    """Repetitions of words in the output that the reference does not have."""
    repeated_before: int = 0
    """The same in the output without terms."""


def look(outputs: Sequence[TranslatedLine], plain: Sequence[str], references: Sequence[str]) -> Seen:
    """Count terms in translations that have soft alignments."""
    seen = Seen()
    for output, before, reference in zip(outputs, plain, references, strict=True):
        best = output.translations[0]
        if not best.terms:
            continue
        seen.lines += 1
        words = best.text.split()
        wanted: Counter[str] = Counter()
        for use in best.terms:
            seen.terms += 1
            seen.present += use.target is not None
            if use.target is not None and use.translation is not None:
                wanted[use.translation] += 1
                seen.aligned += _looks_at(best, use.target, use.source)
        seen.once += sum(count for form, count in wanted.items() if words.count(form) == count)
        usual = Counter(before.split()) | Counter(reference.split()) | wanted
        more = {word: count for word, count in Counter(words).items() if word.isalpha() and count > max(usual[word], 1)}
        seen.doubled += len(more)
        seen.repeated += repetitions(best.text, reference)
        seen.repeated_before += repetitions(before, reference)
    return seen


def repetitions(text: str, reference: str) -> int:
    """Return how often words of a text stand there again, beyond their number in the reference."""
    words, usual = Counter(filter(str.isalpha, text.split())), Counter(reference.split())
    return sum(max(0, count - max(1, usual[word])) for word, count in words.items())


def _looks_at(best: Translation, target: tuple[int, int], source: tuple[int, int]) -> bool:
    """Return whether the words of a translation look most at one of the words of the term."""
    weights = best.weights
    assert weights is not None
    return source[0] <= int(weights[target[0] : target[1]].mean(axis=0).argmax()) < source[1]


def translated(translator: Translator, lines: Sequence[str]) -> tuple[list[TranslatedLine], float]:
    """Return translations, and the seconds of the processor that they took."""
    translator.counts.lines = 0
    began = time.process_time()
    found = list(translator.translate(lines))
    return found, time.process_time() - began


def lists(dice: Dice, sources: Sequence[str], references: Sequence[str]) -> dict[str, Glossaries]:
    """Return the glossaries of each line, by the name of the list."""
    terms, there = dice.terms(), {word for line in sources for word in line.split()}
    second = {one: dice.likely[one][1][1] for one in terms if len(dice.likely[one]) > 1}
    unseen = {one: other for one, other in terms.items() if one not in there}

    def whole(chosen: dict[str, str]) -> Glossaries:
        entries = [Entry(one, (other,), False, line) for line, (one, other) in enumerate(chosen.items())]
        return [Glossary.of("", entries)] * len(sources)

    of_lines = []
    for source, reference in zip(sources, references, strict=True):
        own, used = {}, Counter(reference.split())
        for word in dict.fromkeys(source.split()):
            likely = [other for dice_, other in dice.likely.get(word, ()) if dice_ >= LEAST_LIKELY and used[other] == 1]
            best = next((other for other in likely if dice.best_source[other] == word), None)
            if best is not None and source.split().count(word) == 1 and len(best) > 3:
                own[word] = best
                used[best] = 0
        of_lines.append(Glossary.of("", [Entry(one, (other,), False, 0) for one, other in own.items()]))
    return {
        "statistics": whole(terms),
        "reference": of_lines,
        "second choice": whole(second),
        "irrelevant": whole(unseen),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", nargs=2, required=True, metavar="FILE")
    parser.add_argument("--test", nargs=2, required=True, metavar="FILE")
    parser.add_argument("--weight", type=float, help="Bias the search instead of forcing terms.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lines", type=int, help="Only the first lines of the test set.")
    parser.add_argument("--lists", nargs="*")
    options = parser.parse_args()
    texts = [Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in (*options.train, *options.test)]
    sources, references = (text[: options.lines] for text in texts[2:])
    translator = open_translator(
        [Path(options.model)], threads=options.threads, glossary_weight=options.weight, with_alignment=True
    )
    translated(translator, sources[:100])
    before, seconds = translated(translator, sources)
    plain = [found.translations[0].text for found in before]
    columns = (
        "terms",
        "lines",
        "terms",
        "present",
        "once",
        "aligned",
        "doubled",
        "repeated",
        "without",
        "BLEU",
        "without",
    )
    print(f"| {' | '.join(columns)} | time |\n|{'---|' * (len(columns) + 1)}")
    for name, glossaries in lists(Dice.of(*texts[:2]), sources, references).items():
        if options.lists and name not in options.lists:
            continue
        terms = EachLine(glossaries)
        translator.terms = TermEncoder(translator.tokenizers, terms)
        translator.normalizer = translator.normalizer.with_glossary(terms)
        outputs, own_seconds = translated(translator, sources)
        seen = look(outputs, plain, references)
        texts_now = [output.translations[0].text for output in outputs]
        affected = [place for place, output in enumerate(outputs) if output.translations[0].terms] or range(
            len(outputs)
        )
        bleu = [
            score_corpus(
                [own[p] for p in affected], [[references[p] for p in affected]], metrics=("bleu",), tokenize="none"
            )
            for own in (texts_now, plain)
        ]
        others = [place for place in range(len(outputs)) if place not in set(affected)] if seen.lines else affected
        same = sum(texts_now[place] == plain[place] for place in others)
        print(
            f"| {name} | {seen.lines} | {seen.terms} | {share(seen.present, seen)} | {share(seen.once, seen)} | "
            f"{share(seen.aligned, seen)} | {seen.doubled} | {seen.repeated} | {seen.repeated_before} | "
            f"{bleu[0][0].score:.2f} | {bleu[1][0].score:.2f} | "
            f"{own_seconds / seconds:.2f} |  {same} of {len(others)} lines without terms are the same",
            flush=True,
        )
        translator.terms = None


def share(count: int, seen: Seen) -> str:
    """Return a share of all terms as text."""
    return f"{100 * count / seen.terms:.1f} %" if seen.terms else "-"


if __name__ == "__main__":
    main()
