"""Translations that repeat the same words without end, with a model that does so: tests/models/format-1-init."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from marks import others_slow

from nmt_cli.assembly.trained_model import load_model
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.experiment import Experiment
from nmt_cli.search.hypothesis import GeneratedTerm, Hypothesis
from nmt_cli.system.distributed import World
from nmt_cli.system.signals import SignalDeferrer
from nmt_cli.training.validation import DevSet, Validator
from nmt_cli.translation import translator as translator_module
from nmt_cli.translation.repetition import count_copies, find_runs, without_repetition
from nmt_cli.translation.results import Part, Translation

MODEL = Path(__file__).parents[2] / "models/format-1-init"
REPEATED = "How much does his bird cost?"
LONG_RUN = re.compile(r"(?<!\S)(\S+(?: \S+){0,3}?)(?: \1){4,}(?!\S)")
"""The definition for words between single blanks."""


@pytest.mark.parametrize(
    ("text", "kept", "run"),
    [
        ("the cat is is is is is", "the cat is", " is is is is"),
        ("is is is is", None, ""),
        ("a b a b a b a b a b a c", "a b", " a b a b a b a b a"),
        ("a b a b a b a b a c", None, ""),
        ("1 2 3 4 " * 5, "1 2 3 4", " 1 2 3 4" * 4),
        ("1 2 3 4 5 " * 9, None, ""),
        ("x x x x xx", None, ""),
        ("他说的的的的的，", "他说的", "的的的的"),
        ("他说的的的的，", None, ""),
        ("我 love我 love我 love我 love我 love。", "我 love", "我 love" * 4),
        ("ของที่ที่ที่ที่ที่", "ของที่", "ที่" * 4),
        ("的\u3000的\u3000的\u3000的\u3000的", "的", "\u3000的" * 4),
        ("hahahahahaha", None, ""),
        ("", None, ""),
    ],
)
def test_a_run_is_more_than_four_copies_of_one_to_four_words_or_characters(text: str, kept: str | None, run: str):
    found = next(iter(find_runs(text)), None)
    assert (found and text[: found.ends[0]]) == kept
    assert found is None or text[found.ends[0] : found.end] == run


@pytest.mark.parametrize(
    "source",
    ["No, no, no, no, NO!", "Ha ha ha ha ha", "hahahahaha", "Nooooo", "哈哈哈哈哈", "哈，哈，哈，哈，哈", "....."],
)
def test_a_source_repeats_itself_in_words_syllables_or_marks(source: str):
    assert count_copies(source) == 5


def test_an_ordinary_source_does_not_repeat_itself():
    assert count_copies("The cat and the dog and the bird and the fish saw 1000000 of the 5555555.") == 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt too little."""
    directory = tmp_path_factory.mktemp("repeating") / "model"
    shutil.copytree(MODEL, directory)
    config = directory / "run/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("@HERE@", str(directory)), encoding="utf-8")
    return directory / "run"


def sources() -> list[str]:
    return (MODEL / "train.en").read_text(encoding="utf-8").splitlines()[:80]


def translated(run: Path, lines: list[str], copies: int = 1, prefixes: list[str] | None = None, **options):
    ours = open_translator([run] * copies, **({"beam_size": 1} | options))
    return ours, [one.translations for one in ours.translate_window([line.encode() for line in lines], None, prefixes)]


def texts(found) -> list[list[str]]:
    return [[one.text for one in translations] for translations in found]


@pytest.fixture(scope="module")
def raw(run: Path) -> list[str]:
    """The whole translations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator_module, "without_repetition", lambda hypothesis, *_: hypothesis)
        patch.setattr(translator_module, "is_endless", lambda *_: False)
        return [best.text for best, *_ in translated(run, sources(), normalize_input=False)[1]]


def test_a_translation_ends_after_the_first_copy_of_what_it_repeats_and_others_stay(run: Path, raw: list[str]):
    ours, found = translated(run, sources(), normalize_input=False)
    num_cut = 0
    for (best, *_), whole in zip(found, raw, strict=True):
        repeated = LONG_RUN.search(whole)
        assert best.text == (whole if repeated is None else whole[: repeated.end(1)])
        assert best.repeated == (repeated is not None)
        num_cut += best.repeated
    assert ours.counts.repeated == num_cut >= 5
    assert len(found) - num_cut >= 20


def test_the_search_of_what_only_repeats_itself_ends_early(run: Path, monkeypatch: pytest.MonkeyPatch):
    """It would go on to the limit of length: some 230 steps."""
    ours, _ = translated(run, [], max_length_b=200)
    steps, step = [], ours.models.step
    monkeypatch.setattr(type(ours.models), "step", lambda self, *given: steps.append(1) or step(*given))
    ((best, *_),) = [one.translations for one in ours.translate([REPEATED])]
    assert best.repeated
    assert len(steps) < 60


def test_links_terms_and_confidence_fit_the_text_that_is_left(run: Path, raw: list[str]):
    _, found = translated(run, sources(), with_alignment=True, confidence=True, normalize_input=False)
    cut = [best for best, *_ in found if best.repeated]
    assert len(cut) >= 5
    for best in cut:
        num_words = len(best.text.split())
        assert best.num_words == len(best.word_confidence) == len(best.weights) == num_words
        assert best.weights_with_end.sum(axis=1) == pytest.approx([1.0] * num_words, abs=1e-5)


@pytest.mark.parametrize("options", others_slow({"beam_size": 3, "n_best": 3}, {}))
def test_repetitions_are_cut_alike_in_all_batches_and_in_an_ensemble(run: Path, options):
    lines = sources()[:50]
    _, whole = translated(run, lines, **options)
    for others in ({"batch_tokens": 200}, {"copies": 2}):
        assert texts(translated(run, lines, **options, **others)[1]) == texts(whole)
    assert any(best.repeated for best, *_ in whole)


def test_what_differs_only_in_its_repetitions_is_one_translation_of_the_list(run: Path):
    _, found = translated(run, sources()[:50], beam_size=4, n_best=4)
    cut = [[one.text for one in translations if one.repeated] for translations in found]
    assert any(cut)
    assert all(len(of_line) == len(set(of_line)) for of_line in cut)


def test_a_prefix_is_kept_whatever_it_repeats(run: Path, raw: list[str]):
    number = next(number for number, text in enumerate(raw) if LONG_RUN.search(text))
    for prefix in (raw[number], " ".join(raw[number].split()[:-1]), "soi " * 9, "Je je je je "):
        _, [[best, *_]] = translated(run, [sources()[number]], prefixes=[prefix])
        assert best.text.startswith(prefix)


def test_the_words_of_a_prefix_that_ends_amid_a_run_keep_their_alignment(run: Path, raw: list[str]):
    """Seen to fail where a prefix may lose the pieces of its later words."""
    number = next(number for number, text in enumerate(raw) if LONG_RUN.search(text))
    repeated = LONG_RUN.search(raw[number])
    prefix = raw[number][: repeated.end(1)] + f" {repeated[1]}" * 2
    _, [[best, *_]] = translated(
        run, [sources()[number]], prefixes=[prefix], with_alignment=True, normalize_input=False
    )
    assert (best.text, best.repeated, len(best.weights)) == (prefix, True, len(prefix.split()))


WORDS = ["", *"axTb"]


def spelt(ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of pieces that are one letter each, and where each of them stands."""
    return " ".join(WORDS[id_] for id_ in ids), [(max(2 * place - 1, 0), 2 * place + 1) for place in range(len(ids))]


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("axxxxxxTb", [7], "axTb"),
        ("axxxxxxbT", [8], "axT"),
        ("Taxxxxxxb", [0], "Tax"),
        ("axxxxxTxxxxxxb", [6], "axTx"),
        ("TTTTTT", [0, 1, 2, 3, 4, 5], "TTTTTT"),
        ("TTTTTTTT", [0, 3], "TTTT"),
        ("axbxbxbxbxbxbT", [13], "axbT"),
    ],
)
def test_what_is_repeated_goes_and_terms_stay_with_their_weights(text: str, terms: list[int], expected: str):
    ids = tuple(WORDS.index(one) for one in text)
    generated = tuple(GeneratedTerm(number, place, place + 1) for number, place in enumerate(terms))
    weights_TS = torch.tensor([[float(id_)] for id_ in (*ids, 9)])
    whole = Hypothesis(ids, -3.0, -1.0, has_ended=True, weights_TS=weights_TS, generated_terms=generated)
    tokenizers = (SimpleNamespace(decode=lambda _: "a source"), SimpleNamespace(decode_spans=spelt))
    cut = without_repetition(whole, Part(0, 0, 0, (1, 2), ()), tokenizers)
    assert "".join(WORDS[id_] for id_ in cut.ids) == expected
    assert cut.weights_TS is not None
    assert cut.weights_TS[: len(cut.ids)].flatten().tolist() == list(cut.ids)
    assert [WORDS[cut.ids[one.begin]] for one in cut.generated_terms] == ["T"] * len(terms)
    assert (cut.log_prob, cut.score) == (-3.0, -1.0)


def test_what_follows_a_prefix_is_cut_as_well(run: Path, raw: list[str]):
    """The prefix is the translation up to the words that are repeated."""
    number = next(number for number, text in enumerate(raw) if LONG_RUN.search(text))
    prefix = raw[number][: LONG_RUN.search(raw[number]).end(1)]
    _, [[best, *_]] = translated(run, [sources()[number]], prefixes=[prefix], normalize_input=False)
    assert (best.text, best.repeated) == (prefix, True)


def test_terms_of_a_glossary_are_generated_also_where_the_model_repeats_itself(run: Path, tmp_path: Path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("airport\tgrimpette\nbird\tgrimpette\nhorse\tgrimpette\nteacher\tgrimpette\n", encoding="utf-8")
    lines = [line for line in sources() if re.search(r"\b(airport|bird|horse|teacher)\b", line)]
    _, found = translated(run, lines, glossary=str(glossary))
    for best, *_ in found:
        words = best.text.split()
        assert "grimpette" in best.text
        assert all("grimpette" in " ".join(words[slice(*use.target)]) for use in best.terms)
    assert any(best.repeated for best, *_ in found)


def test_a_validation_and_an_evaluation_count_what_has_been_cut(run: Path, capsys: pytest.CaptureFixture[str]):
    experiment = Experiment(run)
    model, _ = load_model(experiment, "best")
    dev = DevSet(tuple(sources()[30:]), tuple(sources()[30:]))
    options = DecodingOptions(beam_size=1)
    scores = Validator(dev, experiment.tokenizers, options, world=World(), num_samples=1)(model, SignalDeferrer())
    assert scores is not None
    validated = capsys.readouterr().err
    ours, found = translated(run, sources()[30:], normalize_input=False)
    num_cut = sum(best.repeated for best, *_ in found)
    assert f"  {num_cut} of 50 translations repeat the same words over and over; they are cut there\n" in validated
    assert num_cut > 0
    ours.report()
    assert f"warning: in {num_cut} of 50 translations the model repeated the same words" in capsys.readouterr().err


@pytest.mark.parametrize(("num_empty", "told"), [(16, True), (15, False)])
def test_a_validation_says_that_most_translations_are_empty(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], num_empty: int, told: bool
):
    experiment = Experiment(run)
    said = iter(["Oui"] * (30 - num_empty) + [""] * num_empty)
    monkeypatch.setattr(translator_module, "join_translations", lambda *_, **__: (Translation(next(said), 0.0, 0.0),))
    dev = DevSet(tuple(sources()[:30]), tuple(sources()[:30]))
    options = DecodingOptions(beam_size=1, max_length_a=0.0, max_length_b=1)
    Validator(dev, experiment.tokenizers, options, world=World(), num_samples=1)(
        load_model(experiment, "best")[0], SignalDeferrer()
    )
    line = f"  {num_empty} of 30 translations are empty: the model has learned too little so far\n"
    assert (line in capsys.readouterr().err) == told


def test_about_as_many_copies_stay_as_the_source_has(run: Path):
    lines = [f"No, no, no, no, no! {line}" for line in sources()]
    _, found = translated(run, lines)
    kept = [repeated for best, *_ in found if (repeated := LONG_RUN.search(best.text))]
    assert kept
    assert all(len(one[0].split()) // len(one[1].split()) <= 8 for one in kept)


@pytest.mark.parametrize(
    ("source", "copies", "kept"),
    [
        ("a source", 5, 1),
        ("no no no no no", 8, 8),
        ("no no no no no", 9, 5),
        ("red " * 300, 300, 300),
        ("red " * 300, 304, 300),
        ("x" * 30, 60, 30),
        ("ACGT" * 5, 60, 5),
    ],
)
def test_copies_in_a_source_bound_those_of_its_translation(source: str, copies: int, kept: int):
    tokenizers = (SimpleNamespace(decode=lambda _: source), SimpleNamespace(decode_spans=spelt))
    whole = Hypothesis((2,) * copies, -3.0, -1.0, has_ended=True)
    assert len(without_repetition(whole, Part(0, 0, 0, (1, 2), ()), tokenizers).ids) == kept


def test_a_run_of_letters_does_not_make_its_translation_many_times_as_long():
    """Each letter may be a piece, and each piece of the translation a word."""
    words = ["", "bateaux", "de", "Lyon"]
    tokenizers = (
        SimpleNamespace(decode=lambda _: "x" * 30),
        SimpleNamespace(
            decode_spans=lambda ids: (
                " ".join(words[id_] for id_ in ids),
                [(sum(len(words[one]) + 1 for one in ids[:place]), 0) for place in range(len(ids))],
            )
        ),
    )
    whole = Hypothesis((1, 2, 3) * 25, -3.0, -1.0, has_ended=True)
    assert len(without_repetition(whole, Part(0, 0, 0, (1, 2), ()), tokenizers).ids) == 15
