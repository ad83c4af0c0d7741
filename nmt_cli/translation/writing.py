"""Adapts a line to the writing of the training text, and gives its translation the writing of the line.

A line in capitals is read in ordinary case, and its translation is written in capitals. A line without capitals gets
those that the training text has, and so do single words (`casing.py`). A sentence without a full stop gets one, which
its translation then lacks too. Quotes, dashes and other characters that the training text does not have are read as
those that it has. Other signs that it does not have are left out around a line, and come back around its translation.

The tokenizer alone sees the adapted line: alignments, markup, glossaries and copied words refer to the line as the user
wrote it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.tokenizer import Adapted, Span, Tokenizer, replaced
from nmt_cli.data.writing import WORD, WritingProfile, is_capital, upper
from nmt_cli.translation.casing import Casing, with_capital
from nmt_cli.translation.markup import PlainLine
from nmt_cli.translation.numbers import NumberHabits, Numbers
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import Translation
from nmt_cli.translation.signs import Signs, is_sign, without_signs
from nmt_cli.translation.spelling import Spelling
from nmt_cli.translation.step_model import TrainedModels

MIN_SENTENCE = 3
"""Words from which a line is a sentence that lacks its full stop."""
MAX_SENTENCE = 2_000
"""Characters of such a line; parts of longer ones may end anywhere."""
_CODE = r"[_@{}<>%\\]|://|\bwww\."
"""Signs of a word that is no text: a placeholder, a tag, an address."""
_CLUSTER = re.compile("[^\u0300-\u036f]?[\u0300-\u036f]*", re.DOTALL)
"""A character with the accents that follow it."""
_SENTENCE_END = re.compile(r"[.!?…]\W*\Z")
_STOP = re.compile(r"(?<=\w)[.。।]\Z")
_NEUTRAL = "'\"`´′″ʹ"
_OPENING, _CLOSING = "„«‹‚‛‟“‘", "”’»›ʼ"
_QUOTES = ("'’‘‚‛‹›ʼʹ′`´", '"“”„‟«»″')
_DASHES = "-–—‐‑‒―−"
_INVISIBLE = "\u00ad\u200b\u2060\ufeff"


def _without_stop(found: Translation, begin: int) -> Translation:
    """Return a translation without the full stop behind its last word; a prefix of `begin` characters stays whole."""
    if len(found.text) <= begin or not _STOP.search(found.text):
        return found
    last = found.text.split()[-1]
    terms = tuple(
        replace(use, translation=use.translation[:-1])
        if use.translation
        and use.translation.endswith(last)
        and use.target
        and use.target[1] == len(found.text.split())
        else use
        for use in found.terms
    )
    return replace(found, text=found.text[:-1], terms=terms)


class Writing:
    """The way between the writing of users and that of a training text."""

    def __init__(
        self,
        profile: WritingProfile,
        *,
        source_lang: str,
        target_lang: str,
        symbols: Collection[str] = (),
        knows_words: bool = False,
    ) -> None:
        """Take the profile of the source text; words with one of the `symbols` of the tokenizer stay as they are.

        `knows_words`: the model has trained on single words too, as the text has them within sentences.
        """
        self.profile = profile
        self._target_lang = target_lang
        self._code = re.compile("|".join([_CODE, *map(re.escape, sorted(symbols, key=len, reverse=True))]))
        self._known = frozenset(profile.characters)
        self._casing = Casing(profile, source_lang, knows_words=knows_words)
        self._spelling = Spelling(profile.forms, source_lang) if profile.has_all_words else None
        self.numbers: Numbers | None = None
        """Finds the numbers that a translation must keep; None where the profile does not tell which."""
        if profile.kept_numbers is not None and profile.rewritten_numbers is not None:
            habits = NumberHabits(profile.kept_numbers, profile.rewritten_numbers)
            self.numbers = Numbers(habits, target_lang=target_lang, symbols=symbols)

    def fit_for(self, models: TrainedModels, options: DecodingOptions, target: Tokenizer) -> Writing:
        """Return the same without numbers if a search cannot keep them.

        Samples are drawn as they come, a shortlist or a vocabulary of words may lack the digits, a weight of terms only
        makes them likelier, and a model without attention cannot tell their place.
        """
        is_bound = options.sampling_temperature is None and options.glossary_weight is None
        can_say_all = target.spells_bytes and not models.has_shortlist
        return self if is_bound and can_say_all and models.has_attention else self.without_numbers()

    def without_numbers(self) -> Writing:
        """Return the same, but with all numbers left to the model."""
        other = copy(self)
        other.numbers = None
        return other

    def reading(self, tokenizers: tuple[Tokenizer, Tokenizer]) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of both sides, the first with an eye for the writing of its text."""
        return tokenizers[0].adapting(self.adapted), tokenizers[1]

    def is_in_capitals(self, text: str) -> bool:
        """Return whether a line is written in capitals throughout, and is not made of acronyms alone."""
        return self._casing.is_in_capitals(self._without_codes(text))

    def lacks_stop(self, text: str) -> bool:
        """Return whether a line has enough words for a sentence, but no full stop as the training text has it."""
        bare = text.rstrip()
        if not self.profile.ends_with_stop or not bare[-1:].isalpha() or len(bare) > MAX_SENTENCE:
            return False
        return len(WORD.findall(self._without_codes(bare))) >= MIN_SENTENCE and not self._code.search(bare.split()[-1])

    def _without_codes(self, text: str) -> str:
        """Return the words of a text that are no placeholders, tags or addresses."""
        if not self._code.search(text):
            return text
        return " ".join(word for word in text.split() if not self._code.search(word))

    def restored(
        self, line: PlainLine, translations: Sequence[Translation], prefix: Prefix | None = None
    ) -> tuple[Translation, ...]:
        """Return the translations of a line in its case, and within the signs that the model has not read.

        They have no full stop if the line has none. What follows a prefix has the case of the prefix.
        """
        begun = "" if prefix is None else prefix.text
        read = line.text[slice(*self._without_signs(line.text))]
        rewritten = tuple(translations)
        if self.lacks_stop(read):
            rewritten = tuple(_without_stop(found, len(begun)) for found in rewritten)
        if self.is_in_capitals(line.text) and (not begun or is_capital(begun)):
            rewritten = tuple(self._in_capitals(found, len(begun)) for found in rewritten)
        elif not begun and self._casing.is_capitalised_word(read):
            rewritten = tuple(self._with_capital(found) for found in rewritten)
        return self.enclosed(line, rewritten, prefix)

    def enclosed(
        self, line: PlainLine, translations: Sequence[Translation], prefix: Prefix | None = None
    ) -> tuple[Translation, ...]:
        """Return the translations of a line within the signs that the model has not read; none precede a prefix."""
        begin, end = self._without_signs(line.text)
        signs = Signs("" if prefix is not None else line.text[:begin], line.text[end:])
        if not any(signs):
            return tuple(translations)
        return tuple(found.enclosed(signs, len(line.text.split())) for found in translations)

    def _without_signs(self, text: str) -> Span:
        """Return where a line begins and ends without signs that the training text does not have."""
        if self._known.issuperset(text):
            return 0, len(text)
        begin, end = without_signs(text, self._is_unknown_sign)
        codes = [word for word in re.finditer(r"\S+", text) if self._code.search(word[0])]
        return (
            min([begin, *(word.start() for word in codes)]),
            max([end, *(word.end() for word in codes)]),
        )

    def _is_unknown_sign(self, character: str) -> bool:
        return is_sign(character) and not self._known.issuperset(self._equivalent(character, opens=True))

    def _with_capital(self, found: Translation) -> Translation:
        terms = tuple(
            replace(use, translation=with_capital(use.translation, self._target_lang))
            if use.translation and use.target and use.target[0] == 0
            else use
            for use in found.terms
        )
        return replace(found, text=with_capital(found.text, self._target_lang), terms=terms)

    def _in_capitals(self, found: Translation, begin: int) -> Translation:
        def raised(text: str) -> str:
            return re.sub(r"\S+", lambda m: m[0] if self._code.search(m[0]) else upper(m[0], self._target_lang), text)

        terms = tuple(replace(use, translation=use.translation and raised(use.translation)) for use in found.terms)
        return replace(found, text=found.text[:begin] + raised(found.text[begin:]), terms=terms)

    def adapted(self, text: str) -> Adapted:
        """Return the text in the writing of the training text."""
        numbers = [] if self.numbers is None else self.numbers.found(text)
        found = replaced(text, [(number.begin, number.end, number.stand_in) for number in numbers])
        found = found.then(self._without_outer_signs).then(self._without_typing_errors)
        return found.then(self._written_as_usual)

    def _without_outer_signs(self, text: str) -> Adapted:
        begin, end = self._without_signs(text)
        return replaced(text, [(0, begin, ""), (end, len(text), "")])

    def _without_typing_errors(self, text: str) -> Adapted:
        if self._spelling is None:
            return Adapted(text)
        recases, begins = self._casing.tells_nothing(self._without_codes(text)), True
        changes: list[tuple[int, int, str]] = []
        for word in re.finditer(r"\S+", text):
            if self._code.search(word[0]):
                continue
            for match in WORD.finditer(word[0]):
                mended = self._spelling.mended(match[0], any_case=recases or begins)
                changes.append((word.start() + match.start(), word.start() + match.end(), mended))
                begins = False
            begins = begins or _SENTENCE_END.search(word[0]) is not None
        return replaced(text, changes)

    def _written_as_usual(self, text: str) -> Adapted:
        plain = self._without_codes(text)
        recases = self._casing.tells_nothing(plain)
        lacks_stop = self.lacks_stop(text)
        is_odd = recases or self._casing.is_odd(plain)
        if self._known.issuperset(text) and not is_odd and not lacks_stop:
            return Adapted(text)
        written: list[str] = []
        places: list[Span] = []
        begins = has_beginnings = is_odd and self.profile.begins_with_capital and not self._casing.is_word(plain)
        for match in re.finditer(r"\s+|\S+", text):
            word = match[0]
            own = [(match.start() + place, match.start() + place + 1) for place in range(len(word))]
            if not self._code.search(word):
                word, own = self._characters(word, own)
                if is_odd:
                    cased = self._casing.usual(word, begins=begins, every_word=recases)
                    # A letter may become two, as in Turkish. Then all of them stand for the whole word.
                    own = own if len(cased) == len(word) else [match.span()] * len(cased)
                    word = cased
                if any(map(str.isalnum, word)):
                    begins = has_beginnings and _SENTENCE_END.search(word) is not None
            written.append(word)
            places += own
        found = "".join(written)
        if lacks_stop:
            end = len(found.rstrip())
            found = f"{found[:end]}.{found[end:]}"
            places.insert(end, places[end - 1])
        return Adapted(text) if found == text else Adapted(found, places)

    def _characters(self, text: str, places: Sequence[Span]) -> tuple[str, list[Span]]:
        """Return a word, or the white space between words, with the characters that the training text has."""
        if self._known.issuperset(text):
            return text, list(places)
        written: list[str] = []
        spans: list[Span] = []
        for match in _CLUSTER.finditer(text):
            begin, end = match.span()
            if begin == end:
                continue
            is_between = text[:begin][-1:].isalpha() and text[end:][:1].isalpha()
            read = self._equivalent(match[0], opens=not any(map(str.isalnum, text[:begin])))
            if match[0] in "—―" and is_between and read in _DASHES and read not in "—―":
                read = f" {read} "  # a hyphen would make one word of two
            written.append(read)
            spans += [(places[begin][0], places[end - 1][1])] * len(read)
        return "".join(written), spans

    def _equivalent(self, characters: str, *, opens: bool) -> str:
        """Return what stands in the training text for a character and its accents; themselves if nothing does.

        `opens`: they stand at the beginning of a word, where a quote opens.
        """
        if self._known.issuperset(characters):
            return characters
        if characters.isspace():
            return " "
        if characters in _INVISIBLE:
            return ""
        for group in (*_QUOTES, _DASHES):
            if characters in group and (found := self._most_usual(group, opens=opens)):
                return found
        for form in ("NFC", "NFD", "NFKC"):
            read = unicodedata.normalize(form, characters)
            if self._known.issuperset(read) and not any(map(str.isspace, read)):
                return read
        return characters

    def _most_usual(self, group: str, *, opens: bool) -> str:
        """Return the character of a group that the training text uses in this place; nothing if it has none.

        Of two that it has about as often, the one that does nothing else is taken: “ opens in English and closes in
        German.
        """
        there = [one for one in _OPENING + _CLOSING + _NEUTRAL + _DASHES if one in group and one in self._known]
        here = [one for one in there if one not in (_CLOSING if opens else _OPENING) or one in "“‘"]
        here = sorted(here or there, key="“‘".find)
        most = max((self.profile.characters[one] for one in here), default=0)
        return next((one for one in here if 2 * self.profile.characters[one] >= most), "")
