"""The truth is the `sacrebleu` command, asked for 17 decimals, which give every float back exactly."""

import json
import logging
import os
import random
import re
import subprocess
import sys

import pytest

from nmt_cli import scoring
from nmt_cli.scoring import (
    bootstrap_interval,
    has_no_spaces,
    paired_bootstrap,
    pieces_warning,
    score_by_length,
    score_corpus,
    tokenisation_warning,
)
from nmt_cli.system.errors import InputError

LABELS = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}
TEXT = """the cat Sat on a Mat, it's 3,000 dogs' barking. Hello World! \u00fcber \u00dcber Stra\u00dfe \u0130stanbul
\u201equoted\u201c &quot;x&quot; <skipped> \u4f60\u597d \u4e16\u754c well-known 2.5% (in brackets) e.g. A.B."""
WORDS = TEXT.split()


def _corpora(num_lines, seed):
    """References, a second set of them, and two systems of different quality."""
    rng = random.Random(seed)
    references = [[rng.choice(WORDS) for _ in range(rng.randint(0, 25))] for _ in range(num_lines)]
    references[0] = WORDS[:10]

    def noisy(rate):
        return [
            " ".join(rng.choice(WORDS) if rng.random() < rate else word for word in words if rng.random() > rate / 2)
            for words in references
        ]

    return [" ".join(words) for words in references], noisy(0.1), noisy(0.2), noisy(0.3)


FIRST, SECOND, BASELINE, SYSTEM = _corpora(61, seed=1)


def _sacrebleu(tmp_path, systems, references, *options):
    names = []
    for i, lines in enumerate([*references, *systems]):
        path = tmp_path / f"text{i}"
        path.write_bytes("".join(line + "\n" for line in lines).encode())
        names.append(str(path))
    num_references = len(references)
    command = [sys.executable, "-m", "sacrebleu", *names[:num_references], "-i", *names[num_references:]]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SACREBLEU")}
    done = subprocess.run(
        [*command, "-m", "bleu", "chrf", "ter", "-w", "17", "--no-color", *options],
        capture_output=True,
        check=True,
        env=environment,
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("options", "arguments", "references"),
    [
        ([], {}, [FIRST]),
        ([], {}, [FIRST, SECOND]),
        (["-lc"], {"lowercase": True}, [FIRST, SECOND]),
        (["-tok", "none"], {"tokenize": "none"}, [FIRST]),
        (["-tok", "13a"], {"tokenize": "13a"}, [FIRST]),
        (["-tok", "intl", "-lc"], {"tokenize": "intl", "lowercase": True}, [FIRST]),
        (["-tok", "char"], {"tokenize": "char"}, [FIRST, SECOND]),
        (["-tok", "zh"], {"tokenize": "zh"}, [FIRST]),
    ],
)
def test_scores_and_signatures_are_those_of_the_sacrebleu_command(options, arguments, references, tmp_path):
    truth = json.loads(_sacrebleu(tmp_path, [SYSTEM], references, *options))
    found = score_corpus(SYSTEM, references, **arguments)
    assert [(score.name, score.label, score.score, score.signature) for score in found] == [
        (LABELS[score["name"]], score["name"], score["score"], score["signature"]) for score in truth
    ]


def test_white_space_around_a_line_does_not_count(tmp_path):
    """The command strips it from the right; carriage returns of Windows files are such white space."""
    system, reference = (["", *(line + "\r" for line in lines), " \u2028", " x"] for lines in (SYSTEM, FIRST))
    truth = json.loads(_sacrebleu(tmp_path, [system], [reference]))
    assert [score.score for score in score_corpus(system, [reference])] == [score["score"] for score in truth]


def test_the_text_is_the_line_of_sacrebleu():
    bleu, chrf, ter = score_corpus(SYSTEM, [FIRST])
    assert re.fullmatch(
        rf"BLEU = {bleu.score:.2f} [\d./]+ \(BP = [\d.]+ ratio = [\d.]+ hyp_len = \d+ ref_len = \d+\)", bleu.text
    )
    assert chrf.text == f"chrF2 = {chrf.score:.2f}"
    assert ter.text == f"TER = {ter.score:.2f}"


@pytest.mark.parametrize("references", [[FIRST], [FIRST, SECOND]])
def test_the_paired_bootstrap_is_that_of_the_sacrebleu_command(references, tmp_path):
    printed = _sacrebleu(tmp_path, [BASELINE, SYSTEM], references, "--paired-bs", "--paired-bs-n", "300", "-f", "text")
    triples = [tuple(map(float, found)) for found in re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", printed)]
    signatures = re.findall(r"^ - (?:BLEU|chrF2|TER) +(nrefs:.*)$", printed, re.MULTILINE)
    found = paired_bootstrap(SYSTEM, BASELINE, references, num_samples=300)

    def triple(score, estimate):
        return (score.score, estimate.mean, estimate.half_width)

    assert [triple(metric.baseline, metric.baseline_estimate) for metric in found] == triples[:3]
    assert [triple(metric.hypothesis, metric.hypothesis_estimate) for metric in found] == triples[3:]
    assert [f"{metric.p_value:.4f}" for metric in found] == re.findall(r"p = ([\d.]+)\)", printed)
    assert [metric.signature for metric in found] == signatures


def test_a_comparison_brings_the_plain_scores():
    found = paired_bootstrap(SYSTEM, BASELINE, [FIRST], num_samples=5)
    assert [metric.hypothesis for metric in found] == score_corpus(SYSTEM, [FIRST])
    assert [metric.baseline for metric in found] == score_corpus(BASELINE, [FIRST])


def test_another_seed_draws_other_samples_and_stands_in_the_signature():
    def bleu(seed):
        return paired_bootstrap(SYSTEM, BASELINE, [FIRST], metrics=["bleu"], num_samples=20, seed=seed)[0]

    assert bleu(1) == bleu(1)
    assert bleu(1).hypothesis_estimate != bleu(2).hypothesis_estimate
    assert "|bs:20|seed:1|" in bleu(1).signature


def test_a_copy_is_identical_and_not_significantly_different():
    found = paired_bootstrap(SYSTEM, list(SYSTEM), [FIRST, SECOND], num_samples=20)
    assert [(metric.is_identical, metric.p_value) for metric in found] == [(True, 1.0)] * 3


def test_what_a_metric_does_not_regard_makes_no_difference_to_it():
    """Blanks at the end count nowhere, and case not for TER."""
    spaced = paired_bootstrap(SYSTEM, [line + " " for line in SYSTEM], [FIRST], num_samples=20)
    assert [(metric.is_identical, metric.p_value) for metric in spaced] == [(True, 1.0)] * 3
    shouted = [line.replace("Hello", "HELLO").replace("dogs", "Dogs") for line in SYSTEM]
    bleu, chrf, ter = paired_bootstrap(SYSTEM, shouted, [FIRST], num_samples=20)
    assert (ter.is_identical, ter.p_value) == (True, 1.0)
    assert not bleu.is_identical
    assert not chrf.is_identical


def test_equal_scores_of_different_sentences_are_compared():
    """Each system has one sentence that the other lacks."""
    (found,) = paired_bootstrap(["a b", "c x"], ["a x", "c b"], [["a b", "c b"]], metrics=["ter"], num_samples=200)
    assert found.hypothesis.score == found.baseline.score
    assert not found.is_identical
    assert 0.05 < found.p_value < 1.0


def test_where_no_sample_has_another_score_there_is_no_difference():
    """BLEU is 0 for sentences of two words, whatever they are."""
    (found,) = paired_bootstrap(["a b", "c x"] * 9, ["a x", "y z"] * 9, [["a b", "c b"] * 9], metrics=["bleu"])
    assert (found.hypothesis.score, found.baseline.score, found.is_identical) == (0.0, 0.0, False)
    assert found.p_value == 1.0


@pytest.mark.parametrize("metric", scoring.METRICS)
def test_the_interval_is_that_of_the_sacrebleu_command(metric, tmp_path):
    options = ("--confidence", "--confidence-n", "200")
    truth = {LABELS[score["name"]]: score for score in json.loads(_sacrebleu(tmp_path, [SYSTEM], [FIRST], *options))}
    score, estimate = bootstrap_interval(SYSTEM, [FIRST], metric=metric, num_samples=200)
    assert [score] == score_corpus(SYSTEM, [FIRST], metrics=[metric])
    # The last digit of the mean depends on the order in which the samples are added.
    assert estimate.mean == pytest.approx(truth[metric]["confidence_mean"], rel=1e-12)
    assert estimate.half_width == pytest.approx(truth[metric]["confidence_var"], rel=1e-12)


def test_metrics_come_once_each_in_the_order_asked_for():
    assert [score.name for score in score_corpus(SYSTEM, [FIRST], metrics=["TER", "bleu", "ter"])] == ["ter", "bleu"]


def test_buckets_hold_the_sentences_of_their_lengths():
    sources = ["", "a b", "a b c", "a\u2003b c d", "a b c d e f"]
    hypotheses, reference = SYSTEM[:5], FIRST[:5]
    buckets = score_by_length(sources, hypotheses, [reference], edges=[2, 3, 5, 5000])
    assert [(bucket.label, bucket.num_lines) for bucket in buckets] == [
        ("0-2", 2),
        ("3-3", 1),
        ("4-5", 1),
        ("6-5000", 1),
    ]
    assert buckets[0].scores == score_corpus(hypotheses[:2], [reference[:2]], metrics=["bleu", "chrf"])
    assert buckets[3].scores == score_corpus(hypotheses[4:], [reference[4:]], metrics=["bleu", "chrf"])


def test_the_last_bucket_is_open_and_empty_ones_are_left_out():
    buckets = score_by_length(["a " * 1000] * 61, SYSTEM, [FIRST, SECOND], edges=[10, 20], metrics=["ter"])
    assert [(bucket.label, bucket.max_words, bucket.num_lines) for bucket in buckets] == [("21+", None, 61)]
    assert buckets[0].scores == score_corpus(SYSTEM, [FIRST, SECOND], metrics=["ter"])


def test_edges_must_rise():
    with pytest.raises(ValueError, match=r"^edges must rise, are \[10, 10\]$"):
        score_by_length(SYSTEM, SYSTEM, [FIRST], edges=[10, 10])


def _input_error(function, *arguments, **options):
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def test_unequal_line_counts_are_refused_with_names_and_counts():
    belong = "line i of one must belong to line i of the other, so the counts must be equal"
    assert (
        _input_error(score_corpus, ["a"], [["a"], ["a", "b"]])
        == f"the system has 1 line and reference 2 has 2 lines; {belong}"
    )
    assert (
        _input_error(scoring.check_line_counts, [("h.de", 3), ("r.de", 3), ("s.en", 0)])
        == f"h.de has 3 lines and s.en has 0 lines; {belong}"
    )
    assert "the baseline has 0 lines" in _input_error(paired_bootstrap, ["a"], [], [["a"]])
    assert "the system has 2 lines" in _input_error(score_by_length, ["a"], ["a", "b"], [["a", "b"]])


def test_nothing_to_score_is_refused():
    assert _input_error(score_corpus, [], [[]]) == "the system: there are no lines"
    assert _input_error(score_corpus, ["a"], []) == "no reference is given; give at least one"


def test_an_unknown_metric_is_answered_with_the_choices():
    assert (
        _input_error(score_corpus, SYSTEM, [FIRST], metrics=["blue"]) == "metric blue: must be one of bleu, chrf, ter"
    )


def test_an_unknown_tokenizer_is_answered_with_the_choices():
    message = _input_error(score_corpus, SYSTEM, [FIRST], tokenize="14a")
    assert message.startswith("tokenizer 14a: must be one of none, zh, 13a, intl, char, ja-mecab, ko-mecab, spm")


@pytest.mark.parametrize(("name", "module", "extra"), [("ja-mecab", "ja", "ja"), ("ko-mecab", "ko", "ko")])
def test_a_tokenizer_without_its_package_says_what_to_install(name, module, extra, monkeypatch):
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{module}_mecab.MeCab", None)
    assert (
        _input_error(scoring.check_tokenizer, name)
        == f"tokenizer {name}: cannot be used here; install it: pip install 'sacrebleu[{extra}]'"
    )


def test_a_tokenizer_without_its_model_says_how_to_fetch_it_and_fetches_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "SACREBLEU_DIR", str(tmp_path))
    assert _input_error(scoring.check_tokenizer, "flores200") == (
        "tokenizer flores200: needs a model file that is not there; fetch it once:\n"
        f"  curl -L --create-dirs -o {tmp_path}/models/flores200sacrebleuspm https://tinyurl.com/flores200sacrebleuspm"
    )
    assert list(tmp_path.iterdir()) == []


def test_plain_tokenizers_pass():
    for name in (None, "none", "13a", "intl", "char", "zh"):
        scoring.check_tokenizer(name)


def test_sacrebleu_itself_says_nothing(caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        score_corpus(["this is it ."] * 200, [["this is it ."] * 200])
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


PLAIN = ["This is it, isn't it?", "", "Yes. Well-known, e.g. 3.5 , he said.", "C'est \u00e7a !", "Mail a@b.de @home"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*PLAIN, "A well @-@ known thing"], "marks of a tokeniser (such as @-@ or &apos;)"),
        ([*PLAIN, "it isn &apos;t"], "marks of a tokeniser (such as @-@ or &apos;)"),
        (["it was , he said", "it was .", "", "plain"], "spaces before full stops and commas"),
    ],
)
def test_tokenised_text_is_recognised(lines, words):
    assert tokenisation_warning(lines) == (
        f"{words}: this looks like tokenised text, whose score cannot be compared with others; "
        "detokenise it, or give --tokenize none if it is meant to be tokenised"
    )
    assert pieces_warning(lines) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["我喜欢红色的车。"], True), (["ฉันชอบรถสีแดง"], True), (["車はiPhoneより赤い。"], True),
        (["I like 北京."], False), (["나는 빨간 차를 좋아한다."], False), (["123", ""], False), ([], False),
    ],
)  # fmt: skip
def test_scripts_without_spaces_are_recognised(lines, expected):
    assert has_no_spaces(lines) == expected


def test_pieces_are_recognised():
    assert pieces_warning(["\u2581This \u2581is \u2581it ."]) == (
        "the mark \u2581: this looks like SentencePiece pieces, not text; decode it first (nmt decode)"
    )
    assert pieces_warning([*PLAIN, "th@@ is is it"]) == (
        "the mark @@: this looks like subword-nmt pieces, not text; join them first (sed 's/@@ //g')"
    )


@pytest.mark.parametrize("lines", [PLAIN, [], ["", " "], PLAIN * 10 + ["a @-@ b", "\u2581", "a@@ b"]])
def test_plain_text_is_left_alone(lines):
    assert tokenisation_warning(lines) is None
    assert pieces_warning(lines) is None
