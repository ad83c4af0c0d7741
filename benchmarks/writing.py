"""Measures `nmt translate --normalize-input` on seventeen ways in which people write a dev set, before and after.

Run it as `python -m benchmarks.writing --model DIR --source FILE --reference FILE`. It prints a table in Markdown. With
`--directory D` it also writes each version, its reference and both translations there. `--without` leaves out a part:
`forms` (the usual case of words: small letters take its place), `capital` (of first words), `stop` or `numbers`.

A version changes the source, and the reference as far as the writing of the reference should follow. Chance decides by
`--seed` and the number of the line, so a version does not depend on the others. Single words, two words and digits
are counted instead of scored: words count if their translation stands in the reference of their sentence, and a line
with digits if its translation has exactly these digits.

`--only "other numbers"` is for a training text: it keeps the lines of which both sides have the same numbers, and
writes other digits into both. `--only "other forms of numbers"` writes decimals, numbers in groups, telephones and
amounts of euros into them, where they are plain. `--only "rare signs"` is for other text of the same kind: it keeps the
lines that have signs which the training text hardly has.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nmt_cli.assembly.normalization import open_profile
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.experiment import Experiment
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.number_spans import number_spans
from nmt_cli.scoring import score_corpus
from nmt_cli.system.console import log
from nmt_cli.text.letters import WITHOUT_SPACES, lower, upper
from nmt_cli.translation.terms import without_unsupported_steps
from nmt_cli.translation.translator import Translator

Pair = tuple[str, str]
"""A source and its reference."""
SHARE_OF_TYPING_ERRORS = 0.1
"""Share of the words of at least four letters that get one."""
SHARE_OF_STRESSED_WORDS = 0.2
OTHER_NUMBERS = "other numbers"
OTHER_FORMS = "other forms of numbers"
RARE_SIGNS = "rare signs"
OF_OTHER_TEXT = (OTHER_NUMBERS, OTHER_FORMS, RARE_SIGNS)
_FINAL = re.compile(r"\s*[.!?。]+\s*\Z")
_DIGITS = re.compile(r"\d+")
_INNER_WORD = re.compile(r"(?<![.!?…]\s)(?<=\s)[^\W\d_]+")
"""One behind another word of its sentence."""
_INSERTED = re.compile(r"[()\[\]*~😀❤\ufe0f]|(?<!\S)[—–/](?!\S)")
_EDGES = re.compile(r"\A\W+|\W+\Z")


@dataclass(frozen=True, slots=True)
class Version:
    """A way to write, and how its translations are judged."""

    name: str
    write: Callable[[Pair, random.Random], Pair]
    suits: Callable[[Pair], bool] | None = None
    """Tells whether a pair can be written so; others are left out. None takes all."""
    scored: Callable[[str], str] = str
    """Takes a translation, and returns what is scored of it."""
    counts: Callable[[str, str, str], bool] | None = None
    """Takes source, reference and translation, and returns True if the translation is right; None scores all."""


def versions(source_lang: str, target_lang: str, has_rare_signs: Callable[[str], bool]) -> list[Version]:
    """Return the text as it is, seventeen other ways to write it, and some of its lines: with numbers, and with signs
    that `has_rare_signs` tells."""

    def capitals(pair: Pair, _: random.Random) -> Pair:
        return upper(pair[0], source_lang), upper(pair[1], target_lang)

    def no_capitals(pair: Pair, _: random.Random) -> Pair:
        return lower(pair[0], source_lang), pair[1]

    def stressed(pair: Pair, chance: random.Random) -> Pair:
        def word(text: str) -> str:
            return upper(text, source_lang) if chance.random() < SHARE_OF_STRESSED_WORDS else text

        return re.sub(r"[^\W\d_]{2,}", lambda match: word(match[0]), pair[0]), pair[1]

    def small_names(pair: Pair, _: random.Random) -> Pair:
        return _INNER_WORD.sub(lambda match: lower(match[0], source_lang), pair[0]), pair[1]

    def title(pair: Pair, _: random.Random) -> Pair:
        return re.sub(r"(?<!\S)\S", lambda match: upper(match[0], source_lang), pair[0]), pair[1]

    return [
        Version("as it is", lambda pair, _: pair),
        Version("ALL CAPITALS", capitals),
        Version("no capitals", no_capitals),
        Version("SOME words in capitals", stressed),
        Version("names in small letters", small_names),
        Version("Title Case", title),
        Version("no full stop", lambda pair, _: (_FINAL.sub("", pair[0]), _FINAL.sub("", pair[1]))),
        Version("doubled spaces", _with_doubled_spaces),
        Version("typographic signs", _with_typographic_signs),
        Version("typing errors", _with_typing_errors),
        Version("signs around", _with_signs_around),
        Version("brackets and dashes within", _with_brackets_or_dashes, scored=_without_signs),
        Version("emoji and asterisks within", _with_emoji_or_asterisks, scored=_without_signs),
        Version("blanks before marks", lambda pair, _: (re.sub(r"(?<=\w)(?=[.,;:!?])", " ", pair[0]), pair[1])),
        Version("no apostrophes", lambda pair, _: (re.sub(r"(?<=\w)['’](?=\w)", "", pair[0]), pair[1])),
        Version("single words", partial(_some_words, number=1), counts=_stands_in_reference),
        Version("two words", partial(_some_words, number=2), counts=_stands_in_reference),
        Version("digits put in", _with_digits, counts=_keeps_digits),
        Version(RARE_SIGNS, lambda pair, _: pair, lambda pair: has_rare_signs(pair[0])),
        Version(
            OTHER_NUMBERS, partial(_with_numbers, write=_with_other_digits), lambda pair: bool(_numbers_of_both(pair))
        ),
        Version(OTHER_FORMS, partial(_with_numbers, write=_in_other_form), _has_plain_numbers),
    ]


def _with_doubled_spaces(pair: Pair, chance: random.Random) -> Pair:
    return re.sub(" ", lambda _: "  " if chance.random() < 0.5 else " ", pair[0]), pair[1]


def _with_typographic_signs(pair: Pair, chance: random.Random) -> Pair:
    """Write quotes, apostrophes and dashes as a word processor does; half of the lines are a quotation, and a fifth
    end in an ellipsis."""
    source, reference = pair
    if chance.random() < 0.2:
        source, reference = _FINAL.sub("…", source), _FINAL.sub("...", reference)
    if chance.random() < 0.5 and '"' not in source:
        source, reference = f'"{source}"', f'"{reference}"'
    source = re.sub(r'(?<!\S)"', "“", source).replace('"', "”").replace("'", "’")
    source = source.replace(" - ", " – ").replace("-", "‑")
    return re.sub(" ", lambda _: "\u00a0" if chance.random() < 0.1 else " ", source), reference


def _with_signs_around(pair: Pair, chance: random.Random) -> Pair:
    before, after = chance.choice([("", " 😀"), ("• ", ""), ("(", ")"), ("", " :)"), ("👉 ", " ❤️"), ("* ", "")])
    return f"{before}{pair[0]}{after}", f"{before}{pair[1]}{after}"


def _with_brackets_or_dashes(pair: Pair, chance: random.Random) -> Pair:
    return _with_signs_within(pair, chance, [("(", ")"), ("[", "]"), ("", " —"), ("", " –"), ("", " /")])


def _with_emoji_or_asterisks(pair: Pair, chance: random.Random) -> Pair:
    return _with_signs_within(pair, chance, [("", " 😀"), ("", " ❤️"), ("*", "*"), ("~", "~")])


def _with_signs_within(pair: Pair, chance: random.Random, signs: Sequence[tuple[str, str]]) -> Pair:
    """Write two signs around one or two words of the source, but not around all; the reference has none."""
    words = pair[0].split(" ")
    before, after = chance.choice(signs)
    if len(words) < 3:
        return pair
    begin = chance.randrange(len(words) - 2)
    end = begin + chance.randrange(1, 3)
    return " ".join([*words[:begin], before + " ".join(words[begin:end]) + after, *words[end:]]), pair[1]


def _without_signs(text: str) -> str:
    return " ".join(_INSERTED.sub(" ", text).split())


def _with_typing_errors(pair: Pair, chance: random.Random) -> Pair:
    def word(text: str) -> str:
        if len(text) < 4 or not text.isalpha() or chance.random() >= SHARE_OF_TYPING_ERRORS:
            return text
        place = chance.randrange(1, len(text) - 1)
        left, one, two, right = text[:place], text[place], text[place + 1], text[place + 2 :]
        return left + chance.choice((two + one, one, one + one + two)) + right

    return " ".join(word(one) for one in pair[0].split(" ")), pair[1]


def _some_words(pair: Pair, chance: random.Random, number: int) -> Pair:
    """Return so many words that stand next to each other."""
    words = [bare for word in pair[0].split() if (bare := _EDGES.sub("", word))]
    begin = chance.randrange(max(1, len(words) - number + 1))
    return " ".join(words[begin : begin + number]), pair[1]


def _stands_in_reference(_: str, reference: str, translation: str) -> bool:
    bare = _EDGES.sub("", translation).casefold()
    if bare and WITHOUT_SPACES.search(bare):  # where no blanks part the words, they are part of a longer one
        return bare in reference.casefold()
    return bool(bare) and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", reference.casefold()) is not None


def _with_digits(pair: Pair, chance: random.Random) -> Pair:
    words = pair[0].split(" ")
    number = chance.choice(
        (str(chance.randrange(10, 10_000)), f"{chance.randrange(24)}:{chance.randrange(10, 60)}",
         f"{chance.choice('ABKX')}{chance.randrange(10, 1_000)}")
    )  # fmt: skip
    words.insert(chance.randrange(len(words)), number)
    return " ".join(words), pair[1]


def _numbers_of_both(pair: Pair) -> list[str]:
    """Return the numbers of a pair if both sides have the same ones, of which none begins with the sign of another."""
    sides = [sorted(text[begin:end] for begin, end in number_spans(text)) for text in pair]
    return sides[0] if sides[0] == sides[1] and len(set(sides[0])) == len(sides[0]) else []


def _has_plain_numbers(pair: Pair) -> bool:
    return bool(numbers := _numbers_of_both(pair)) and all(map(str.isdecimal, numbers))


def _with_other_digits(number: str, chance: random.Random) -> str:
    """Return a number with other digits, which still begins with no zero."""
    return re.sub(r"\d", lambda digit: str(chance.randrange(1 if digit[0] != "0" else 0, 10)), number)


def _in_other_form(_: str, chance: random.Random) -> str:
    """Return a number with decimals, in groups, of a telephone or with the sign of a currency."""
    telephone = " ".join(f"{chance.randrange(100):02d}" for _ in range(4))
    return chance.choice(
        (f"{chance.randrange(1, 100)}.{chance.randrange(1, 100)}",
         f"{chance.randrange(1, 1_000)} {chance.randrange(1_000):03d} {chance.randrange(1_000):03d}",
         f"+33 {chance.randrange(1, 8)} {telephone}", f"€{chance.randrange(1, 10_000)}")
    )  # fmt: skip


def _with_numbers(pair: Pair, chance: random.Random, write: Callable[[str, random.Random], str]) -> Pair:
    """Write other numbers in the place of those of both sides."""
    other = {number: write(number, chance) for number in _numbers_of_both(pair)}
    source, reference = (
        "".join(
            part + (other[text[begin:end]] if begin < end else "")
            for part, (begin, end) in zip(_around(text), [*number_spans(text), (0, 0)], strict=True)
        )
        for text in pair
    )
    return source, reference


def _around(text: str) -> list[str]:
    """Return the parts of a text before, between and behind its numbers."""
    spans = number_spans(text)
    ends, begins = [0, *(end for _, end in spans)], [*(begin for begin, _ in spans), len(text)]
    return [text[first:last] for first, last in zip(ends, begins, strict=True)]


def _keeps_digits(source: str, _: str, translation: str) -> bool:
    return sorted(_DIGITS.findall(source)) == sorted(_DIGITS.findall(translation))


def written(pairs: Sequence[Pair], version: Version, seed: int) -> list[Pair]:
    """Return the pairs that suit a version, written in it."""
    return [
        version.write(pair, random.Random(f"{seed} {version.name} {number}"))
        for number, pair in enumerate(pairs)
        if version.suits is None or version.suits(pair)
    ]


def measured(pairs: Sequence[Pair], translations: Sequence[str], version: Version) -> str:
    """Return the scores of a version, or the count of the lines that are right, for a cell of the table."""
    if version.counts is not None:
        right = [version.counts(*pair, found) for pair, found in zip(pairs, translations, strict=True)]
        return f"{sum(right):,} of {len(right):,} lines"
    scores = score_corpus(
        [version.scored(found) for found in translations],
        [[reference for _, reference in pairs]],
        metrics=("bleu", "chrf"),
    )
    return " / ".join(f"{score.score:.2f}" for score in scores)


def _without(translator: Translator, parts: Sequence[str], experiment: Experiment) -> Translator:
    """Return a translator that adapts lines without some parts of the profile."""
    profile, data = open_profile(experiment), experiment.config.data
    less = replace(
        profile,
        forms={key: key for key in profile.forms} if "forms" in parts else profile.forms,
        begins_with_capital=profile.begins_with_capital and "capital" not in parts,
        ends_with_stop=profile.ends_with_stop and "stop" not in parts,
    )
    symbols = translator.tokenizers[0].symbols()
    steps = Normalizer.of(
        less,
        source_lang=data.direction.source,
        target_lang=data.direction.target,
        symbols=symbols,
        knows_words=data.word_pairs,
    )
    steps = without_unsupported_steps(steps, translator.models, translator.options, translator.tokenizers[1])
    return replace(translator, normalizer=steps.without("numbers") if "numbers" in parts else steps)


def _lines(path: Path) -> list[str]:
    with open_input(path) as stream:
        return [decode_line(line)[0] for line in iter_lines(stream)]


def _translated(translator: Translator, pairs: Sequence[Pair]) -> list[str]:
    return [found.translations[0].text for found in translator.translate(source for source, _ in pairs)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="Names of versions; all if left out.")
    parser.add_argument("--without", nargs="*", default=[], choices=("forms", "capital", "stop", "numbers"))
    asked = parser.parse_args()
    experiment = Experiment(asked.model)
    data = experiment.config.data
    pairs = list(zip(_lines(asked.source), _lines(asked.reference), strict=True))
    kept, adapted = (
        open_translator([asked.model], threads=asked.threads, normalize_input=adapts) for adapts in (False, True)
    )
    adapted = _without(adapted, asked.without, experiment)
    print("| version | BLEU / chrF as written | adapted | translations that differ |\n|---|---|---|---|")

    def has_rare_symbols(text: str) -> bool:
        return adapted.normalizer.read(text).needs_alignment

    for version in versions(*data.direction, has_rare_symbols):
        if version.name not in asked.only if asked.only else version.name in OF_OTHER_TEXT:
            continue
        own = written(pairs, version, asked.seed)
        before, after = _translated(kept, own), _translated(adapted, own)
        differing = sum(one != other for one, other in zip(before, after, strict=True))
        print(
            f"| {version.name} | {measured(own, before, version)} | {measured(own, after, version)} | {differing:,} |",
            flush=True,
        )
        if asked.directory is not None:
            _write(asked.directory, version.name.replace(" ", "-"), [*zip(*own, strict=True), before, after])
    if asked.directory is not None:
        log(f"texts: {asked.directory}")


def _write(directory: Path, name: str, texts: Sequence[Sequence[str]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for ending, lines in zip(("source", "reference", "before", "after"), texts, strict=True):
        path = directory / f"{name}.{ending}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
