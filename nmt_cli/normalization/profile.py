"""Profile of a training text: its characters, its case, its words and its numbers. It is kept with each model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from nmt_cli.system.errors import ModelError
from nmt_cli.text.letters import SIGN_WORD, WORD, is_all_caps, lower

MAX_LINES = 300_000
"""Most lines of each corpus that are read."""
MAX_WORDS = 100_000
MAX_WORD_BYTES = 4_000_000
"""Most bytes of all words that are kept; JSON has twice or three times as many. A language without spaces has clauses
for words."""
MIN_CAPITALS = 2
"""Times that a word in capitals must stand in a text to be a form of its own, such as *US* beside *us*. Once may be
stress."""
MIN_NAME = 3
"""Times that a word must stand with a capital, and never without one, to be wrong in small letters."""
MAX_CHARACTERS = 20_000
MAX_SIGN_WORDS = 1_000
_SENTENCE_END = re.compile(r"[.!?…:]\W*\s\W*\Z")
_FINAL_SIGN = re.compile(r"\w[\"'”’»)]*[.!?…]+[\"'”’»)]*\s*\Z")
_MOST_LINES = 0.9
"""Share above which lines usually end with a full stop, a question mark or an exclamation mark."""
_FEW_CAPITALS = 0.001
"""Share of capitals among the letters up to which a text has no case, and its capitals are slips."""


@dataclass(frozen=True, slots=True)
class TextProfile:
    """The characters of a text and the usual form of its words."""

    characters: Mapping[str, int]
    """Number of times that each character stands in the text."""
    forms: Mapping[str, str]
    """The usual form of a word within a sentence, by the word in small letters."""
    has_case: bool
    """False where the text has no capitals, or hardly any."""
    begins_with_capital: bool
    """True if lines usually begin with a capital."""
    ends_with_stop: bool
    """True if lines usually end with a full stop or the like, right after the last word."""
    other_forms: tuple[str, ...] | None = None
    """Other forms in which words may be right, besides the usual ones; None if they are not known.

    They are the forms within sentences, except those in capitals that occur a single time. They include the small
    letters of a word that occurs there once or twice only, with a capital.
    """
    has_all_words: bool = False
    """True if `forms` has every word of the text, so that other words are unknown to the model."""
    kept_numbers: tuple[str, ...] | None = None
    """Numbers that some lines of the target text keep, the most frequent first; None where that is not known."""
    rewritten_numbers: tuple[str, ...] | None = None
    """Numbers that the target text nearly always writes otherwise, as in words; None where that is not known."""
    sign_words: Mapping[str, int] | None = None
    """Number of times that signs are a word of their own in the text; None if that is not known."""

    @classmethod
    def of(cls, lines: Iterable[str], language: str) -> TextProfile:
        """Return the profile of a text. Lines that are in capitals themselves say nothing about case."""
        characters: Counter[str] = Counter()
        sign_words: Counter[str] = Counter()
        forms: dict[str, Counter[str]] = defaultdict(Counter)
        begins: Counter[bool] = Counter()
        ends: Counter[bool] = Counter()
        num_lines = 0
        for num_lines, line in enumerate(lines, start=1):  # noqa: B007 (the last number is the number of lines)
            characters.update(line)
            sign_words.update(SIGN_WORD.findall(line))
            ends[_FINAL_SIGN.search(line, max(0, len(line) - 20)) is not None] += bool(line.strip())
            if is_all_caps(line):
                continue
            for number, match in enumerate(WORD.finditer(line)):
                word = match[0]
                if number == 0:
                    begins[word[:1].isupper()] += word[:1].isupper() or word[:1].islower()
                begins_sentence = number == 0 or _SENTENCE_END.search(line, max(0, match.start() - 4), match.start())
                key = lower(word, language)
                # The first word of a sentence has a capital by its place: it shows that the word exists, no more.
                forms[key][key if begins_sentence and not is_all_caps(word[1:]) else word] += not begins_sentence
        usual = {key: forms[key].most_common(1)[0][0] for key in _most_frequent(forms)}
        letters = sum(count for one, count in characters.items() if one.isupper() or one.islower())
        capitals = sum(count for one, count in characters.items() if one.isupper())
        return cls(
            dict(characters.most_common(MAX_CHARACTERS)),
            usual,
            has_case=capitals > _FEW_CAPITALS * letters,
            begins_with_capital=begins[True] > begins[False],
            ends_with_stop=ends[True] > _MOST_LINES * ends.total(),
            other_forms=tuple(_other_forms(forms, usual)),
            has_all_words=len(usual) == len(forms) and num_lines < MAX_LINES,
            sign_words=dict(sign_words.most_common(MAX_SIGN_WORDS)),
        )

    @classmethod
    def of_pieces(cls, pieces: Sequence[str], language: str) -> TextProfile:
        """Return a profile from the ordinary pieces of a tokenizer: the characters and some words of its training text.

        "▁" stands for a blank.
        """
        text = "".join(pieces).replace("▁", " ")
        forms: dict[str, str] = {}
        for piece in pieces:
            word = piece.removeprefix("▁")
            if piece.startswith("▁") and WORD.fullmatch(word) and len(word) > 1:
                key = lower(word, language)
                forms[key] = key if forms.get(key) == key else word
        has_case = any(one.isupper() for one in text)
        return cls(dict.fromkeys(text, 1), forms, has_case=has_case, begins_with_capital=has_case, ends_with_stop=False)

    @classmethod
    def from_json(cls, value: Any, origin: str) -> TextProfile:
        """Return the profile of which `to_json` made `value`; `origin` names its file in messages.

        Raises:
            ModelError: `value` is no such profile.
        """
        try:
            characters = {str(key): int(number) for key, number in value["characters"].items()}
            forms = {str(key): str(form) for key, form in value["forms"].items()}
            signs = value.get("sign_words")
            names = ("other_forms", "kept_numbers", "rewritten_numbers")  # older models lack them
            others, kept, rewritten = (
                None if value.get(name) is None else tuple(map(str, value[name])) for name in names
            )
            return cls(
                characters,
                forms,
                has_case=bool(value["has_case"]),
                begins_with_capital=bool(value["begins_with_capital"]),
                ends_with_stop=bool(value["ends_with_stop"]),
                other_forms=others,
                has_all_words=bool(value.get("has_all_words", False)),
                kept_numbers=kept,
                rewritten_numbers=rewritten,
                sign_words=None if signs is None else {str(key): int(number) for key, number in signs.items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{origin}: is damaged; train again, or delete it") from error

    def is_usually_apart(self, marks: str) -> bool:
        """Return whether the text usually has a blank before some marks.

        They must be a word of their own at least half as often as their first character occurs.
        """
        return 2 * (self.sign_words or {}).get(marks, 0) >= self.characters.get(marks[0], 0)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as a dictionary that can be written as JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _most_frequent(counts: Mapping[str, Counter[str]]) -> list[str]:
    """Return the words that are kept, the most frequent first, up to `MAX_WORDS` and `MAX_WORD_BYTES`."""
    words = sorted(counts, key=lambda key: -counts[key].total())[:MAX_WORDS]
    sizes = accumulate(len(word.encode()) for word in words)
    return words[: sum(size <= MAX_WORD_BYTES for size in sizes)]


def _other_forms(counts: Mapping[str, Counter[str]], usual: Mapping[str, str]) -> Iterator[str]:
    """Yield the forms, beside the usual one, in which each word may be right."""
    for key, usual_form in usual.items():
        for form, count in counts[key].items():
            if form != usual_form and count >= (MIN_CAPITALS if is_all_caps(form) else 1):
                yield form
        if key != usual_form and not counts[key][key] and counts[key][usual_form] < MIN_NAME:
            yield key
