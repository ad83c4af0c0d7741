"""The steps that turn a line into the text that the tokenizer reads, in their order, and the way back.

Steps that take out or lock characters come first. Steps that judge words (is this a sentence, a title, capitals?) come
last, on clean text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nmt_cli.normalization.case import Case
from nmt_cli.normalization.characters import Characters
from nmt_cli.normalization.codes import Codes, code_pattern
from nmt_cli.normalization.full_stop import FullStop
from nmt_cli.normalization.glossary_terms import Glossary, GlossaryTerms
from nmt_cli.normalization.inner_symbols import InnerSymbols
from nmt_cli.normalization.known_characters import KnownCharacters
from nmt_cli.normalization.known_words import KnownWords
from nmt_cli.normalization.number_spans import NumberHabits
from nmt_cli.normalization.numbers import Numbers
from nmt_cli.normalization.outer_symbols import OuterSymbols
from nmt_cli.normalization.placeholders import Placeholders
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.spacing import Spacing
from nmt_cli.normalization.spelling import Spelling
from nmt_cli.normalization.step import RestoringStep, Step
from nmt_cli.normalization.symbols import KnownSymbols
from nmt_cli.normalization.tags import Tags
from nmt_cli.normalization.word_case import Truecaser
from nmt_cli.normalization.wordless_text import WordlessText
from nmt_cli.text.language_codes import separates_words_by_spaces
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation


class Normalizer:
    """Applies steps that make lines look like the training text, and undoes them in the translations."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        """Change lines by these steps, in this order."""
        self.steps = tuple(steps)
        self._by_name = {step.name: step for step in steps}

    @classmethod
    def of(
        cls,
        profile: TextProfile,
        *,
        source_lang: str,
        target_lang: str,
        symbols: Collection[str] = (),
        knows_words: bool = False,
    ) -> Normalizer:
        """Return a normalizer with the steps that suit a training text, which `profile` describes.

        Words with one of the `symbols` of the tokenizer stay as they are. `knows_words`: the model has trained on
        single words too, in the form that the text has within sentences.
        """
        code, truecaser = code_pattern(symbols), Truecaser(profile, source_lang, knows_words=knows_words)
        characters = KnownCharacters(profile.characters)
        known_symbols = KnownSymbols(profile, characters)
        places_symbols = all(map(separates_words_by_spaces, (source_lang, target_lang)))
        steps: list[Step] = [WordlessText()]  # while numbers and symbols show that there are no words
        if profile.kept_numbers is not None and profile.rewritten_numbers is not None:
            habits = NumberHabits(profile.kept_numbers, profile.rewritten_numbers)
            # Before codes: an address is a number that the search must keep, and would be a mere code.
            steps.append(
                Numbers(
                    habits,
                    symbols=symbols,
                    is_rare=known_symbols.is_rare_unit,
                    may_lack_blank_before=not separates_words_by_spaces(target_lang),
                )
            )
        steps += [
            Codes(code),  # so that no later step takes a placeholder for text
            OuterSymbols(known_symbols),  # before those within the line, which may be partners of each other
            *([InnerSymbols(known_symbols)] if places_symbols else []),
            Spacing(profile),  # before all that looks at the end of a word
        ]
        if profile.has_all_words:
            # A word that is corrected has the case of the word that was written; case is judged by known words.
            steps.append(Spelling(KnownWords(profile.forms, source_lang), truecaser))
        steps += [
            Characters(characters),  # so that case and full stop see known characters
            Case(profile, truecaser, source_lang=source_lang, target_lang=target_lang, code=code),
            FullStop(profile),  # last: it must know what is the last word
        ]
        return cls(steps)

    def without(self, *names: str) -> Normalizer:
        """Return a normalizer with the same steps except those with these names."""
        return Normalizer([step for step in self.steps if step.name not in names])

    def with_glossary(self, glossary: Glossary | None) -> Normalizer:
        """Return a normalizer that requires the terms of this glossary instead of another; None requires no terms.

        Terms are looked for after tags and placeholders, and before all other steps.
        """
        others = self.without(GlossaryTerms.name).steps
        number = sum(step.name in (Tags.name, Placeholders.name) for step in others)
        return Normalizer(others if glossary is None else [*others[:number], GlossaryTerms(glossary), *others[number:]])

    def with_markup(self, symbols: Collection[str] = ()) -> Normalizer:
        """Return a normalizer with steps for tags and placeholders before all others.

        The `symbols` of a tokenizer are neither tags nor placeholders.
        """
        return Normalizer([Tags(symbols=symbols), Placeholders(), *self.steps])

    def read(self, raw: str, prefix: str = "") -> Line:
        """Return the line that a tokenizer is to read; `prefix` is the given beginning of its translation."""
        line = Line.of(raw, prefix)
        for step in self.steps:
            line = step.read(line)
        return line

    def undo(self, line: Line, translation: Translation, *, up_to: str = "", only: str = "") -> Translation:
        """Return the translation of the raw line, given the translation of the text that was read.

        With `up_to`, neither the step of this name nor those before it are undone; with `only`, no step but this is
        undone.
        """
        for undo in reversed(line.undo_records):
            if undo.step == up_to:
                break
            if only in ("", undo.step):
                step = self._by_name[undo.step]
                translation = translation.undo_step(
                    undo, step.undo(undo, translation) if isinstance(step, RestoringStep) else ()
                )
        return translation
