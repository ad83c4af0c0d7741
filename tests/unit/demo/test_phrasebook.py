import errno
import os
import subprocess
import sys
from itertools import pairwise, product
from pathlib import Path

import pytest

from nmt_cli.demo import grammar, phrasebook
from nmt_cli.demo import lexicon as words
from nmt_cli.demo.sentence_kinds import KINDS
from nmt_cli.system.errors import InputError, NmtError


@pytest.fixture(scope="module")
def book():
    return phrasebook.generate(seed=3, num_train=5000, num_dev=300, num_test=200)


@pytest.fixture(scope="module")
def pairs(book):
    return (*book.train, *book.dev, *book.test)


NOUNS = (*words.THINGS, *words.PLACES, *words.STRANGERS, *words.RELATIONS)
ADJECTIVES = (*words.LOOKS, words.GOOD, words.YOUNG, *words.COLOURS, *words.THING_QUALITIES, *words.PERSON_QUALITIES)
DETERMINERS = (*words.DEFINITES, words.A, words.NOT_A, words.WHAT_A, words.WHICH)


def noun(english):
    return next(noun for noun in NOUNS if english in noun.english)


def adjective(english):
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)


def nominal(text):
    """The grammar's noun phrase for plain English, such as `some big cars`."""
    *first, last = text.replace("what a", "what_a").split()
    article = {"a": "a|an", "an": "a|an", "what_a": "what a|an", "what_an": "what a|an"}.get(first[0], first[0])
    determiner = next(determiner for determiner in DETERMINERS if article in determiner.english)
    return grammar.noun_phrase(determiner, list(map(adjective, first[1:])), noun(last), last != noun(last).english[0])


def french(text):
    pair = grammar.spell(nominal(text).phrase)
    assert pair.source == text[0].upper() + text[1:]
    return pair.target


def test_the_seed_alone_decides(book):
    again = phrasebook.generate(seed=3, num_train=5000, num_dev=300, num_test=200)
    assert again == book
    assert phrasebook.generate(seed=4, num_train=500, num_dev=5, num_test=5) != phrasebook.generate(
        seed=5, num_train=500, num_dev=5, num_test=5
    )


def test_the_corpus_does_not_depend_on_the_hash_seed():
    program = (
        "import hashlib; from nmt_cli.demo.phrasebook import generate;"
        "print(hashlib.sha256(repr(generate(num_train=300, num_dev=10, num_test=10)).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for hash_seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout


def test_the_parts_have_the_sizes_asked_for(book):
    assert [len(book.train), len(book.dev), len(book.test)] == [5000, 300, 200]


def test_no_sentence_of_either_language_occurs_twice(pairs):
    assert len({pair.source for pair in pairs}) == len({pair.target for pair in pairs}) == len(pairs)


@pytest.mark.slow
def test_translation_is_a_function_both_ways_over_a_large_sample():
    book = phrasebook.generate(seed=11, num_train=100_000)
    pairs = (*book.train, *book.dev, *book.test)
    assert len({pair.source for pair in pairs}) == len({pair.target for pair in pairs}) == len(pairs)


def test_there_is_room_for_sixty_thousand_pairs():
    assert phrasebook.capacity() > 60_000


def test_more_than_the_grammar_can_make_is_refused():
    room = phrasebook.capacity()
    with pytest.raises(InputError) as error:
        phrasebook.generate(num_train=room, num_dev=1, num_test=2)
    assert str(error.value) == (
        f"the phrase book has {room} distinct sentence pairs, but {room + 3} were asked for "
        f"({room} train, 1 dev, 2 test); ask for fewer"
    )


@pytest.mark.parametrize("wanted", [0, 1, 100, 20_000, 5_000_000])
def test_the_shares_add_up_and_no_kind_gives_more_than_it_has(wanted):
    shares = phrasebook._shares(wanted)
    assert sum(shares) == wanted
    assert all(0 <= share <= len(kind) for share, (_, kind) in zip(shares, KINDS, strict=True))


def test_at_capacity_every_kind_gives_all():
    assert phrasebook._shares(phrasebook.capacity()) == [len(kind) for _, kind in KINDS]


def test_sentences_are_raw_text(pairs):
    for pair in pairs:
        assert 2 <= len(pair.source.split()) <= 14
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text[-1] in ".?!"
            assert text == " ".join(text.split())
            assert not set(text) & set("|<>/:_0123456789")
        assert pair.source[-1] == pair.target[-1]
        assert pair.source[-2].isalpha()
        assert (pair.target[-2] == " ") == (pair.target[-1] in "?!")


def test_links_are_in_range_sorted_and_reach_every_french_word(pairs):
    for pair in pairs:
        assert list(pair.links) == sorted(set(pair.links))
        assert all(0 <= s < len(pair.source.split()) for s, _ in pair.links)
        assert {t for _, t in pair.links} == set(range(len(pair.target.split())))


def test_no_elision_or_contraction_is_missed(pairs):
    for pair in pairs:
        text = pair.target.lower().split()
        for word, following in pairwise(text):
            assert not (
                word in {"le", "la", "de", "ne", "je", "que", "ce", "ma", "sa"} and following[0] in "aeéêèiouhôœâà"
            )
            assert (word, following) not in {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")}


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("the red car", "La voiture rouge"),
        ("the red cars", "Les voitures rouges"),
        ("a white dress", "Une robe blanche"),
        ("the grey plates", "Les assiettes grises"),
        ("these blue hats", "Ces chapeaux bleus"),
        ("my blue keys", "Mes clés bleues"),
        ("the brown horses", "Les chevaux marron"),
        ("their orange boxes", "Leurs boîtes orange"),
        ("an expensive umbrella", "Un parapluie cher"),
        ("the expensive houses", "Les maisons chères"),
        ("the French hospitals", "Les hôpitaux français"),
        ("a French school", "Une école française"),
        ("the happy women", "Les femmes heureuses"),
        ("the serious man", "L'homme sérieux"),
    ],
)
def test_adjectives_agree_and_follow_the_noun(english, expected):
    assert french(english) == expected


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("the small house", "La petite maison"),
        ("a beautiful tree", "Un bel arbre"),
        ("a beautiful boat", "Un beau bateau"),
        ("the beautiful birds", "Les beaux oiseaux"),
        ("an old hotel", "Un vieil hôtel"),
        ("the old hotels", "Les vieux hôtels"),
        ("the old church", "La vieille église"),
        ("my new computer", "Mon nouvel ordinateur"),
        ("your new coat", "Votre nouveau manteau"),
        ("our new keys", "Nos nouvelles clés"),
        ("his good friend", "Son bon ami"),
        ("some red cars", "Des voitures rouges"),
        ("some big cars", "De grandes voitures"),
        ("any old bicycles", "De vieux vélos"),
        ("the small red car", "La petite voiture rouge"),
        ("a beautiful white bird", "Un bel oiseau blanc"),
        ("some pretty orange flowers", "De jolies fleurs orange"),
    ],
)
def test_a_few_adjectives_precede_the_noun(english, expected):
    assert french(english) == expected


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("the hotel", "L'hôtel"),
        ("the man", "L'homme"),
        ("the old man", "Le vieil homme"),
        ("this tree", "Cet arbre"),
        ("this big tree", "Ce grand arbre"),
        ("this church", "Cette église"),
        ("these trees", "Ces arbres"),
        ("my school", "Mon école"),
        ("my new school", "Ma nouvelle école"),
        ("his plate", "Son assiette"),
        ("his sister", "Sa sœur"),
        ("their children", "Leurs enfants"),
        ("what an old bag", "Quel vieux sac"),
        ("which bakeries", "Quelles boulangeries"),
    ],
)
def test_articles_depend_on_the_sound_that_follows(english, expected):
    assert french(english) == expected


CASES = {
    "It is a quarter to eight in the afternoon.": "Il est huit heures moins le quart de l'après-midi.",
    "I am not cold.": "Je n'ai pas froid.",
    "Is his sister happy?": "Est-ce que sa sœur est heureuse ?",
    "They come from the airport.": "Ils viennent de l'aéroport.",
    "Good morning, madam, how are you?": "Bonjour, madame, comment allez-vous ?",
    "How much do the keys cost?": "Combien coûtent les clés ?",
    "What time does the plane arrive tomorrow?": "À quelle heure arrive l'avion demain ?",
    "What a beautiful hotel!": "Quel bel hôtel !",
    "The boys are very rich.": "Les garçons sont très riches.",
    "I would like two tickets to Rome, please.": "Je voudrais deux billets pour Rome, s'il vous plaît.",
    "It is nice in London in summer.": "Il fait beau à Londres en été.",
    "Hello, Paul.": "Salut, Paul.",
}


def test_the_small_kinds_hold_the_expected_translations():
    small = [kind for _, kind in KINDS if len(kind) < 2500]
    pairs = [grammar.spell(kind[i]) for kind in small for i in range(len(kind))]
    assert {pair.source: pair.target for pair in pairs if pair.source in CASES} == CASES


def woven(english, french_pattern, *items):
    return grammar.spell(grammar.fill_patterns(english, french_pattern, *items))


def test_woven_sentences_agree_elide_and_align():
    she = grammar.Nominal(grammar.fill_patterns("she", "elle"), "f", words.IL)
    pair = woven(
        "<who> <don't:who> <verb> <what>.",
        "<who> ne|n' <verb:who> pas <what>.",
        she,
        words.LIKE,
        nominal("the red car"),
    )
    assert pair == grammar.PhrasePair(
        "She doesn't like the red car.",
        "Elle n'aime pas la voiture rouge.",
        ((0, 0), (1, 1), (1, 2), (2, 1), (3, 3), (4, 5), (5, 4)),
    )


def test_the_question_mark_belongs_to_the_last_english_word():
    pair = woven("where/1 <be:it>/2 <it>?", "où/1 <be:it>/2 <it>?", nominal("the old hotel"))
    assert (pair.source, pair.target) == ("Where is the old hotel?", "Où est le vieil hôtel ?")
    assert pair.links == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 5))


def test_an_elided_article_is_one_word_with_two_links():
    pair = woven("<who> <go:who>/1 to/2 <it>.", "<who> <go:who>/1 à/2 <it>.", nominal("the boys"), nominal("the hotel"))
    assert pair == grammar.PhrasePair(
        "The boys go to the hotel.", "Les garçons vont à l'hôtel.", ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4))
    )


def test_a_contracted_article_is_linked_to_both_its_parts():
    pair = woven(
        "<who> <come:who>/1 from/2 <it>.", "<who> <come:who>/1 de|d'/2 <it>.", nominal("the boy"), nominal("the market")
    )
    assert pair == grammar.PhrasePair(
        "The boy comes from the market.", "Le garçon vient du marché.", ((0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 4))
    )


@pytest.mark.parametrize(
    ("place", "to_place", "from_place"),
    [
        ("the market", "au marché", "du marché"),
        ("the hospitals", "aux hôpitaux", "des hôpitaux"),
        ("the old hotel", "au vieil hôtel", "du vieil hôtel"),
        ("the church", "à l'église", "de l'église"),
        ("the beach", "à la plage", "de la plage"),
        ("my school", "à mon école", "de mon école"),
    ],
)
def test_prepositions_contract_with_the_article(place, to_place, from_place):
    assert woven("to <it>", "à <it>", nominal(place)).target.lower() == to_place
    assert woven("from <it>", "de|d' <it>", nominal(place)).target.lower() == from_place


def test_city_names_elide_de():
    amsterdam = grammar.fill_patterns("Amsterdam", "Amsterdam")
    assert woven("from <it>.", "de|d' <it>.", amsterdam) == grammar.PhrasePair(
        "From Amsterdam.", "D'Amsterdam.", ((0, 0), (1, 0))
    )


def test_relative_clauses_align_their_pronoun():
    she = grammar.Nominal(grammar.fill_patterns("she", "elle"), "f", words.IL)
    pair = woven(
        "<what> that/1 <who> <does:who> <be:what>/2 <adjective>.",
        "<what> que|qu'/1 <who> <does:who> <be:what>/2 <adjective:what>.",
        nominal("the books"),
        she,
        words.SEE,
        words.EXPENSIVE,
    )
    assert (pair.source, pair.target) == (
        "The books that she sees are expensive.",
        "Les livres qu'elle voit sont chers.",
    )
    assert pair.links == ((0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (5, 4), (6, 5))


@pytest.mark.parametrize("is_plural", [False, True])
@pytest.mark.parametrize("noun", words.THINGS[:4])
def test_colour_and_noun_cross(noun, is_plural):
    for colour, determiner in product(words.COLOURS, (words.THE, words.A)):
        pair = grammar.spell(grammar.noun_phrase(determiner, [colour], noun, is_plural).phrase)
        assert pair.links == ((0, 0), (1, 2), (2, 1))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "zéro"),
        (1, "un"),
        (16, "seize"),
        (17, "dix-sept"),
        (20, "vingt"),
        (21, "vingt et un"),
        (22, "vingt-deux"),
        (61, "soixante et un"),
        (69, "soixante-neuf"),
        (70, "soixante-dix"),
        (71, "soixante et onze"),
        (72, "soixante-douze"),
        (77, "soixante-dix-sept"),
        (79, "soixante-dix-neuf"),
        (80, "quatre-vingts"),
        (81, "quatre-vingt-un"),
        (89, "quatre-vingt-neuf"),
        (90, "quatre-vingt-dix"),
        (91, "quatre-vingt-onze"),
        (97, "quatre-vingt-dix-sept"),
        (99, "quatre-vingt-dix-neuf"),
    ],
)
def test_french_numbers(number, expected):
    assert words.french_number(number) == expected


def test_numbers_are_a_hundred_different_words_in_both_languages():
    assert (
        len({words.english_number(n) for n in range(100)}) == len({words.french_number(n) for n in range(100)}) == 100
    )
    assert words.english_number(40) == "forty"
    assert words.english_number(21) == "twenty-one"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (21, "Vingt et une voitures rouges"),
        (81, "Quatre-vingt-une voitures rouges"),
        (80, "Quatre-vingts voitures rouges"),
    ],
)
def test_numbers_agree_with_a_feminine_noun(count, expected):
    pair = grammar.spell(grammar.numeral_phrase(count, [adjective("red")], noun("car")).phrase)
    assert pair.target == expected
    assert pair.links[-2:] == ((1, len(expected.split()) - 1), (2, len(expected.split()) - 2))


def test_no_two_words_of_the_lexicon_share_a_translation():
    for items in (NOUNS, ADJECTIVES):
        assert len({item.french[0] for item in items}) == len({str(item.english) for item in items}) == len(items)


def test_writing_gives_nine_files_of_matching_lines(tmp_path):
    book = phrasebook.generate(seed=2, num_train=30, num_dev=4, num_test=5)
    directory = tmp_path / "new" / "corpus"
    phrasebook.write(book, directory)
    assert len(list(directory.iterdir())) == 9
    for name, pairs in (("train", book.train), ("dev", book.dev), ("test", book.test)):
        texts = {kind: (directory / f"{name}.{kind}").read_bytes().decode("utf-8") for kind in ("en", "fr", "align")}
        assert all(text.endswith("\n") and "\r" not in text for text in texts.values())
        assert texts["en"].splitlines() == [pair.source for pair in pairs]
        assert texts["fr"].splitlines() == [pair.target for pair in pairs]
        links = [
            tuple(tuple(map(int, link.split("-"))) for link in line.split()) for line in texts["align"].splitlines()
        ]
        assert links == [pair.links for pair in pairs]


def test_what_is_written_already_is_left_and_what_is_missing_is_added(tmp_path):
    book = phrasebook.generate(seed=2, num_train=30, num_dev=4, num_test=5)
    phrasebook.write(book, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "dev.fr").unlink()
    (tmp_path / "train.en").chmod(0o444)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    phrasebook.write(book, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_text_that_cannot_be_written_whole_leaves_no_part(tmp_path, monkeypatch):
    book = phrasebook.generate(seed=2, num_train=30, num_dev=4, num_test=5)
    write_bytes = Path.write_bytes

    def write_half(path, content):
        if "train.fr" not in path.name:
            return write_bytes(path, content)
        write_bytes(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(NmtError, match="no space left on the device"):
        phrasebook.write(book, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.en"]
