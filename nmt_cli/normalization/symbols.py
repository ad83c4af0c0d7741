"""Symbols: emoji, brackets, bullets, dashes and other signs that a training text may not have."""

from __future__ import annotations

import unicodedata

from nmt_cli.normalization.known_characters import KnownCharacters
from nmt_cli.normalization.profile import TextProfile

MAX_LENGTH = 2_000
"""Most characters of a line whose unknown or rare symbols are hidden from the model. Longer lines keep them."""
MIN_SYMBOL_COUNT = 10
"""Least number of times that a symbol is in a training text for the model to read it within a line."""
JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
"""Characters that join emoji, or choose how one is drawn."""
PARTNERS = {")": "(", "(": ")", "]": "[", "[": "]", "}": "{", "{": "}", "»": "«", "«": "»", "›": "‹", "‹": "›"}
PERCENT_SIGNS = "%‰٪"
QUOTES = '"“”„‟'


def is_symbol(character: str) -> bool:
    """Return whether a character is a symbol or a punctuation mark; a currency sign belongs to its number instead."""
    return (unicodedata.category(character)[0] in "SP" and not is_currency(character)) or character in JOINERS


def is_currency(character: str) -> bool:
    """Return whether a character is the sign of a currency, as €."""
    return unicodedata.category(character) == "Sc"


def is_bracket_or_quote(symbol: str) -> bool:
    """Return whether a symbol is one of a pair: a bracket or a quote."""
    return symbol in PARTNERS or symbol in QUOTES


class KnownSymbols:
    """Tells which symbols a training text has, which are rare in it, and which it lacks."""

    def __init__(self, profile: TextProfile, characters: KnownCharacters) -> None:
        """Tell usual symbols from rare ones by the profile of a text and its characters."""
        self._profile, self._characters = profile, characters
        self._usual = set(profile.characters)
        if profile.sign_words is not None:
            counts = profile.characters.items()
            self._usual = {one for one, count in counts if count >= MIN_SYMBOL_COUNT or not is_symbol(one)}

    @property
    def comma(self) -> str:
        """A comma as the training text has it, `,` or ` ,`; empty where it has none."""
        return "" if "," not in self._usual else " ," if self._profile.is_usually_apart(",") else ","

    def has_all_often(self, text: str) -> bool:
        """Return whether the training text has all characters of `text`, symbols at least `MIN_SYMBOL_COUNT` times."""
        return self._usual.issuperset(text)

    def has_all(self, text: str) -> bool:
        """Return whether the training text has all characters of `text`."""
        return self._characters.has_all(text)

    def is_unknown(self, character: str) -> bool:
        """Return whether a character is a symbol for which the training text has neither itself nor an equivalent."""
        return is_symbol(character) and not self._characters.has_all(self._equivalent(character))

    def is_rare(self, symbol: str) -> bool:
        """Return whether the training text hardly has a symbol, or its equivalent if it lacks the symbol."""
        return not self._usual.issuperset(self._equivalent(symbol))

    def is_rare_unit(self, character: str) -> bool:
        """Return whether a character is a currency, percent or per mille sign that the training text hardly has."""
        return (is_currency(character) or character in PERCENT_SIGNS) and self._profile.characters.get(
            character, 0
        ) < MIN_SYMBOL_COUNT

    def is_rare_word(self, symbols: str) -> bool:
        """Return whether the training text hardly ever has some symbols as a word of their own."""
        if self._profile.sign_words is None:
            return any(map(self.is_rare, symbols))
        read = "".join(map(self._equivalent, symbols))
        return max(self._profile.sign_words.get(one, 0) for one in (symbols, read)) < MIN_SYMBOL_COUNT

    def _equivalent(self, symbol: str) -> str:
        return self._characters.equivalent(symbol, is_opening=True)
