"""The words of the built-in phrase book: English and French forms side by side, numbers included.

A French form `a|b` is `a`, and `b` before a vowel sound: `le|l'`, `beau|bel`, `ma|mon`; English has only `a|an`.
No English word has two translations, and no two English words share one, so that translation is a function both ways.
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: the pair of its singular and plural in each language, and the gender of the French noun."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: Gender


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective: its English form, and its French forms in the order m.sg., f.sg., m.pl., f.pl.

    `precedes_noun` is True if it precedes the French noun; most adjectives follow it.
    """

    english: str
    french: tuple[str, str, str, str]
    precedes_noun: bool = False


@dataclass(frozen=True, slots=True)
class Determiner:
    """A determiner: its English singular and plural, and its French forms in the order m.sg., f.sg., m.pl., f.pl."""

    english: tuple[str, str]
    french: tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its forms in the present tense in the order `JE, IL, NOUS, VOUS, ILS`, and its English base form."""

    english: tuple[str, str, str, str, str]
    french: tuple[str, str, str, str, str]
    base: str


JE, IL, NOUS, VOUS, ILS = range(5)


def _nouns(text: str) -> tuple[Noun, ...]:
    """Return the nouns in a text `ENGLISH FRENCH GENDER, ...`, such as `dress/dresses robe f`.

    An irregular plural follows the singular after a slash; other plurals are the singular and an s.
    """
    nouns = []
    for entry in text.split(", "):
        english, french, gender = entry.split()
        singular, _, plural = english.partition("/")
        one, _, many = french.partition("/")
        forms = (one, many or f"{one}s")
        nouns.append(Noun((singular, plural or f"{singular}s"), forms, "f" if gender == "f" else "m"))
    return tuple(nouns)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs (English, French) of `ENGLISH = FRENCH, ...`, in the notation of `grammar.fill_patterns`."""
    return tuple((english, french) for english, _, french in (pair.partition(" = ") for pair in text.split(", ")))


def _adjective(english: str, masculine: str, feminine: str = "", masculine_plural: str = "") -> Adjective:
    feminine = feminine or (masculine if masculine.endswith("e") else f"{masculine}e")
    return Adjective(english, (masculine, feminine, masculine_plural or f"{masculine}s", f"{feminine}s"))


def _invariable(english: str, french: str) -> Adjective:
    return Adjective(english, (french, french, french, french))


def _prenominal(adjective: Adjective) -> Adjective:
    return Adjective(adjective.english, adjective.french, precedes_noun=True)


def _determiner(singular: str, plural: str, french: str) -> Determiner:
    masculine, feminine, *plurals = french.split()
    return Determiner((singular, plural), (masculine, feminine, plurals[0], plurals[-1]))


def _verb(base: str, third: str, french: str) -> Verb:
    first, he, we, you, they = french.split()
    return Verb((base, third, base, base, base), (first, he, we, you, they), base)


THE = _determiner("the", "the", "le|l' la|l' les")
THIS = _determiner("this", "these", "ce|cet cette ces")
A = _determiner("a|an", "some", "un une des")
NOT_A = _determiner("a|an", "any", "de|d' de|d' de|d'")  # after a negation
WHAT_A = _determiner("what a|an", "what", "quel quelle quels quelles")
WHICH = _determiner("which", "which", "quel quelle quels quelles")
POSSESSIVES = (
    _determiner("my", "my", "mon ma|mon mes"),
    _determiner("his", "his", "son sa|son ses"),
    _determiner("our", "our", "notre notre nos"),
    _determiner("your", "your", "votre votre vos"),
    _determiner("their", "their", "leur leur leurs"),
)
DEFINITES = (THE, THIS, *POSSESSIVES)

THINGS = _nouns(
    "car voiture f, house maison f, book livre m, key clé f, coat manteau/manteaux m, dress/dresses robe f, "
    "hat chapeau/chapeaux m, bag sac m, bicycle vélo m, flower fleur f, tree arbre m, umbrella parapluie m, "
    "plate assiette f, chair chaise f, boat bateau/bateaux m, horse cheval/chevaux m, bird oiseau/oiseaux m, "
    "computer ordinateur m, box/boxes boîte f"
)
PLACES = _nouns(
    "hotel hôtel m, station gare f, school école f, church/churches église f, museum musée m, bank banque f, "
    "restaurant restaurant m, market marché m, hospital hôpital/hôpitaux m, airport aéroport m, "
    "beach/beaches plage f, bakery/bakeries boulangerie f, castle château/châteaux m"
)
STRANGERS = _nouns(
    "man/men homme m, woman/women femme f, child/children enfant m, boy garçon m, girl fille f, "
    "actress/actresses actrice f"
)
RELATIONS = _nouns(
    "friend ami m, brother frère m, sister sœur f, neighbour voisin m, teacher professeur m, doctor médecin m"
)
VEHICLES = _nouns("train train m, plane avion m, bus/buses bus/bus m")
PROFESSIONS = _pairs(
    "a|an dentist = dentiste, a|an artist = artiste, a|an journalist = journaliste, a|an architect = architecte"
)

SMALL = _prenominal(_adjective("small", "petit"))
BIG = _prenominal(_adjective("big", "grand"))
OLD = _prenominal(_adjective("old", "vieux|vieil", "vieille", "vieux"))
NEW = _prenominal(_adjective("new", "nouveau|nouvel", "nouvelle", "nouveaux"))
BEAUTIFUL = _prenominal(_adjective("beautiful", "beau|bel", "belle", "beaux"))
PRETTY = _prenominal(_adjective("pretty", "joli"))
GOOD = _prenominal(_adjective("good", "bon", "bonne"))
YOUNG = _prenominal(_adjective("young", "jeune"))
COLOURS = (
    _adjective("red", "rouge"),
    _adjective("green", "vert"),
    _adjective("blue", "bleu"),
    _adjective("white", "blanc", "blanche"),
    _adjective("black", "noir"),
    _adjective("grey", "gris", masculine_plural="gris"),
    _adjective("yellow", "jaune"),
    _invariable("brown", "marron"),
    _invariable("orange", "orange"),
)
EXPENSIVE = _adjective("expensive", "cher", "chère")
MODERN = _adjective("modern", "moderne")
FAMOUS = _adjective("famous", "célèbre")
CLEAN = _adjective("clean", "propre")
DIRTY = _adjective("dirty", "sale")
FRENCH = _adjective("French", "français", masculine_plural="français")
HEAVY = _adjective("heavy", "lourd")
QUIET = _adjective("quiet", "calme")
SERIOUS = _adjective("serious", "sérieux", "sérieuse", "sérieux")
HAPPY = _adjective("happy", "heureux", "heureuse", "heureux")
SAD = _adjective("sad", "triste")
RICH = _adjective("rich", "riche")
TIRED = _adjective("tired", "fatigué")

LOOKS = (SMALL, BIG, OLD, NEW, BEAUTIFUL, PRETTY)
THING_QUALITIES = (EXPENSIVE, CLEAN, DIRTY, HEAVY)
PLACE_QUALITIES = (EXPENSIVE, MODERN, QUIET, FAMOUS, FRENCH, CLEAN, DIRTY)
PERSON_QUALITIES = (HAPPY, SAD, RICH, TIRED, FAMOUS, FRENCH, SERIOUS)
COMPARABLE_QUALITIES = (EXPENSIVE, BEAUTIFUL, MODERN, FAMOUS)  # those with "more"

BE = Verb(("am", "is", "are", "are", "are"), ("suis", "est", "sommes", "êtes", "sont"), "be")
HAVE = Verb(("have", "has", "have", "have", "have"), ("ai", "a", "avons", "avez", "ont"), "have")
COST = _verb("cost", "costs", "coûte coûte coûtons coûtez coûtent")
GO = _verb("go", "goes", "vais va allons allez vont")
COME = _verb("come", "comes", "viens vient venons venez viennent")
DO = Verb(("do", "does", "do", "do", "do"), ("", "", "", "", ""), "do")  # English only
DO_NOT = Verb(("don't", "doesn't", "don't", "don't", "don't"), ("", "", "", "", ""), "don't")
AUXILIARIES = {"be": BE, "have": HAVE, "do": DO, "don't": DO_NOT, "cost": COST, "go": GO, "come": COME}
SEE = _verb("see", "sees", "vois voit voyons voyez voient")
LOOK_FOR = _verb("look for", "looks for", "cherche cherche cherchons cherchez cherchent")
KNOW = _verb("know", "knows", "connais connaît connaissons connaissez connaissent")
LIKE = _verb("like", "likes", "aime aime aimons aimez aiment")
OBJECT_VERBS = (
    SEE,
    LOOK_FOR,
    HAVE,
    _verb("want", "wants", "veux veut voulons voulez veulent"),
    _verb("buy", "buys", "achète achète achetons achetez achètent"),
    _verb("sell", "sells", "vends vend vendons vendez vendent"),
    _verb("find", "finds", "trouve trouve trouvons trouvez trouvent"),
)
PREFERENCE_VERBS = (LIKE, _verb("prefer", "prefers", "préfère préfère préférons préférez préfèrent"))
PERSON_VERBS = (KNOW, SEE, LOOK_FOR, LIKE)
ACTIVITY_VERBS = (
    _verb("sing", "sings", "chante chante chantons chantez chantent"),
    _verb("work", "works", "travaille travaille travaillons travaillez travaillent"),
    _verb("sleep", "sleeps", "dors dort dormons dormez dorment"),
)
MOTION_VERBS = (
    _verb("leave", "leaves", "pars part partons partez partent"),
    _verb("arrive", "arrives", "arrive arrive arrivons arrivez arrivent"),
)
OPENING_VERBS = (
    _verb("open", "opens", "ouvre ouvre ouvrons ouvrez ouvrent"),
    _verb("close", "closes", "ferme ferme fermons fermez ferment"),
)

# From here on English beside French, in the notation of `grammar.fill_patterns`: words of one label are linked.
PRONOUNS: tuple[tuple[str, str, Gender, int], ...] = (
    ("I", "je|j'", "m", JE),
    ("he", "il", "m", IL),
    ("she", "elle", "f", IL),
    ("we", "nous", "m", NOUS),
    ("you", "vous", "m", VOUS),
    ("they", "ils", "m", ILS),
)
FEELINGS = _pairs("hungry = faim, thirsty = soif, cold = froid, hot = chaud, afraid = peur, right = raison")
DEGREES = _pairs("very = très, too = trop")
FREQUENCIES = _pairs("often = souvent, always = toujours")
POSITIONS = _pairs(
    "near = près de|d', behind = derrière, in front of = devant, far/1 from/2 = loin/1 de|d'/2, "
    "next/1 to/2 = à/1 côté/1 de|d'/2"
)
CITIES = _pairs(
    "Paris = Paris, Lyon = Lyon, Nice = Nice, Rome = Rome, London = Londres, Geneva = Genève, Athens = Athènes, "
    "Amsterdam = Amsterdam"
)
NAMES = _pairs("Anna = Anna, Claire = Claire, Marie = Marie, Louis = Louis, Paul = Paul")
VOCATIVES = (("sir", "monsieur"), ("madam", "madame"), *NAMES)
GREETINGS = _pairs(
    "good/1 morning/2 = bonjour/12, good/1 evening/2 = bonsoir/12, good/1 night/2 = bonne/1 nuit/2, "
    "hello = salut, goodbye = au revoir, thank you = merci, see you tomorrow/1 = à demain/1"
)
WELCOMES = GREETINGS[:2]
DAYS = _pairs("on Monday = lundi, on Tuesday = mardi, on Friday = vendredi, on Sunday = dimanche")
TIME_ADVERBIALS = (
    ("today", "aujourd'hui"),
    ("tomorrow", "demain"),
    ("this/1 morning/2", "ce/1 matin/2"),
    ("this/1 evening/2", "ce/1 soir/2"),
    ("every/1 day/2", "tous/1 les/1 jours/2"),
    ("in/1 summer/2", "en/1 été/2"),
    ("in/1 winter/2", "en/1 hiver/2"),
    *DAYS,
)
COMMANDS = _pairs("show/1 me/1 = montrez-moi/1, give/1 me/1 = donnez-moi/1, take = prenez, look at = regardez")

WEATHER = _pairs("hot = chaud, cold = froid, nice = beau")
CLOCK = _pairs(
    "<hour> o'clock = <hour> heures, half/1 past/2 <hour> = <hour> heures/2 et/2 demie/1, "
    "a/1 quarter/1 past/2 <hour> = <hour> heures/2 et/2 quart/1, "
    "a/1 quarter/1 to/2 <hour> = <hour> heures/2 moins/2 le/1 quart/1, "
    "five/1 past/2 <hour> = <hour> heures/2 cinq/1, ten/1 past/2 <hour> = <hour> heures/2 dix/1, "
    "twenty/1 past/2 <hour> = <hour> heures/2 vingt/1, five/1 to/2 <hour> = <hour> heures/2 moins/2 cinq/1, "
    "ten/1 to/2 <hour> = <hour> heures/2 moins/2 dix/1, twenty/1 to/2 <hour> = <hour> heures/2 moins/2 vingt/1"
)
NOON_AND_MIDNIGHT = _pairs("noon = midi, midnight = minuit")
DAY_PARTS = _pairs(
    "in/1 the/2 morning/3 = du/12 matin/3, in/1 the/2 afternoon/3 = de/1 l'après-midi/23, "
    "in/1 the/2 evening/3 = du/12 soir/3"
)

_ENGLISH_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_FRENCH_NUMBERS = (
    *("zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze"),
    *("treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"),
)
_FRENCH_TENS = {20: "vingt", 30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante", 80: "quatre-vingt"}


def english_number(number: int) -> str:
    """Return a number from 0 to 99 in English words, such as `twenty-one`."""
    if number < 20:
        return _ENGLISH_NUMBERS[number]
    tens, unit = divmod(number, 10)
    return _ENGLISH_TENS[tens - 2] + (f"-{_ENGLISH_NUMBERS[unit]}" if unit else "")


def french_number(number: int, gender: Gender = "m") -> str:
    """Return a number from 0 to 99 in French words: `vingt et un` (feminine `vingt et une`), `quatre-vingts`.

    The spelling is the traditional one, with spaces in `soixante et onze`.
    """
    if number == 1 and gender == "f":
        return "une"
    if number < 20:
        return _FRENCH_NUMBERS[number]
    tens = max(base for base in _FRENCH_TENS if base <= number)
    rest = number - tens
    if rest == 0:
        return "quatre-vingts" if tens == 80 else _FRENCH_TENS[tens]
    joint = " et " if rest in (1, 11) and tens != 80 else "-"
    return _FRENCH_TENS[tens] + joint + french_number(rest, gender)
