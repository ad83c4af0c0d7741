"""The built-in English-French corpus: a small grammar whose sentences know their own word alignment.

A `Phrase` is aligned English and French; `weave` joins phrases by a pair of patterns, which is where words change
places and agree; `spell` turns a finished phrase into raw text. `Product` and `Either` describe all phrases of a kind
as a sequence that is counted and indexed without being built: a corpus is a sample of indices, without repetition.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, chain, permutations, product
from math import prod
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from nmt_cli.data import phrasebook_lexicon as words
from nmt_cli.data.phrasebook_lexicon import Adjective, Determiner, Gender, Noun, Verb
from nmt_cli.errors import InputError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """An English sentence, its French translation, and the links of their white-space words, from 0."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PhraseBook:
    """No source and no target sentence occurs twice, within a part or across them."""

    train: tuple[PhrasePair, ...]
    dev: tuple[PhrasePair, ...]
    test: tuple[PhrasePair, ...]


def generate(*, seed: int = 1, num_train: int = 20_000, num_dev: int = 500, num_test: int = 500) -> PhraseBook:
    """Draw a corpus that depends on the arguments alone. Raises InputError if the grammar cannot make that many."""
    wanted = num_train + num_dev + num_test
    if wanted > capacity():
        raise InputError(
            f"the phrase book has {capacity()} distinct sentence pairs, but {wanted} were asked for "
            f"({num_train} train, {num_dev} dev, {num_test} test); ask for fewer"
        )
    generator = random.Random(seed)
    pairs = [
        spell(phrases[index])
        for (_, phrases), share in zip(_kinds(), _shares(wanted), strict=True)
        for index in generator.sample(range(len(phrases)), share)
    ]
    generator.shuffle(pairs)
    dev_start, test_start = num_train, num_train + num_dev
    return PhraseBook(tuple(pairs[:dev_start]), tuple(pairs[dev_start:test_start]), tuple(pairs[test_start:]))


def write(book: PhraseBook, directory: Path) -> None:
    """Write train, dev and test as `.en`, `.fr` and Pharaoh `.align`, a sentence a line, into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("train", book.train), ("dev", book.dev), ("test", book.test)):
        _write_lines(directory / f"{name}.en", (pair.source for pair in pairs))
        _write_lines(directory / f"{name}.fr", (pair.target for pair in pairs))
        _write_lines(directory / f"{name}.align", (" ".join(f"{s}-{t}" for s, t in pair.links) for pair in pairs))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def capacity() -> int:
    """How many distinct pairs the grammar can make."""
    return sum(len(phrases) for _, phrases in _kinds())


def _shares(wanted: int) -> list[int]:
    """How many sentences of each kind: by weight, and what a small kind cannot give the larger ones do."""
    kinds = _kinds()
    shares = [0] * len(kinds)
    open_weight = sum(weight for weight, _ in kinds)
    for i in sorted(range(len(kinds)), key=lambda i: len(kinds[i][1]) / kinds[i][0]):
        weight, phrases = kinds[i]
        fair = -(-wanted * weight // open_weight)
        shares[i] = min(len(phrases), fair)
        wanted -= shares[i]
        open_weight -= weight
    return shares


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens before spelling (`le|l'`, `,`, `?`) and the links between them."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Nominal:
    """A noun phrase or pronoun, with the features that its verbs and adjectives agree with."""

    phrase: Phrase
    gender: Gender
    person: int
    """Which form of a verb: `JE`, `IL`, `NOUS`, `VOUS` or `ILS` of the lexicon."""


Item = Phrase | Nominal | Verb | Adjective


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a pattern: a token, or the slot of an item, which may agree with another."""

    token: str
    slot: int | None = None
    verb: Verb | None = None
    agrees_with: int | None = None

    def item(self, items: Sequence[Item]) -> Item | None:
        return self.verb if self.slot is None else items[self.slot]

    def controller(self, items: Sequence[Item]) -> Nominal | None:
        controller = None if self.agrees_with is None else items[self.agrees_with]
        return controller if isinstance(controller, Nominal) else None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The parts of both sides and the pairs of parts to link."""

    english: tuple[_Part, ...]
    french: tuple[_Part, ...]
    links: tuple[tuple[int, int], ...]


def weave(english: str, french: str, *items: Item) -> Phrase:
    """Put the items into the `<slots>` of both patterns, in the order in which the English names them.

    A slot is linked to its namesake. Words are linked when they share a label: `does/1`, `allez-vous/23` (labels 2
    and 3); those without one share the empty label. A verb or adjective agrees with the nominal after its colon,
    `<verb:subject>`; alone it has its base form. `<be:subject>` and the other auxiliaries are labelled like words.
    """
    pattern = _read_patterns(english, french)
    sources = [_english_tokens(part, items) for part in pattern.english]
    targets = [_french_tokens(part, items) for part in pattern.french]
    source_starts = [0, *accumulate(map(len, sources))]
    target_starts = [0, *accumulate(map(len, targets))]
    links: list[tuple[int, int]] = []
    for i, j in pattern.links:
        item = pattern.english[i].item(items)
        phrase = item.phrase if isinstance(item, Nominal) else item
        inner = phrase.links if isinstance(phrase, Phrase) else product(range(len(sources[i])), range(len(targets[j])))
        links.extend((source_starts[i] + s, target_starts[j] + t) for s, t in inner)
    return Phrase(tuple(chain.from_iterable(sources)), tuple(chain.from_iterable(targets)), tuple(links))


def _english_tokens(part: _Part, items: Sequence[Item]) -> Sequence[str]:
    match part.item(items):
        case Phrase() as phrase:
            return phrase.english
        case Nominal() as nominal:
            return nominal.phrase.english
        case Verb() as verb:
            subject = part.controller(items)
            return (verb.english[subject.person] if subject else verb.base).split()
        case Adjective() as adjective:
            return (adjective.english,)
    return (part.token,)


def _french_tokens(part: _Part, items: Sequence[Item]) -> Sequence[str]:
    controller = part.controller(items)
    match part.item(items):
        case Phrase() as phrase:
            return phrase.french
        case Nominal() as nominal:
            return nominal.phrase.french
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


def _read_token(token: str, names: list[str]) -> tuple[_Part, frozenset[str]]:
    """A token's part and its labels."""
    if token in (",", "."):
        return _Part(token), frozenset()
    if token in ("?", "!"):
        return _Part(token), frozenset({token})
    slot = _SLOT.fullmatch(token)
    if slot is None:
        word, _, labels = token.partition("/")
        return _Part(word), frozenset(labels or {""})
    agrees_with = names.index(slot["controller"]) if slot["controller"] else None
    if slot["name"] in words.AUXILIARIES:
        part = _Part(token, verb=words.AUXILIARIES[slot["name"]], agrees_with=agrees_with)
        return part, frozenset(slot["labels"] or {""})
    return _Part(token, slot=names.index(slot["name"]), agrees_with=agrees_with), frozenset({slot["name"]})


def spell(phrase: Phrase) -> PhrasePair:
    """Raw text: forms chosen by the next sound, elision, contraction, punctuation and a capital."""
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
    """Whether `le` is elided before the word; every h of the lexicon but that of `huit` is silent."""
    return word[0].lower() in "aàâeéèêiîoôuhœ" and word not in ("huit", "onze")


_CONTRACTIONS = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


def _join(tokens: Sequence[str], attached: str) -> tuple[str, list[int]]:
    """The text, and for each token the number of the white-space word it became part of."""
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
    """All phrases of a kind, as far as `len` and an index need them."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...


class Product(Generic[T]):
    """Everything that `build` makes of one item from each of the choices."""

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


class Either(Generic[T]):
    """The items of one choice after those of another."""

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
    """The number in words: `vingt et une` before a feminine noun."""
    return weave(words.english_number(value), words.french_number(value, gender))


def noun_phrase(determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, is_plural: bool) -> Nominal:
    """Determiner, adjectives in the English order, and noun; each French adjective takes its own side of the noun."""
    article = determiner.french[agreement(noun.gender, is_plural)]
    if article == "des" and any(adjective.precedes_noun for adjective in adjectives):
        article = "de|d'"  # de petites maisons, but des maisons rouges
    first = weave(determiner.english[is_plural], article)
    phrase = weave("<first> <noun>", "<first> <noun>", first, _described(adjectives, noun, is_plural))
    return Nominal(phrase, noun.gender, words.ILS if is_plural else words.IL)


def counted(count: int, adjectives: Sequence[Adjective], noun: Noun) -> Nominal:
    """Two or more: `twenty-one red cars`, `vingt et une voitures rouges`."""
    described = _described(adjectives, noun, is_plural=True)
    phrase = weave("<count> <noun>", "<count> <noun>", number(count, noun.gender), described)
    return Nominal(phrase, noun.gender, words.ILS)


def _described(adjectives: Sequence[Adjective], noun: Noun, is_plural: bool) -> Phrase:
    form = agreement(noun.gender, is_plural)
    phrase = weave(noun.english[is_plural], noun.french[is_plural])
    for adjective in reversed(adjectives):
        french = "<adjective> <noun>" if adjective.precedes_noun else "<noun> <adjective>"
        phrase = weave("<adjective> <noun>", french, weave(adjective.english, adjective.french[form]), phrase)
    return phrase


def agreement(gender: Gender, is_plural: bool) -> int:
    """The place of a form in the order m.sg., f.sg., m.pl., f.pl."""
    return (gender == "f") + 2 * is_plural


def clock(hour: int, pattern: tuple[str, str]) -> Phrase:
    """A time of day: `half past one`, `une heure et demie`."""
    english, french = pattern
    return weave(english, french.replace("heures", "heure") if hour == 1 else french, number(hour, "f"))


def _nouns(
    determiners: Sequence[Determiner],
    adjectives: Sequence[Sequence[Adjective]],
    nouns: Sequence[Noun],
    numbers: Sequence[bool] = (False, True),
) -> Choices[Nominal]:
    return Product(noun_phrase, determiners, adjectives, nouns, numbers)


def _texts(pairs: Iterable[tuple[str, str]]) -> tuple[Phrase, ...]:
    return tuple(weave(english, french) for english, french in pairs)


def _rule(english: str, french: str, *choices: Choices[Item]) -> Choices[Phrase]:
    """All sentences of the two patterns with an item of each choice in its slot."""
    return Product(partial(weave, english, french), *choices)


_PLAIN: tuple[tuple[Adjective, ...], ...] = ((),)
_THING_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD, *words.COLOURS, *words.THING_QUALITIES))
_TWO_ADJECTIVES = tuple(product(words.LOOKS, words.COLOURS))
_PLACE_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD, *words.PLACE_QUALITIES))
_STRANGER_ADJECTIVES = tuple((a,) for a in (words.YOUNG, words.OLD, words.SMALL, words.BEAUTIFUL, *words.MOODS))
_RELATION_ADJECTIVES = tuple((a,) for a in (words.YOUNG, words.OLD, words.GOOD, *words.MOODS))
_PRAISED_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD))
_THE = (words.THE, words.THIS)
_ANY = (*words.DEFINITES, words.A)
_AFTER_NOT = (*words.DEFINITES, words.NOT_A)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What several kinds of sentence share."""

    pronouns: Choices[Nominal]
    others: Choices[Nominal]
    """The pronouns whose French predicate has a certain gender: he, she, they."""
    people: Choices[Nominal]
    described_people: Choices[Nominal]
    things: Choices[Nominal]
    described_things: Choices[Nominal]
    places: Choices[Nominal]
    described_places: Choices[Nominal]
    moments: Choices[Phrase]
    cities: Choices[Phrase]


def _parts() -> _Parts:
    definites, possessives = words.DEFINITES, words.POSSESSIVES
    pronouns = tuple(Nominal(weave(en, fr), gender, person) for en, fr, gender, person in words.PRONOUNS)
    return _Parts(
        pronouns=pronouns,
        others=tuple(pronoun for pronoun in pronouns if pronoun.person in (words.IL, words.ILS)),
        people=Either(
            _nouns(_THE, _PLAIN, words.STRANGERS),
            _nouns(possessives, _PLAIN, words.RELATIONS),
        ),
        described_people=Either(
            _nouns(_THE, _STRANGER_ADJECTIVES, words.STRANGERS),
            _nouns(possessives, _RELATION_ADJECTIVES, words.RELATIONS),
        ),
        things=_nouns(definites, _PLAIN, words.THINGS),
        described_things=_nouns(definites, _THING_ADJECTIVES, words.THINGS),
        places=_nouns(_THE, _PLAIN, words.PLACES, numbers=(False,)),
        described_places=_nouns(_THE, _PLACE_ADJECTIVES, words.PLACES),
        moments=_texts(words.MOMENTS),
        cities=_texts(words.CITIES),
    )


Kinds = tuple[tuple[int, Choices[Phrase]], ...]


@cache
def _kinds() -> Kinds:
    """Every kind of sentence with its weight."""
    parts = _parts()
    return (
        *_descriptions(parts),
        *_dealings(parts),
        *_questions_and_clauses(parts),
        *_travels(parts),
        *_people(parts),
        *_times_and_prices(parts),
        *_courtesies(parts),
    )


def _descriptions(parts: _Parts) -> Kinds:
    colours, qualities = words.COLOURS, words.THING_QUALITIES
    is_so = ("<it> <be:it> <adjective>.", "<it> <be:it> <adjective:it>.")
    is_not = ("<it> <be:it>/1 not/2 <adjective>.", "<it> ne|n'/2 <be:it>/1 pas/2 <adjective:it>.")
    is_it = ("<be:it> <it> <adjective>?", "est-ce que|qu' <it> <be:it> <adjective:it>?")
    why = ("why/1 <be:it>/2 <it> <adjective>?", "pourquoi/1 est-ce/2 que|qu'/2 <it> <be:it>/2 <adjective:it>?")
    degree = ("<it> <be:it> <degree> <adjective>.", "<it> <be:it> <degree> <adjective:it>.")
    more = (
        "<it> <be:it>/1 more/2 <adjective> than/3 <that>.",
        "<it> <be:it>/1 plus/2 <adjective:it> que|qu'/3 <that>.",
    )
    coloured = _nouns(words.DEFINITES, tuple((a,) for a in colours), words.THINGS)
    degrees = _texts(words.DEGREES)
    return (
        (2, _rule(*is_so, parts.things, (*words.LOOKS, *colours, *qualities))),
        (3, _rule(*is_so, coloured, (*words.LOOKS, *qualities))),
        (2, _rule(*is_so, parts.described_people, words.MOODS)),
        (1, _rule(*is_so, parts.others, words.MOODS)),
        (2, _rule(*is_not, coloured, (*words.LOOKS, *qualities))),
        (2, _rule(*is_not, parts.people, words.MOODS)),
        (2, _rule(*is_it, coloured, (*words.LOOKS, *qualities))),
        (1, _rule(*is_it, parts.people, words.MOODS)),
        (1, _rule(*why, parts.people, words.MOODS)),
        (1, _rule(*why, coloured, qualities)),
        (2, _rule(*degree, coloured, degrees, (*words.LOOKS, *qualities))),
        (2, _rule(*degree, parts.people, degrees, words.MOODS)),
        (2, _rule(*more, coloured, words.COMPARED, parts.things)),
        (3, _rule("<what>!", "<what>!", _nouns((words.WHAT_A,), _PRAISED_ADJECTIVES, (*words.THINGS, *words.PLACES)))),
    )


def _dealings(parts: _Parts) -> Kinds:
    does = ("<who> <verb:who> <what>.", "<who> <verb:who> <what>.")
    both = ("<who> <verb:who> <what> and <more>.", "<who> <verb:who> <what> et <more>.")
    often = ("<who> <often> <verb:who> <what>.", "<who> <verb:who> <often> <what>.")
    does_not = ("<who> <don't:who> <verb> <what>.", "<who> ne|n' <verb:who> pas <what>.")
    never = ("<who> never <verb:who> <what>.", "<who> ne|n' <verb:who> jamais <what>.")
    described = _nouns(_ANY, _THING_ADJECTIVES, words.THINGS)
    described_twice = _nouns(_ANY, _TWO_ADJECTIVES, words.THINGS)
    after_not = _nouns(_AFTER_NOT, _THING_ADJECTIVES, words.THINGS)
    several = Product(counted, range(2, 100), (*_PLAIN, *_THING_ADJECTIVES), words.THINGS)
    plain = _nouns(_ANY, _PLAIN, words.THINGS)
    return (
        (4, _rule(*does, parts.pronouns, words.DEALING, described)),
        (3, _rule(*does, parts.people, words.DEALING, described)),
        (3, _rule(*does, parts.pronouns, words.DEALING, described_twice)),
        (3, _rule(*does, parts.pronouns, words.DEALING, several)),
        (2, _rule(*does, parts.pronouns, words.LIKING, parts.described_things)),
        (2, _rule(*does, parts.pronouns, words.MEETING, parts.described_people)),
        (2, _rule(*both, parts.pronouns, words.DEALING, plain, plain)),
        (2, _rule(*often, parts.people, _texts(words.FREQUENCIES), words.DEALING, plain)),
        (3, _rule(*does_not, parts.pronouns, words.DEALING, after_not)),
        (2, _rule(*does_not, parts.people, words.DEALING, after_not)),
        (1, _rule(*does_not, parts.pronouns, words.LIKING, parts.described_things)),
        (2, _rule(*never, parts.pronouns, words.DEALING, after_not)),
    )


def _questions_and_clauses(parts: _Parts) -> Kinds:
    asks = ("<do:who> <who> <verb> <what>?", "est-ce que|qu' <who> <verb:who> <what>?")
    asks_why = ("why/1 <do:who>/2 <who> <verb> <what>?", "pourquoi/1 est-ce/2 que|qu'/2 <who> <verb:who> <what>?")
    which = ("<which> <do:who> <who> <verb>?", "<which> est-ce que|qu' <who> <verb:who>?")
    knows = (
        "<who> <verb:who> <person> who <does:person> <what>.",
        "<who> <verb:who> <person> qui <does:person> <what>.",
    )
    doer = (
        "<who> who/1 <does:who> <what> <be:who>/2 <adjective>.",
        "<who> qui/1 <does:who> <what> <be:who>/2 <adjective:who>.",
    )
    wanted = (
        "<what> that/1 <who> <does:who> <be:what>/2 <adjective>.",
        "<what> que|qu'/1 <who> <does:who> <be:what>/2 <adjective:what>.",
    )
    where = ("where/1 <be:it>/2 <it>?", "où/1 <be:it>/2 <it>?")
    described = _nouns(_ANY, _THING_ADJECTIVES, words.THINGS)
    coloured = _nouns((words.THE,), tuple((a,) for a in words.COLOURS), words.THINGS)
    strangers = _nouns((words.THE,), _PLAIN, words.STRANGERS)
    who = (Nominal(weave("who", "qui"), "m", words.IL),)
    return (
        (3, _rule(*asks, parts.pronouns, words.DEALING, described)),
        (2, _rule(*asks, parts.people, words.DEALING, described)),
        (1, _rule(*asks, parts.pronouns, words.MEETING, parts.described_people)),
        (2, _rule(*asks_why, parts.pronouns, words.DEALING, parts.described_things)),
        (1, _rule(*which, _nouns((words.WHICH,), _THING_ADJECTIVES, words.THINGS), parts.pronouns, words.DEALING)),
        (1, _rule("<who> <verb:who> <what>?", "<who> <verb:who> <what>?", who, words.DEALING, described)),
        (2, _rule(*knows, parts.pronouns, words.MEETING, strangers, words.DEALING, parts.things)),
        (2, _rule(*doer, strangers, words.DEALING, parts.things, words.MOODS)),
        (3, _rule(*wanted, coloured, parts.pronouns, words.DEALING, words.THING_QUALITIES)),
        (1, _rule(*where, parts.things)),
        (2, _rule(*where, parts.described_things)),
        (1, _rule(*where, parts.described_places)),
        (1, _rule(*where, parts.described_people)),
    )


def _travels(parts: _Parts) -> Kinds:
    at = ("<it> <be:it> <near> <place>.", "<it> <be:it> <near> <place>.")
    there_is = ("there/1 <be:it>/2 <it> <near> <place>.", "il/1 y/1 a/2 <it> <near> <place>.")
    is_there = ("<be:it>/1 there/2 <it> <near> <place>?", "est-ce/1 qu'/1 il/2 y/2 a/1 <it> <near> <place>?")
    goes = ("<who> <go:who>/1 to/2 <place> <moment>.", "<who> <go:who>/1 à/2 <place> <moment>.")
    comes = ("<who> <come:who>/1 from/2 <place>.", "<who> <come:who>/1 de|d'/2 <place>.")
    near = _texts(words.POSITIONS)
    found_things = _nouns((words.A,), _THING_ADJECTIVES, words.THINGS)
    found_places = _nouns((words.A,), _PLACE_ADJECTIVES, words.PLACES)
    some_places = _nouns((words.THE,), (*_PLAIN, *_PLACE_ADJECTIVES), words.PLACES)
    return (
        (2, _rule(*at, parts.described_things, near, parts.places)),
        (1, _rule(*at, parts.pronouns, near, some_places)),
        (2, _rule(*at, _nouns(_THE, _PLACE_ADJECTIVES, words.PLACES), near, parts.places)),
        (2, _rule(*there_is, found_things, near, parts.places)),
        (2, _rule(*is_there, found_places, near, parts.places)),
        (2, _rule(*goes, parts.pronouns, some_places, parts.moments)),
        (2, _rule(*goes, parts.people, Either(parts.cities, parts.places), parts.moments)),
        (1, _rule(*comes, parts.pronouns, Either(parts.cities, some_places))),
        (1, _rule(*comes, parts.people, Either(parts.cities, parts.places))),
    )


def _people(parts: _Parts) -> Kinds:
    feels = ("<who> <be:who> <feeling>.", "<who> <have:who> <feeling>.")
    feels_not = ("<who> <be:who>/1 not/2 <feeling>.", "<who> ne|n'/2 <have:who>/1 pas/2 <feeling>.")
    asks_feeling = ("<be:who> <who> <feeling>?", "est-ce que|qu' <who> <have:who> <feeling>?")
    is_old = ("<who> <be:who>/1 <age> years/2 old/2.", "<who> <have:who>/1 <age> ans/2.")
    works = ("<who> <verb:who> <moment>.", "<who> <verb:who> <moment>.")
    works_not = ("<who> <don't:who> <verb> <moment>.", "<who> ne|n' <verb:who> pas <moment>.")
    asks_work = ("<do:who> <who> <verb> <moment>?", "est-ce que|qu' <who> <verb:who> <moment>?")
    one = Either(
        _nouns(_THE, (*_PLAIN, *_STRANGER_ADJECTIVES), words.STRANGERS, numbers=(False,)),
        _nouns(words.POSSESSIVES, (*_PLAIN, *_RELATION_ADJECTIVES), words.RELATIONS, numbers=(False,)),
    )
    feelings, professions = _texts(words.FEELINGS), _texts(words.PROFESSIONS)
    ages = Product(number, range(2, 100))
    return (
        (1, _rule(*feels, parts.pronouns, feelings)),
        (1, _rule(*feels, parts.people, feelings)),
        (1, _rule(*feels_not, parts.pronouns, feelings)),
        (1, _rule(*feels_not, parts.people, feelings)),
        (1, _rule(*asks_feeling, parts.people, feelings)),
        (1, _rule(*is_old, parts.pronouns, ages)),
        (3, _rule(*is_old, parts.people, ages)),
        (1, _rule("<who> <be:who> <what>.", "<who> <be:who> <what>.", one, professions)),
        (1, _rule(*works, parts.pronouns, words.DOING, parts.moments)),
        (1, _rule(*works, parts.described_people, words.DOING, parts.moments)),
        (1, _rule(*works_not, parts.pronouns, words.DOING, parts.moments)),
        (1, _rule(*works_not, parts.people, words.DOING, parts.moments)),
        (1, _rule(*asks_work, parts.people, words.DOING, parts.moments)),
    )


def _times_and_prices(parts: _Parts) -> Kinds:
    leaves = ("<it> <route> <verb:it> at <time>.", "<it> <route> <verb:it> à <time>.")
    opens = ("<it> <verb:it> at <time> <day>.", "<it> <verb:it> à <time> <day>.")
    what_time = (
        "what/1 time/2 <do:it>/3 <it> <verb> <moment>?",
        "à/1 quelle/1 heure/2 <verb:it> <it> <moment>?",
    )
    it_is = ("it/1 is/2 <time>.", "il/1 est/2 <time>.")
    weather = ("it/1 is/2 <weather> in/3 <city> <moment>.", "il/1 fait/2 <weather> à/3 <city> <moment>.")
    how_much = ("how/1 much/1 <do:it>/2 <it> cost/2?", "combien/1 <cost:it>/2 <it>?")
    costs = ("<it> <cost:it>/1 <price> euros/2.", "<it> <cost:it>/1 <price> euros/2.")
    days = _texts(words.DAYS)
    the_places = _nouns((words.THE,), _PLAIN, words.PLACES)
    clock_times = Product(clock, range(1, 12), words.CLOCK)
    times: Choices[Phrase] = Either(clock_times, _texts(words.TWELVES))
    routes = tuple(
        weave("from/1 <here> to/2 <there>", "de|d'/1 <here> à/2 <there>", here, there)
        for here, there in permutations(_texts(words.CITIES), 2)
    )
    vehicles = _nouns((words.THE,), _PLAIN, words.VEHICLES)
    prices = Product(number, range(2, 100))
    return (
        (3, _rule(*leaves, vehicles, routes, words.MOVING, times)),
        (1, _rule(*opens, the_places, words.OPENING, _texts(words.TWELVES), days)),
        (2, _rule(*opens, _nouns(_THE, _PLAIN, words.PLACES), words.OPENING, clock_times, days)),
        (1, _rule(*what_time, _nouns(_THE, _PLAIN, words.VEHICLES), words.MOVING, parts.moments)),
        (1, _rule(*what_time, _nouns(_THE, _PLAIN, words.PLACES), words.OPENING, parts.moments)),
        (1, _rule(*it_is, times)),
        (1, _rule("it/1 is/2 <time> <part>.", "il/1 est/2 <time> <part>.", clock_times, _texts(words.DAY_PARTS))),
        (1, _rule(*weather, _texts(words.WEATHER), parts.cities, parts.moments)),
        (1, _rule(*how_much, parts.things)),
        (3, _rule(*how_much, parts.described_things)),
        (3, _rule(*costs, parts.described_things, prices)),
    )


def _courtesies(parts: _Parts) -> Kinds:
    where = (
        "excuse/1 me/1, <address>, where/2 <be:it>/3 <it>?",
        "excusez-moi/1, <address>, où/2 <be:it>/3 <it>?",
    )
    would_like = ("I/1 would/2 like/2 <it>, please/3.", "je/1 voudrais/2 <it>, s'il/3 vous/3 plaît/3.")
    how_are_you = ("<greeting>, <address>, how/1 are/2 you/3?", "<greeting>, <address>, comment/1 allez-vous/23?")
    my_name_is = ("<greeting>, my/1 name/1 is/1 <name>.", "<greeting>, je/1 m'appelle/1 <name>.")
    addresses = _texts(words.ADDRESSES)
    described = _nouns(_ANY, _THING_ADJECTIVES, words.THINGS)
    few = tuple(number(value) for value in range(2, 21))
    tickets = _rule("<few> tickets/1 to/2 <city>", "<few> billets/1 pour/2 <city>", few, parts.cities)
    tables = _rule("a|an/1 table/2 for/3 <few> people/4", "une/1 table/2 pour/3 <few> personnes/4", few)
    return (
        (1, _rule("<greeting>, <address>.", "<greeting>, <address>.", _texts(words.GREETINGS), addresses)),
        (1, _rule(*how_are_you, _texts(words.WELCOMES), addresses)),
        (1, _rule(*my_name_is, _texts(words.WELCOMES), _texts(words.NAMES))),
        (3, _rule(*where, addresses, Either(parts.places, parts.described_places))),
        (3, _rule(*would_like, described)),
        (1, _rule(*would_like, Either(tickets, tables))),
        (3, _rule("<it>, please.", "<it>, s'il vous plaît.", parts.described_things)),
        (2, _rule("please <verb> <it>.", "<verb> <it>, s'il vous plaît.", _texts(words.COMMANDS), described)),
        (1, _rule("thank/1 you/1 for/2 <it>.", "merci/1 pour/2 <it>.", parts.described_things)),
        (2, _rule("here <be:it> <it>.", "voici <it>.", described)),
    )
