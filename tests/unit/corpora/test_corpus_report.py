"""The findings of a corpus report, each found where it was planted; and the counts of a survey."""

import gzip
import math
import random
import statistics

import pytest

from nmt_cli.corpora import corpus_report as report_module
from nmt_cli.corpora import duplicates as repeats_module
from nmt_cli.corpora.corpus_report import NamedCorpus, analyse
from nmt_cli.corpora.survey import survey
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.system.errors import InputError

SENTENCES = [(f"the house number {number} is old", f"das Haus Nummer {number} ist alt") for number in range(40)]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(name, pairs):
        for side, ending in enumerate(("en", "de")):
            lines = [pair[side] if isinstance(pair[side], bytes) else pair[side].encode() for pair in pairs]
            (tmp_path / f"{name}.{ending}").write_bytes(b"".join(line + b"\n" for line in lines))
        return Corpus(f"{name}.en", f"{name}.de")

    return make


def of_training(corpus, filters=None, tokenizers=None):
    return analyse([NamedCorpus("train", corpus, is_training=True)], filters or LengthLimits(), tokenizers)[0]


def test_clean_text_has_no_findings(write):
    found = of_training(write("train", SENTENCES))
    assert {name: finding.count for name, finding in found.findings.items() if finding.count} == {}
    assert (found.num_pairs, found.num_kept, found.problems) == (40, 40, [])
    assert found.sides[0].num_units == 40 * 6
    assert found.sides[0].longest == 6


@pytest.mark.parametrize(
    ("pair", "name", "example"),
    [
        (("", "leer"), "empty_source", "train.en:41"),
        (("empty", " \t".replace("\t", "\u3000")), "empty_target", "train.de:41"),
        ((b"caf\xe9 house", "Haus"), "invalid_utf8", "train.en:41"),
        (("one line\r", "eine Zeile"), "control_characters", "train.en:41 (U+000D)"),
        (("one line", "eine\u2028Zeile"), "control_characters", "train.de:41 (U+2028)"),
        (("a b c", "w " * 101), "too_long", "train.de:41 (101)"),
        (("no", "a very long sentence"), "length_ratio", "train.en:41 (2 and 20 characters)"),
        (SENTENCES[6], "duplicates", "train.en:41 = train.en:7"),
        ((SENTENCES[6][0] + " ", " " + SENTENCES[6][1]), "duplicates", "train.en:41 = train.en:7"),
        (("Berlin", " Berlin "), "copies", "train.en:41"),
    ],
)
def test_a_suspicious_pair_is_counted_and_its_place_is_named(write, pair, name, example):
    finding = of_training(write("train", [*SENTENCES, pair])).findings[name]
    assert (finding.count, finding.examples) == (1, [example])


def test_the_first_places_are_named_and_all_are_counted(write):
    finding = of_training(write("train", [*SENTENCES, *[("", "x")] * 10])).findings["empty_source"]
    assert finding.count == 10
    assert finding.examples == ["train.en:41", "train.en:42", "train.en:43"]


def test_empty_pairs_are_no_repeats_of_each_other(write):
    assert of_training(write("train", [("", "")] * 5)).findings["duplicates"].count == 0


def test_languages_of_different_lengths_are_in_proportion(write):
    pairs = [(f"a sentence of several words and number {number}" * 2, f"{number}" * 3) for number in range(10, 90)]
    assert of_training(write("train", pairs)).findings["length_ratio"].count == 0


def test_invalid_text_is_a_problem_only_where_training_stops_at_it(write):
    corpus = write("train", [*SENTENCES, (b"\xff", "x"), (b"\xfe", "y")])
    stopped, skipped, replaced = (
        of_training(corpus, LengthLimits(invalid_utf8=policy)) for policy in ("error", "skip", "replace")
    )
    assert stopped.problems == [
        "train.en:41: is one of 2 lines not valid UTF-8; fix the line, or set data.invalid_utf8 to skip or replace"
    ]
    assert (skipped.problems, skipped.num_kept) == ([], 40)
    assert (replaced.problems, replaced.num_kept) == ([], 42)


def test_unequal_line_counts_name_both_files_and_counts(write, tmp_path):
    corpus = write("train", SENTENCES)
    (tmp_path / "train.de").write_text("eins\nzwei", encoding="utf-8")
    found = of_training(corpus)
    (problem,) = found.problems
    assert problem.startswith("train.en has 40 lines and train.de has 2 lines; line i of one must belong to line i")
    assert [side.num_lines for side in found.sides] == [40, 2]
    assert found.num_pairs == 2


def test_a_missing_or_damaged_file_is_a_problem_of_its_corpus_alone(write, tmp_path):
    good = write("good", SENTENCES)
    for name in ("bad.en.gz", "bad.de.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"a\n" * 1000)[:-6])
    corpora = [Corpus("nowhere.en", "nowhere.de"), good, Corpus("bad.en.gz", "bad.de.gz")]
    found = analyse([NamedCorpus("train", corpus, is_training=True) for corpus in corpora], LengthLimits())
    assert found[0].problems == ["nowhere.en: there is no such file"]
    assert (found[1].problems, found[1].num_pairs) == ([], 40)
    assert found[2].problems == ["bad.en.gz: the compressed data ends too early; the file is cut off"]


def test_an_empty_held_out_set_is_a_problem(write):
    assert analyse([NamedCorpus("dev", write("dev", []))], LengthLimits())[0].problems == [
        "dev.en: the dev set is empty"
    ]


def test_a_line_that_is_no_alignment_is_a_problem(write, tmp_path):
    write("train", SENTENCES)
    (tmp_path / "links").write_text("0-0 1-1\n" * 39 + "0:0\n", encoding="utf-8")
    corpus = Corpus("train.en", "train.de", alignment="links")
    (found,) = analyse([NamedCorpus("train", corpus, is_training=True, with_links=True)], LengthLimits())
    assert found.problems == ["links:40: '0:0' is not a link; an alignment is written like 0-0 1-2"]
    assert of_training(corpus).problems == []  # where it is not used


@pytest.mark.parametrize(("num_wrong", "is_problem"), [(20, False), (21, True)])
def test_links_to_words_that_are_not_there_are_found_and_most_are_a_problem(write, tmp_path, num_wrong, is_problem):
    write("train", SENTENCES)
    (tmp_path / "links").write_text("0-0 5-5\n" * (40 - num_wrong) + "0-0 5-6 6-5\n" * num_wrong, encoding="utf-8")
    corpus = Corpus("train.en", "train.de", alignment="links")
    (found,) = analyse([NamedCorpus("train", corpus, is_training=True, with_links=True)], LengthLimits())
    finding = found.findings["missing_words"]
    assert (finding.count, finding.examples[0]) == (num_wrong, f"links:{41 - num_wrong} (5-6)")
    message = (
        "links: 21 of 40 pairs have links to words that they do not have. Words are separated by white space and "
        "numbered from 0, and a link names the source word first. Make the alignments for the files that "
        "data.train names"
    )
    assert found.problems == [message] * is_problem


def test_the_links_of_a_pair_that_is_left_out_do_not_matter(write, tmp_path):
    write("train", [*SENTENCES, ("", "leer")])
    (tmp_path / "links").write_text("0-0 1-1\n" * 40 + "0:0\n", encoding="utf-8")
    corpus = Corpus("train.en", "train.de", alignment="links")
    (found,) = analyse([NamedCorpus("train", corpus, is_training=True, with_links=True)], LengthLimits())
    assert found.problems == []


def test_pairs_beyond_the_ratio_are_counted_as_training_leaves_them_out(write):
    corpus = write("train", [*SENTENCES, ("one two", "eins zwei drei vier fünf")])
    tokenizer = train_tokenizer(
        (side for pair in SENTENCES for side in pair),
        model_type="char", vocab_size=300, normalization="identity", character_coverage=1.0,
    )  # fmt: skip
    found = of_training(corpus, LengthLimits(max_length_ratio=2.0), (tokenizer, tokenizer))
    finding = found.findings["beyond_ratio"]
    assert (finding.count, found.num_pairs - found.num_kept) == (1, 1)
    assert finding.examples[0].startswith("train.en:41 (")


@pytest.mark.parametrize("part", [7, 2**20])
def test_repeats_and_overlaps_agree_with_comparing_the_texts(write, monkeypatch, part):
    monkeypatch.setattr(report_module, "CHUNK", 7)
    monkeypatch.setattr(repeats_module, "HASHES_PER_PART", part)
    draw = random.Random(1)
    one, two, dev, test = (
        [(f"s{draw.randrange(40)}", f"t{draw.randrange(3)}") for _ in range(size)] for size in (50, 30, 20, 10)
    )
    named = [
        NamedCorpus("dev", write("dev", dev)), NamedCorpus("one", write("one", one), is_training=True),
        NamedCorpus("test", write("test", test)), NamedCorpus("two", write("two", two), is_training=True),
    ]  # fmt: skip
    found = {report.name: report.findings for report in analyse(named, LengthLimits())}
    both = one + two
    assert found["one"]["duplicates"].count == len(one) - len(set(one))
    assert found["two"]["duplicates"].count == sum(both[index] in both[:index] for index in range(50, 80))
    places = [f"{name}.en:{row}" for name, size in (("one", 50), ("two", 30)) for row in range(1, size + 1)]
    for name, first, last in (("one", 0, 50), ("two", 50, 80)):
        rows = [index for index in range(first, last) if both[index] in both[:index]]
        assert found[name]["duplicates"].examples == [
            f"{places[index]} = {places[both.index(both[index])]}" for index in rows[:3]
        ]
    shared = sum(source in {one for one, _ in dev} for source, _ in test)
    assert (found["test"]["dev_overlap"].count, found["dev"]["dev_overlap"].count) == (shared, 0)
    sources = [source for source, _ in both]
    for name, pairs in (("dev", dev), ("test", test)):
        places = [
            (index, sources.index(source)) for index, (source, _) in enumerate(pairs, start=1) if source in sources
        ]
        assert found[name]["overlap"].count == len(places)
        assert found[name]["overlap"].examples == [
            f"{name}.en:{index} = " + (f"one.en:{row + 1}" if row < 50 else f"two.en:{row - 49}")
            for index, row in places[:3]
        ]
        assert found[name]["duplicates"].count == len(pairs) - len(set(pairs))


@pytest.mark.parametrize("part", [9, 2**20])
def test_pairs_out_of_proportion_are_those_far_from_the_median(write, monkeypatch, part):
    monkeypatch.setattr(report_module, "OUTLIER_PAIRS", part)
    draw = random.Random(2)
    pairs = [("x" * draw.randrange(60), "y" * draw.randrange(60)) for _ in range(200)]
    finding = of_training(write("train", pairs)).findings["length_ratio"]
    ratios = [math.log(len(target) / len(source)) if source and target else None for source, target in pairs]
    middle = statistics.median(ratio for ratio in ratios if ratio is not None)
    rows = [
        number
        for number, (ratio, pair) in enumerate(zip(ratios, pairs, strict=True), start=1)
        if ratio is not None and abs(ratio - middle) > math.log(3) and max(map(len, pair)) >= 20
    ]
    assert finding.count == len(rows) > 10
    assert [place.split(" ")[0] for place in finding.examples] == [f"train.en:{row}" for row in rows[:3]]


def test_lengths_and_unknowns_are_those_of_the_tokenizer(write):
    lines = [side for pair in SENTENCES for side in pair]
    tokenizer = train_tokenizer(
        lines, model_type="bpe", vocab_size=330, normalization="nmt_nfkc", character_coverage=1.0
    )
    corpus = write("train", [*SENTENCES, ("the ж house", "das Haus")])
    found = of_training(corpus, LengthLimits(max_length=9), (tokenizer, tokenizer))
    ids = [tokenizer.encode_all(side) for side in zip(*SENTENCES, ("the ж house", "das Haus"), strict=True)]
    assert [side.num_units for side in found.sides] == [sum(map(len, side)) for side in ids]
    assert [side.num_bytes for side in found.sides] == [2, 0]
    assert [side.num_unknown for side in found.sides] == [0, 0]
    longest = [max(len(source), len(target)) for source, target in zip(*ids, strict=True)]
    assert found.findings["too_long"].count == sum(length > 9 for length in longest)
    assert found.num_kept == sum(length <= 9 for length in longest)


def test_unknown_pieces_of_a_word_model_are_counted(write):
    tokenizer = train_tokenizer(
        ["a b c"] * 3, model_type="word", vocab_size=20, normalization="identity", character_coverage=1.0
    )
    found = of_training(write("train", [("a x b", "y c z")]), None, (tokenizer, tokenizer))
    assert [side.num_unknown for side in found.sides] == [1, 2]


def test_a_survey_counts_pairs_words_and_characters(write):
    found = survey([write("one", [("a b", "c dd"), ("", "x y"), (b"\xff", "z")]), write("two", [("a", "b b b b")])])
    assert (found.num_pairs, found.num_invalid, found.num_whole) == (4, 1, 2)
    assert found.words_per_line == pytest.approx(8 / 3)
    assert found.characters_per_line == pytest.approx(9 / 3)
    assert found.distinct_words == len({"a", "b", "c", "dd", "x", "y"})
    assert found.distinct_characters == len("abcdxy")


def test_a_survey_refuses_unequal_line_counts(write, tmp_path):
    corpus = write("one", SENTENCES)
    (tmp_path / "one.de").write_text("x\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"^one\.en has 40 lines and one\.de has 1 line; line i of one"):
        survey([corpus])
