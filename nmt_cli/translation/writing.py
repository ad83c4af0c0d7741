"""Adapts a line to the writing of the training text, and gives its translation the writing of the line.

A line in capitals is read in ordinary case, and its translation is written in capitals. A line without capitals gets
those that the training text has, and so do single words (`casing.py`). A sentence without a full stop gets one, which
its translation then lacks too. Quotes, dashes and other characters that the training text does not have are read as
those that it has. Other signs that it does not have are left out and come back: those around a line around its
translation (`signs.py`), and those within it where the alignment tells (`inner_signs.py`, `sign_places.py`).

The tokenizer alone sees the adapted line: alignments, markup, glossaries and copied words refer to the line as the user
wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.tokenizer import Adapted, CharSpan, Tokenizer, replaced
from nmt_cli.data.writing import SIGN_WORD, WORD, WritingProfile, upper
from nmt_cli.text.language_codes import writes_spaces
from nmt_cli.translation.casing import Casing, with_capital
from nmt_cli.translation.characters import Characters
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.inner_signs import InnerSign, SignFinder, left_out
from nmt_cli.translation.markup import PlainLine
from nmt_cli.translation.numbers import NumberHabits, Numbers
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import Translation
from nmt_cli.translation.sign_places import with_inner_signs
from nmt_cli.translation.signs import MAX_LENGTH, Signs, is_currency, is_sign, without_signs
from nmt_cli.translation.spelling import Spelling
from nmt_cli.translation.step_model import TrainedModels

MIN_SIGN = 10
"""Times that a sign must stand in a training text to be read within a line."""
MIN_SENTENCE = 3
"""Words from which a line is a sentence that lacks its full stop."""
MAX_SENTENCE = 2_000
"""Characters of such a line; parts of longer ones may end anywhere."""
_CODE = r"[_@{}<>%\\]|://|\bwww\."
"""Signs of a word that is no text: a placeholder, a tag, an address."""
_SENTENCE_ENDS = ".!?…"
_MARKS_APART = re.compile(r"(?<=\S)\s+([.,;:!?…]+)(?!\S)")
"""Blanks, and the marks behind them, which do not touch the next word."""
_STOP = re.compile(r"(?<=\w)[.。।]\Z")


def _ends_sentence(word: str) -> bool:
    """Return whether the signs at the end of a word end a sentence, perhaps within brackets or quotes."""
    for character in reversed(word):
        if character in _SENTENCE_ENDS:
            return True
        if character.isalnum() or character == "_":
            return False
    return False


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
    """The way between the writing of users and the writing of a training text."""

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
        self._characters = Characters(profile.characters)
        self._usual = set(profile.characters)
        if profile.sign_words is not None:
            self._usual = {one for one, count in profile.characters.items() if count >= MIN_SIGN or not is_sign(one)}
        self._casing = Casing(profile, source_lang, knows_words=knows_words)
        self._spelling = Spelling(profile.forms, source_lang) if profile.has_all_words else None
        self._places_signs = all(map(writes_spaces, (source_lang, target_lang)))
        self._comma = "" if "," not in self._usual else " ," if self._is_usual_apart(",") else ","
        self._glossary: Glossary | None = None
        self.numbers: Numbers | None = None
        """Finds the numbers that a translation must keep; None where the profile does not tell which."""
        if profile.kept_numbers is not None and profile.rewritten_numbers is not None:
            habits = NumberHabits(profile.kept_numbers, profile.rewritten_numbers)
            self.numbers = Numbers(habits, target_lang=target_lang, symbols=symbols, is_rare=self._is_rare_currency)

    def fit_for(self, models: TrainedModels, options: DecodingOptions, target: Tokenizer) -> Writing:
        """Return the same without numbers if a search cannot keep them; without attention, inner signs are read too.

        Samples are drawn as they come, a shortlist or a vocabulary of words may lack the digits, a weight of terms only
        makes them likelier, and a model without attention cannot tell their place.
        """
        other = copy(self)
        other._places_signs = self._places_signs and models.has_attention
        is_bound = options.sampling_temperature is None and options.glossary_weight is None
        can_say_all = target.spells_bytes and not models.has_shortlist
        return other if is_bound and can_say_all and models.has_attention else other.without_numbers()

    def beside(self, glossary: Glossary | None) -> Writing:
        """Return the same, but what a glossary has is read as it is: its signs, and numbers that its terms touch."""
        other = copy(self)
        other._glossary = glossary
        other.numbers = None if self.numbers is None else self.numbers.beside(glossary)
        return other

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
        self,
        line: PlainLine,
        translations: Sequence[Translation],
        prefix: Prefix | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> tuple[Translation, ...]:
        """Return the translations of a line in its case, and within the signs that the model has not read.

        They have no full stop if the line has none. What follows a prefix has the case of the prefix. A line that has
        no text for the tokenizer, if one is given, has no signs either: its characters cannot be seen.
        """
        if tokenizer is not None and not translations[0].text and tokenizer.is_void(line.text):
            return tuple(translations)
        begun = "" if prefix is None else prefix.text
        read = replaced(line.text, self._signs_left_out(line.text)).text
        read = self._without_typing_errors(self._without_blanks(read).text).text
        rewritten = tuple(translations)
        if self.lacks_stop(read):
            rewritten = tuple(_without_stop(found, len(begun)) for found in rewritten)
        if self.is_in_capitals(read) and not any(map(str.islower, begun.replace("ß", ""))):
            rewritten = tuple(self._in_capitals(found, len(begun)) for found in rewritten)
        elif not begun and self._casing.is_capitalised_word(read):
            rewritten = tuple(self._with_capital(found) for found in rewritten)
        signs = self._inner_signs(line.text)
        rewritten = tuple(with_inner_signs(line.text, signs, found, prefix) for found in rewritten)
        return self.enclosed(line, rewritten, prefix)

    def enclosed(
        self, line: PlainLine, translations: Sequence[Translation], prefix: Prefix | None = None
    ) -> tuple[Translation, ...]:
        """Return the translations of a line within the signs that the model has not read; none precede a prefix."""
        begin, end = self._without_signs(line.text)
        after = line.text[end:].strip()
        is_said = prefix is not None and after and prefix.text.count(after) > line.text[:end].count(after)
        signs = Signs("" if prefix is not None else line.text[:begin], "" if is_said else line.text[end:])
        if not any(signs):
            return tuple(translations)
        return tuple(found.enclosed(signs, len(line.text.split())) for found in translations)

    def needs_weights(self, text: str) -> bool:
        """Return whether the alignment must tell where signs of a line belong in its translation."""
        return bool(self._inner_signs(text))

    def _inner_signs(self, text: str) -> list[InnerSign]:
        """Return the signs within a line that are not read."""
        if not self._places_signs or len(text) > MAX_LENGTH or text[:1].isspace():
            return []
        if self._usual.issuperset(text) and not SIGN_WORD.search(text):
            return []
        kept = [word.span() for word in re.finditer(r"\S+", text) if self._code.search(word[0])]
        kept += self._terms(text)
        if self.numbers is not None:
            kept += [(number.begin, number.end) for number in self.numbers.found(text)]
        finder = SignFinder(self._is_rare_sign, self._is_rare_word, self._comma)
        return finder.found(text, self._without_signs(text), kept)

    def _is_rare_sign(self, sign: str) -> bool:
        return not self._usual.issuperset(self._characters.equivalent(sign, opens=True))

    def _is_rare_currency(self, sign: str) -> bool:
        return is_currency(sign) and self.profile.characters.get(sign, 0) < MIN_SIGN

    def _is_rare_word(self, signs: str) -> bool:
        """Return whether the training text hardly ever has some signs as a word of their own."""
        if self.profile.sign_words is None:
            return any(map(self._is_rare_sign, signs))
        read = "".join(self._characters.equivalent(sign, opens=True) for sign in signs)
        return max(self.profile.sign_words.get(one, 0) for one in (signs, read)) < MIN_SIGN

    def _without_signs(self, text: str) -> CharSpan:
        """Return where a line begins and ends without signs around it that the training text does not have."""
        if self._characters.has_all(text):
            return 0, len(text)
        begin, end = without_signs(text, self._is_unknown_sign)
        kept = [word.span() for word in re.finditer(r"\S+", text) if self._code.search(word[0])]
        kept += self._terms(text)
        return min([begin, *(first for first, _ in kept)]), max([end, *(last for _, last in kept)])

    def _terms(self, text: str) -> list[CharSpan]:
        """Return where the terms of the glossary stand in a text."""
        return [] if self._glossary is None else [(one.begin, one.end) for one in self._glossary.matches(text)]

    def _is_unknown_sign(self, character: str) -> bool:
        return is_sign(character) and not self._characters.has_all(self._characters.equivalent(character, opens=True))

    def _signs_left_out(self, text: str) -> list[tuple[int, int, str]]:
        """Return the changes of a line by which it loses the signs that are not read."""
        begin, end = self._without_signs(text)
        return [(0, begin, ""), *left_out(self._inner_signs(text)), (end, len(text), "")]

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
        changes = [(number.begin, number.end, number.stand_in) for number in numbers]
        found = replaced(text, sorted([*changes, *self._signs_left_out(text)]))
        return found.then(self._without_blanks).then(self._without_typing_errors).then(self._written_as_usual)

    def _without_blanks(self, text: str) -> Adapted:
        """Return a text without the blanks before a mark that the training text joins to its word, as in `Hello !`."""
        if self.profile.sign_words is None:
            return Adapted(text)
        apart = (match for match in _MARKS_APART.finditer(text) if not self._is_usual_apart(match[1]))
        return replaced(text, [(match.start(), match.start(1), "") for match in apart])

    def _is_usual_apart(self, marks: str) -> bool:
        """Return whether the training text has marks more often behind a blank than not."""
        return 2 * (self.profile.sign_words or {}).get(marks, 0) >= self.profile.characters.get(marks[0], 0)

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
            begins = begins or _ends_sentence(word[0])
        return replaced(text, changes)

    def _written_as_usual(self, text: str) -> Adapted:
        plain = self._without_codes(text)
        recases = self._casing.tells_nothing(plain)
        lacks_stop = self.lacks_stop(text)
        is_odd = recases or self._casing.is_odd(plain)
        if self._characters.has_all(text) and not is_odd and not lacks_stop:
            return Adapted(text)
        written: list[str] = []
        places: list[CharSpan] = []
        begins = has_beginnings = is_odd and self.profile.begins_with_capital and not self._casing.is_word(plain)
        for match in re.finditer(r"\s+|\S+", text):
            word = match[0]
            own = [(match.start() + place, match.start() + place + 1) for place in range(len(word))]
            if not self._code.search(word):
                word, own = self._characters.usual(word, own)
                if is_odd:
                    cased = self._casing.usual(word, begins=begins, every_word=recases)
                    # A letter may become two, as in Turkish. Then all of them stand for the whole word.
                    own = own if len(cased) == len(word) else [match.span()] * len(cased)
                    word = cased
                if any(map(str.isalnum, word)):
                    begins = has_beginnings and _ends_sentence(word)
            written.append(word)
            places += own
        found = "".join(written)
        if lacks_stop:
            end = len(found.rstrip())
            found = f"{found[:end]}.{found[end:]}"
            places.insert(end, places[end - 1])
        return Adapted(text) if found == text else Adapted(found, places)
