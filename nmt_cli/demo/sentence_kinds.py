"""The kinds of sentence in the phrase book, made from the grammar and the lexicon. A kind's weight is its share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import permutations, product

from nmt_cli.demo import lexicon as words
from nmt_cli.demo.grammar import (
    Choices,
    Concatenation,
    Item,
    Nominal,
    Phrase,
    Product,
    clock,
    fill_patterns,
    noun_phrase,
    number,
    numeral_phrase,
)
from nmt_cli.demo.lexicon import Adjective, Determiner, Noun


def _noun_phrases(
    determiners: Sequence[Determiner],
    adjectives: Sequence[Sequence[Adjective]],
    nouns: Sequence[Noun],
    numbers: Sequence[bool] = (False, True),
) -> Choices[Nominal]:
    return Product(noun_phrase, determiners, adjectives, nouns, numbers)


def _texts(pairs: Iterable[tuple[str, str]]) -> tuple[Phrase, ...]:
    return tuple(fill_patterns(english, french) for english, french in pairs)


def _kinds(*table: str | tuple[int, *tuple[Choices[Item], ...]]) -> tuple[tuple[int, Choices[Phrase]], ...]:
    """Return for each row of a table its weight, and the sequence of all sentences that its choices make.

    The table holds pairs of patterns, `ENGLISH = FRENCH`, each followed by its rows. A row has a weight and a sequence
    of choices for each slot of the patterns.
    """
    kinds: list[tuple[int, Choices[Phrase]]] = []
    for row in table:
        if isinstance(row, str):
            english, french = row.split(" = ")
        else:
            weight, *choices = row
            kinds.append((weight, Product(partial(fill_patterns, english, french), *choices)))
    return tuple(kinds)


# Adjectives before or behind a noun: none, one or two.
_NO_ADJECTIVES: tuple[tuple[Adjective, ...], ...] = ((),)
_COLOUR_ADJECTIVES = tuple((a,) for a in words.COLOURS)
_THING_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD, *words.COLOURS, *words.THING_QUALITIES))
_PLACE_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD, *words.PLACE_QUALITIES))
_STRANGER_ADJECTIVES = tuple(
    (a,) for a in (words.YOUNG, words.OLD, words.SMALL, words.BEAUTIFUL, *words.PERSON_QUALITIES)
)
_RELATION_ADJECTIVES = tuple((a,) for a in (words.YOUNG, words.OLD, words.GOOD, *words.PERSON_QUALITIES))
_PRAISED_ADJECTIVES = tuple((a,) for a in (*words.LOOKS, words.GOOD))
_THE = (words.THE, words.THIS)
_DETERMINERS = (*words.DEFINITES, words.A)
_NEGATED_DETERMINERS = (*words.DEFINITES, words.NOT_A)
_QUALITIES = (*words.LOOKS, *words.THING_QUALITIES)

# Noun phrases and other parts that several kinds of sentence share.
_PRONOUNS = tuple(Nominal(fill_patterns(en, fr), gender, person) for en, fr, gender, person in words.PRONOUNS)
_THIRD_PERSON_PRONOUNS = tuple(pronoun for pronoun in _PRONOUNS if pronoun.person in (words.IL, words.ILS))
"""The pronouns he, she and they, with which a French adjective has a definite gender."""
_PEOPLE = Concatenation(
    _noun_phrases(_THE, _NO_ADJECTIVES, words.STRANGERS),
    _noun_phrases(words.POSSESSIVES, _NO_ADJECTIVES, words.RELATIONS),
)
_DESCRIBED_PEOPLE = Concatenation(
    _noun_phrases(_THE, _STRANGER_ADJECTIVES, words.STRANGERS),
    _noun_phrases(words.POSSESSIVES, _RELATION_ADJECTIVES, words.RELATIONS),
)
_ONE_PERSON = Concatenation(
    _noun_phrases(_THE, (*_NO_ADJECTIVES, *_STRANGER_ADJECTIVES), words.STRANGERS, (False,)),
    _noun_phrases(words.POSSESSIVES, (*_NO_ADJECTIVES, *_RELATION_ADJECTIVES), words.RELATIONS, (False,)),
)
_THE_STRANGERS = _noun_phrases((words.THE,), _NO_ADJECTIVES, words.STRANGERS)
_THINGS = _noun_phrases(words.DEFINITES, _NO_ADJECTIVES, words.THINGS)
_DESCRIBED_THINGS = _noun_phrases(words.DEFINITES, _THING_ADJECTIVES, words.THINGS)
_COLOURED_THINGS = _noun_phrases(words.DEFINITES, _COLOUR_ADJECTIVES, words.THINGS)
_ANY_THINGS = _noun_phrases(_DETERMINERS, _NO_ADJECTIVES, words.THINGS)
_ANY_DESCRIBED = _noun_phrases(_DETERMINERS, _THING_ADJECTIVES, words.THINGS)
_COLOURED_LOOKS = _noun_phrases(_DETERMINERS, tuple(product(words.LOOKS, words.COLOURS)), words.THINGS)
_COUNTED_THINGS = Product(numeral_phrase, range(2, 100), (*_NO_ADJECTIVES, *_THING_ADJECTIVES), words.THINGS)
_THE_COLOURED_THINGS = _noun_phrases((words.THE,), _COLOUR_ADJECTIVES, words.THINGS)
_NO_THINGS = _noun_phrases(_NEGATED_DETERMINERS, _THING_ADJECTIVES, words.THINGS)
_PLACES = _noun_phrases(_THE, _NO_ADJECTIVES, words.PLACES, (False,))
_DESCRIBED_PLACES = _noun_phrases(_THE, _PLACE_ADJECTIVES, words.PLACES)
_ALL_PLACES = _noun_phrases(_THE, _NO_ADJECTIVES, words.PLACES)
_SOME_PLACES = _noun_phrases((words.THE,), (*_NO_ADJECTIVES, *_PLACE_ADJECTIVES), words.PLACES)
_TIME_ADVERBIALS, _CITIES, _VOCATIVES = _texts(words.TIME_ADVERBIALS), _texts(words.CITIES), _texts(words.VOCATIVES)
_DAYS, _NOON_AND_MIDNIGHT, _DEGREES = _texts(words.DAYS), _texts(words.NOON_AND_MIDNIGHT), _texts(words.DEGREES)
_FEELINGS, _POSITIONS, _WELCOMES = _texts(words.FEELINGS), _texts(words.POSITIONS), _texts(words.WELCOMES)
_CITY_OR_SOME_PLACE: Choices[Phrase | Nominal] = Concatenation(_CITIES, _SOME_PLACES)
_CITY_OR_PLACE: Choices[Phrase | Nominal] = Concatenation(_CITIES, _PLACES)
_TWO_TO_99 = Product(number, range(2, 100))
_CLOCK_TIMES = Product(clock, range(1, 12), words.CLOCK)
_TIMES = Concatenation(_CLOCK_TIMES, _NOON_AND_MIDNIGHT)
_ROUTES = tuple(
    fill_patterns("from/1 <here> to/2 <there>", "de|d'/1 <here> à/2 <there>", here, there)
    for here, there in permutations(_CITIES, 2)
)
_TWO_TO_20 = tuple(number(value) for value in range(2, 21))
_TICKETS = ("<few> tickets/1 to/2 <city>", "<few> billets/1 pour/2 <city>")
_TABLE = ("a|an/1 table/2 for/3 <few> people/4", "une/1 table/2 pour/3 <few> personnes/4")
_WISHES = Concatenation(
    Product(partial(fill_patterns, *_TICKETS), _TWO_TO_20, _CITIES),
    Product(partial(fill_patterns, *_TABLE), _TWO_TO_20),
)

KINDS = _kinds(
    # Descriptions
    "<it> <be:it> <adjective>. = <it> <be:it> <adjective:it>.",
    (2, _THINGS, (*words.LOOKS, *words.COLOURS, *words.THING_QUALITIES)),
    (3, _COLOURED_THINGS, _QUALITIES),
    (2, _DESCRIBED_PEOPLE, words.PERSON_QUALITIES),
    (1, _THIRD_PERSON_PRONOUNS, words.PERSON_QUALITIES),
    "<it> <be:it>/1 not/2 <adjective>. = <it> ne|n'/2 <be:it>/1 pas/2 <adjective:it>.",
    (2, _COLOURED_THINGS, _QUALITIES),
    (2, _PEOPLE, words.PERSON_QUALITIES),
    "<be:it> <it> <adjective>? = est-ce que|qu' <it> <be:it> <adjective:it>?",
    (2, _COLOURED_THINGS, _QUALITIES),
    (1, _PEOPLE, words.PERSON_QUALITIES),
    "why/1 <be:it>/2 <it> <adjective>? = pourquoi/1 est-ce/2 que|qu'/2 <it> <be:it>/2 <adjective:it>?",
    (1, _PEOPLE, words.PERSON_QUALITIES),
    (1, _COLOURED_THINGS, words.THING_QUALITIES),
    "<it> <be:it> <degree> <adjective>. = <it> <be:it> <degree> <adjective:it>.",
    (2, _COLOURED_THINGS, _DEGREES, _QUALITIES),
    (2, _PEOPLE, _DEGREES, words.PERSON_QUALITIES),
    "<it> <be:it>/1 more/2 <adjective> than/3 <that>. = <it> <be:it>/1 plus/2 <adjective:it> que|qu'/3 <that>.",
    (2, _COLOURED_THINGS, words.COMPARABLE_QUALITIES, _THINGS),
    "<what>! = <what>!",
    (3, _noun_phrases((words.WHAT_A,), _PRAISED_ADJECTIVES, (*words.THINGS, *words.PLACES))),
    # Dealings with things and people
    "<who> <verb:who> <what>. = <who> <verb:who> <what>.",
    (4, _PRONOUNS, words.OBJECT_VERBS, _ANY_DESCRIBED),
    (3, _PEOPLE, words.OBJECT_VERBS, _ANY_DESCRIBED),
    (3, _PRONOUNS, words.OBJECT_VERBS, _COLOURED_LOOKS),
    (3, _PRONOUNS, words.OBJECT_VERBS, _COUNTED_THINGS),
    (2, _PRONOUNS, words.PREFERENCE_VERBS, _DESCRIBED_THINGS),
    (2, _PRONOUNS, words.PERSON_VERBS, _DESCRIBED_PEOPLE),
    "<who> <verb:who> <what> and <more>. = <who> <verb:who> <what> et <more>.",
    (2, _PRONOUNS, words.OBJECT_VERBS, _ANY_THINGS, _ANY_THINGS),
    "<who> <often> <verb:who> <what>. = <who> <verb:who> <often> <what>.",
    (2, _PEOPLE, _texts(words.FREQUENCIES), words.OBJECT_VERBS, _ANY_THINGS),
    "<who> <don't:who> <verb> <what>. = <who> ne|n' <verb:who> pas <what>.",
    (3, _PRONOUNS, words.OBJECT_VERBS, _NO_THINGS),
    (2, _PEOPLE, words.OBJECT_VERBS, _NO_THINGS),
    (1, _PRONOUNS, words.PREFERENCE_VERBS, _DESCRIBED_THINGS),
    "<who> never <verb:who> <what>. = <who> ne|n' <verb:who> jamais <what>.",
    (2, _PRONOUNS, words.OBJECT_VERBS, _NO_THINGS),
    # Questions and clauses
    "<do:who> <who> <verb> <what>? = est-ce que|qu' <who> <verb:who> <what>?",
    (3, _PRONOUNS, words.OBJECT_VERBS, _ANY_DESCRIBED),
    (2, _PEOPLE, words.OBJECT_VERBS, _ANY_DESCRIBED),
    (1, _PRONOUNS, words.PERSON_VERBS, _DESCRIBED_PEOPLE),
    "why/1 <do:who>/2 <who> <verb> <what>? = pourquoi/1 est-ce/2 que|qu'/2 <who> <verb:who> <what>?",
    (2, _PRONOUNS, words.OBJECT_VERBS, _DESCRIBED_THINGS),
    "<which> <do:who> <who> <verb>? = <which> est-ce que|qu' <who> <verb:who>?",
    (1, _noun_phrases((words.WHICH,), _THING_ADJECTIVES, words.THINGS), _PRONOUNS, words.OBJECT_VERBS),
    "<who> <verb:who> <what>? = <who> <verb:who> <what>?",
    (1, (Nominal(fill_patterns("who", "qui"), "m", words.IL),), words.OBJECT_VERBS, _ANY_DESCRIBED),
    "<who> <verb:who> <person> who <does:person> <what>. = <who> <verb:who> <person> qui <does:person> <what>.",
    (2, _PRONOUNS, words.PERSON_VERBS, _THE_STRANGERS, words.OBJECT_VERBS, _THINGS),
    "<who> who/1 <does:who> <what> <be:who>/2 <adjective>. = <who> qui/1 <does:who> <what> <be:who>/2 <adjective:who>.",
    (2, _THE_STRANGERS, words.OBJECT_VERBS, _THINGS, words.PERSON_QUALITIES),
    "<what> that/1 <who> <does:who> <be:what>/2 <adjective>. = "
    "<what> que|qu'/1 <who> <does:who> <be:what>/2 <adjective:what>.",
    (3, _THE_COLOURED_THINGS, _PRONOUNS, words.OBJECT_VERBS, words.THING_QUALITIES),
    "where/1 <be:it>/2 <it>? = où/1 <be:it>/2 <it>?",
    (1, _THINGS),
    (2, _DESCRIBED_THINGS),
    (1, _DESCRIBED_PLACES),
    (1, _DESCRIBED_PEOPLE),
    # Travels
    "<it> <be:it> <near> <place>. = <it> <be:it> <near> <place>.",
    (2, _DESCRIBED_THINGS, _POSITIONS, _PLACES),
    (1, _PRONOUNS, _POSITIONS, _SOME_PLACES),
    (2, _DESCRIBED_PLACES, _POSITIONS, _PLACES),
    "there/1 <be:it>/2 <it> <near> <place>. = il/1 y/1 a/2 <it> <near> <place>.",
    (2, _noun_phrases((words.A,), _THING_ADJECTIVES, words.THINGS), _POSITIONS, _PLACES),
    "<be:it>/1 there/2 <it> <near> <place>? = est-ce/1 qu'/1 il/2 y/2 a/1 <it> <near> <place>?",
    (2, _noun_phrases((words.A,), _PLACE_ADJECTIVES, words.PLACES), _POSITIONS, _PLACES),
    "<who> <go:who>/1 to/2 <place> <moment>. = <who> <go:who>/1 à/2 <place> <moment>.",
    (2, _PRONOUNS, _SOME_PLACES, _TIME_ADVERBIALS),
    (2, _PEOPLE, _CITY_OR_PLACE, _TIME_ADVERBIALS),
    "<who> <come:who>/1 from/2 <place>. = <who> <come:who>/1 de|d'/2 <place>.",
    (1, _PRONOUNS, _CITY_OR_SOME_PLACE),
    (1, _PEOPLE, _CITY_OR_PLACE),
    # People
    "<who> <be:who> <feeling>. = <who> <have:who> <feeling>.",
    (1, _PRONOUNS, _FEELINGS),
    (1, _PEOPLE, _FEELINGS),
    "<who> <be:who>/1 not/2 <feeling>. = <who> ne|n'/2 <have:who>/1 pas/2 <feeling>.",
    (1, _PRONOUNS, _FEELINGS),
    (1, _PEOPLE, _FEELINGS),
    "<be:who> <who> <feeling>? = est-ce que|qu' <who> <have:who> <feeling>?",
    (1, _PEOPLE, _FEELINGS),
    "<who> <be:who>/1 <age> years/2 old/2. = <who> <have:who>/1 <age> ans/2.",
    (1, _PRONOUNS, _TWO_TO_99),
    (3, _PEOPLE, _TWO_TO_99),
    "<who> <be:who> <what>. = <who> <be:who> <what>.",
    (1, _ONE_PERSON, _texts(words.PROFESSIONS)),
    "<who> <verb:who> <moment>. = <who> <verb:who> <moment>.",
    (1, _PRONOUNS, words.ACTIVITY_VERBS, _TIME_ADVERBIALS),
    (1, _DESCRIBED_PEOPLE, words.ACTIVITY_VERBS, _TIME_ADVERBIALS),
    "<who> <don't:who> <verb> <moment>. = <who> ne|n' <verb:who> pas <moment>.",
    (1, _PRONOUNS, words.ACTIVITY_VERBS, _TIME_ADVERBIALS),
    (1, _PEOPLE, words.ACTIVITY_VERBS, _TIME_ADVERBIALS),
    "<do:who> <who> <verb> <moment>? = est-ce que|qu' <who> <verb:who> <moment>?",
    (1, _PEOPLE, words.ACTIVITY_VERBS, _TIME_ADVERBIALS),
    # Times and prices
    "<it> <route> <verb:it> at <time>. = <it> <route> <verb:it> à <time>.",
    (3, _noun_phrases((words.THE,), _NO_ADJECTIVES, words.VEHICLES), _ROUTES, words.MOTION_VERBS, _TIMES),
    "<it> <verb:it> at <time> <day>. = <it> <verb:it> à <time> <day>.",
    (1, _noun_phrases((words.THE,), _NO_ADJECTIVES, words.PLACES), words.OPENING_VERBS, _NOON_AND_MIDNIGHT, _DAYS),
    (2, _ALL_PLACES, words.OPENING_VERBS, _CLOCK_TIMES, _DAYS),
    "what/1 time/2 <do:it>/3 <it> <verb> <moment>? = à/1 quelle/1 heure/2 <verb:it> <it> <moment>?",
    (1, _noun_phrases(_THE, _NO_ADJECTIVES, words.VEHICLES), words.MOTION_VERBS, _TIME_ADVERBIALS),
    (1, _ALL_PLACES, words.OPENING_VERBS, _TIME_ADVERBIALS),
    "it/1 is/2 <time>. = il/1 est/2 <time>.",
    (1, _TIMES),
    "it/1 is/2 <time> <part>. = il/1 est/2 <time> <part>.",
    (1, _CLOCK_TIMES, _texts(words.DAY_PARTS)),
    "it/1 is/2 <weather> in/3 <city> <moment>. = il/1 fait/2 <weather> à/3 <city> <moment>.",
    (1, _texts(words.WEATHER), _CITIES, _TIME_ADVERBIALS),
    "how/1 much/1 <do:it>/2 <it> cost/2? = combien/1 <cost:it>/2 <it>?",
    (1, _THINGS),
    (3, _DESCRIBED_THINGS),
    "<it> <cost:it>/1 <price> euros/2. = <it> <cost:it>/1 <price> euros/2.",
    (3, _DESCRIBED_THINGS, _TWO_TO_99),
    # Courtesies
    "<greeting>, <address>. = <greeting>, <address>.",
    (1, _texts(words.GREETINGS), _VOCATIVES),
    "<greeting>, <address>, how/1 are/2 you/3? = <greeting>, <address>, comment/1 allez-vous/23?",
    (1, _WELCOMES, _VOCATIVES),
    "<greeting>, my/1 name/1 is/1 <name>. = <greeting>, je/1 m'appelle/1 <name>.",
    (1, _WELCOMES, _texts(words.NAMES)),
    "excuse/1 me/1, <address>, where/2 <be:it>/3 <it>? = excusez-moi/1, <address>, où/2 <be:it>/3 <it>?",
    (3, _VOCATIVES, Concatenation(_PLACES, _DESCRIBED_PLACES)),
    "I/1 would/2 like/2 <it>, please/3. = je/1 voudrais/2 <it>, s'il/3 vous/3 plaît/3.",
    (3, _ANY_DESCRIBED),
    (1, _WISHES),
    "<it>, please. = <it>, s'il vous plaît.",
    (3, _DESCRIBED_THINGS),
    "please <verb> <it>. = <verb> <it>, s'il vous plaît.",
    (2, _texts(words.COMMANDS), _ANY_DESCRIBED),
    "thank/1 you/1 for/2 <it>. = merci/1 pour/2 <it>.",
    (1, _DESCRIBED_THINGS),
    "here <be:it> <it>. = voici <it>.",
    (2, _ANY_DESCRIBED),
)
