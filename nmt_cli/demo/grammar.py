"""The grammar of the phrase book, which makes English-French phrase pairs together with their word alignment.

A `Phrase` has aligned English and French tokens. `fill_patterns` joins phrases by a pair of patterns, which may order
the words differently and makes them agree. `spell` turns a finished phrase into raw text. `Product` and `Concatenation`
are sequences of all phrases of a kind, which can be counted and indexed without building them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, product
from math import prod
from typing import Any, Generic, Protocol, TypeVar

from nmt_cli.demo import lexicon as words
from nmt_cli.demo.lexicon import Adjective, Determiner, Gender, Noun, Verb

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """An English sentence, its French translation, and the linked pairs (English, French) of white-space word indices.

    The indices start at 0.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """English and French tokens before `spell` joins them, and the linked pairs (English, French) of token indices.

    A token `a|b`, such as `le|l'`, becomes `b` before a vowel sound and `a` elsewhere. Indices start at 0.
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Nominal:
    """A noun phrase or pronoun, with the features that its verbs and adjectives agree with."""

    phrase: Phrase
    gender: Gender
    person: int
    """Grammatical person and number as the index of a verb form: `JE`, `IL`, `NOUS`, `VOUS` or `ILS` of the lexicon."""


Item = Phrase | Nominal | Verb | Adjective


@dataclass(frozen=True, slots=True)
class _PatternPart:
    """One part of a pattern: a word, a slot for an item, or an auxiliary verb.

    `slot` is the index of the item that fills a slot, and `agrees_with` that of the item with which a verb or adjective
    agrees. `verb` is the auxiliary verb.
    """

    token: str
    slot: int | None = None
    verb: Verb | None = None
    agrees_with: int | None = None

    def item(self, items: Sequence[Item]) -> Phrase | Verb | Adjective | None:
        item = self.verb if self.slot is None else items[self.slot]
        return item.phrase if isinstance(item, Nominal) else item

    def controller(self, items: Sequence[Item]) -> Nominal | None:
        controller = None if self.agrees_with is None else items[self.agrees_with]
        return controller if isinstance(controller, Nominal) else None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The parts of an English and a French pattern, and the pairs (English, French) of indices of parts to link."""

    english: tuple[_PatternPart, ...]
    french: tuple[_PatternPart, ...]
    links: tuple[tuple[int, int], ...]


def fill_patterns(english: str, french: str, *items: Item) -> Phrase:
    """Return the phrase made from an English and a French pattern, with `items` in their slots, such as `<noun>`.

    The items are in the order in which the English pattern first names the slots. A slot is linked to the slot of the
    same name. Words are linked if they share a label: `does/1`, `allez-vous/23`
    (labels 2 and 3); words without a label share the empty one. A verb or adjective agrees with the nominal that its
    slot names after a colon, as in `<verb:subject>`; without one it has its base form. `<be:subject>` and the other
    auxiliaries are labelled like words.
    """
    pattern = _read_patterns(english, french)
    sources = [_english_tokens(part, items) for part in pattern.english]
    targets = [_french_tokens(part, items) for part in pattern.french]
    source_starts = [0, *accumulate(map(len, sources))]
    target_starts = [0, *accumulate(map(len, targets))]
    links: list[tuple[int, int]] = []
    for i, j in pattern.links:
        phrase = pattern.english[i].item(items)
        inner = phrase.links if isinstance(phrase, Phrase) else product(range(len(sources[i])), range(len(targets[j])))
        links.extend((source_starts[i] + s, target_starts[j] + t) for s, t in inner)
    return Phrase(tuple(chain.from_iterable(sources)), tuple(chain.from_iterable(targets)), tuple(links))


def _english_tokens(part: _PatternPart, items: Sequence[Item]) -> Sequence[str]:
    match part.item(items):
        case Phrase() as phrase:
            return phrase.english
        case Verb() as verb:
            subject = part.controller(items)
            return (verb.english[subject.person] if subject else verb.base).split()
        case Adjective() as adjective:
            return (adjective.english,)
    return (part.token,)


def _french_tokens(part: _PatternPart, items: Sequence[Item]) -> Sequence[str]:
    controller = part.controller(items)
    match part.item(items):
        case Phrase() as phrase:
            return phrase.french
        case Verb() as verb if controller:
            return (verb.french[controller.person],)
        case Adjective() as adjective if controller:
            form = adjective.french[agreement(controller.gender, controller.person == words.ILS)]
            return (form.partition("|")[0],)  # vieil only before its noun
    return (part.token,)


@cache
def _read_patterns(english: str, french: str) -> _Pattern:
    tokens = [_SLOT.fullmatch(token) for token in _split(english)]
    names = list(dict.fromkeys(slot["name"] for slot in tokens if slot and slot["name"] not in words.AUXILIARIES))
    sources, targets = ([_read_token(token, names) for token in _split(pattern)] for pattern in (english, french))
    links = ((i, j) for i, (_, ours) in enumerate(sources) for j, (_, theirs) in enumerate(targets) if ours & theirs)
    return _Pattern(tuple(part for part, _ in sources), tuple(part for part, _ in targets), tuple(links))


def _split(pattern: str) -> list[str]:
    return re.sub(r"([,.?!])", r" \1", pattern).split()


_SLOT = re.compile(r"<(?P<name>[\w']+)(:(?P<controller>\w+))?>(/(?P<labels>\d+))?")


def _read_token(token: str, names: list[str]) -> tuple[_PatternPart, frozenset[str]]:
    """Return a token of a pattern as a part, and the labels by which it is linked to parts of the other pattern.

    `names` are the names of the slots, in the order of the items.
    """
    if token in (",", "."):
        return _PatternPart(token), frozenset()
    if token in ("?", "!"):
        return _PatternPart(token), frozenset({token})
    slot = _SLOT.fullmatch(token)
    if slot is None:
        word, _, labels = token.partition("/")
        return _PatternPart(word), frozenset(labels or {""})
    agrees_with = names.index(slot["controller"]) if slot["controller"] else None
    if slot["name"] in words.AUXILIARIES:
        part = _PatternPart(token, verb=words.AUXILIARIES[slot["name"]], agrees_with=agrees_with)
        return part, frozenset(slot["labels"] or {""})
    return _PatternPart(token, slot=names.index(slot["name"]), agrees_with=agrees_with), frozenset({slot["name"]})


def spell(phrase: Phrase) -> PhrasePair:
    """Return a phrase as raw text: elided and contracted, with punctuation, and a capital at the beginning."""
    source, source_places = _join(_choose_forms(phrase.english, _has_english_vowel), attached=",.?!")
    target, target_places = _join(_choose_forms(phrase.french, _has_french_vowel), attached=",.")
    links = {(source_places[s], target_places[t]) for s, t in phrase.links}
    return PhrasePair(source[0].upper() + source[1:], target[0].upper() + target[1:], tuple(sorted(links)))


def _choose_forms(tokens: Sequence[str], has_vowel: Callable[[str], bool]) -> list[str]:
    chosen: list[str] = []
    following = "."
    for token in reversed(tokens):
        plain, _, before_vowel = token.partition("|")
        following = before_vowel if before_vowel and has_vowel(following) else plain
        chosen.append(following)
    return chosen[::-1]


def _has_english_vowel(word: str) -> bool:
    return word[0] in "aeiouAEIOU"


def _has_french_vowel(word: str) -> bool:
    """Return whether `le` is elided before the word; in the lexicon, only the h of `huit` is not silent."""
    return word[0].lower() in "aàâeéèêiîoôuhœ" and word not in ("huit", "onze")


_CONTRACTIONS = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


def _join(tokens: Sequence[str], attached: str) -> tuple[str, list[int]]:
    """Return the tokens joined to a text, and for each token the index of its white-space word in that text.

    Tokens that are in `attached`, such as `,`, are written without a space before them.
    """
    text: list[str] = []
    places: list[int] = []
    for token in tokens:
        last = text[-1] if text else ""
        if last.endswith("'") or (last and token in attached):
            text[-1] += token
        elif (last, token) in _CONTRACTIONS:
            text[-1] = _CONTRACTIONS[last, token]
        else:
            text.append(token)
        places.append(len(text) - 1)
    return " ".join(text), places


class Choices(Protocol[T_co]):
    """Protocol of a sequence, such as all phrases of a kind, that only has a length and an index operator."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...


class Product(Generic[T]):
    """Sequence of the results of `build` for all combinations of one item from each choice, built when indexed."""

    def __init__(self, build: Callable[..., T], *choices: Choices[Any]) -> None:
        self._build = build
        self._choices = choices
        self._length = prod(len(choice) for choice in choices)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int, /) -> T:
        items = []
        for choice in self._choices:
            index, position = divmod(index, len(choice))
            items.append(choice[position])
        return self._build(*items)


class Concatenation(Generic[T]):
    """Sequence of the items of several choices, one choice after the other."""

    def __init__(self, *options: Choices[T]) -> None:
        self._options = options

    def __len__(self) -> int:
        return sum(len(option) for option in self._options)

    def __getitem__(self, index: int, /) -> T:
        for option in self._options:
            if index < len(option):
                return option[index]
            index -= len(option)
        raise IndexError("index beyond the last choice")


def number(value: int, gender: Gender = "m") -> Phrase:
    """Return a number from 0 to 99 in English and French words; the French agrees with `gender` (`vingt et une`)."""
    return fill_patterns(words.english_number(value), words.french_number(value, gender))


def noun_phrase(determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, is_plural: bool) -> Nominal:
    """Return a noun phrase of a determiner, adjectives in English order, and a noun.

    Each French adjective is put before or after the noun, as it demands.
    """
    article = determiner.french[agreement(noun.gender, is_plural)]
    if article == "des" and any(adjective.precedes_noun for adjective in adjectives):
        article = "de|d'"  # de petites maisons, but des maisons rouges
    first = fill_patterns(determiner.english[is_plural], article)
    phrase = fill_patterns("<first> <noun>", "<first> <noun>", first, _modified_noun(adjectives, noun, is_plural))
    return Nominal(phrase, noun.gender, words.ILS if is_plural else words.IL)


def numeral_phrase(count: int, adjectives: Sequence[Adjective], noun: Noun) -> Nominal:
    """Return a noun phrase with a number, two or more: `twenty-one red cars`, `vingt et une voitures rouges`."""
    described = _modified_noun(adjectives, noun, is_plural=True)
    phrase = fill_patterns("<count> <noun>", "<count> <noun>", number(count, noun.gender), described)
    return Nominal(phrase, noun.gender, words.ILS)


def _modified_noun(adjectives: Sequence[Adjective], noun: Noun, is_plural: bool) -> Phrase:
    form = agreement(noun.gender, is_plural)
    phrase = fill_patterns(noun.english[is_plural], noun.french[is_plural])
    for adjective in reversed(adjectives):
        french = "<adjective> <noun>" if adjective.precedes_noun else "<noun> <adjective>"
        phrase = fill_patterns(
            "<adjective> <noun>", french, fill_patterns(adjective.english, adjective.french[form]), phrase
        )
    return phrase


def agreement(gender: Gender, is_plural: bool) -> int:
    """Return the index (0 to 3) of a French form by gender and number: m.sg., f.sg., m.pl., f.pl."""
    return (gender == "f") + 2 * is_plural


def clock(hour: int, pattern: tuple[str, str]) -> Phrase:
    """Return a time of day by an English and a French pattern with `<hour>`: `half past one`, `une heure et demie`."""
    english, french = pattern
    return fill_patterns(english, french.replace("heures", "heure") if hour == 1 else french, number(hour, "f"))
