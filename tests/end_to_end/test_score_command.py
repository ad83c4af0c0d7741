"""`nmt score` as a user runs it; the truth is the `sacrebleu` command, asked for 17 decimals."""

import gzip
import json
import os
import subprocess
import sys
from contextlib import chdir

import pytest
from command_line import run_here

REFERENCE = [
    "The cat sat on the mat.",
    "\u00dcber sieben Br\u00fccken musst du gehn, sieben dunkle Jahre \u00fcberstehn.",
    "It costs 3,000 dollars (or 2.5% less).",
    "He said: \u201eGuten Tag\u201c, and left the well-known house.",
    "A dog barks at the moon every single night of the year.",
]
SECOND_REFERENCE = [
    "A cat was sitting on the mat.",
    "Du musst \u00fcber sieben Br\u00fccken gehn und sieben dunkle Jahre \u00fcberstehn.",
    "The price is 3,000 dollars (or 2.5% less).",
    "\u201eGuten Tag\u201c, he said, and left the famous house.",
    "Every night of the year a dog barks at the moon.",
]
SYSTEM = [
    "The cat is on the mat.",
    "\u00fcber sieben Br\u00fccken musst du gehen, sieben dunkle jahre \u00fcberstehen.",
    "It costs 3,000 Dollars, or 2.5% less.",
    "He said: \u201eguten Tag\u201c, and left the known house.",
    "A dog barks at the moon every night of this year.",
]
BASELINE = [
    "Cat sits on mat.",
    "\u00dcber Br\u00fccken sollst du gehn, dunkle Jahre.",
    "It costs 3,000 dollars.",
    "",
    "The dog barks at the moon each night of the year.",
]
SOURCE = ["a b c", "a " * 11, "a b c d", "a b", "a " * 12]


@pytest.fixture(autouse=True)
def _no_options_of_sacrebleu_from_outside(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SACREBLEU")]:
        monkeypatch.delenv(name)


@pytest.fixture
def files(tmp_path):
    texts = {"ref": REFERENCE, "ref2": SECOND_REFERENCE, "hyp": SYSTEM, "base": BASELINE, "src": SOURCE}
    for name, lines in texts.items():
        _write(tmp_path / name, lines)
    return tmp_path


def _write(path, lines):
    path.write_bytes("".join(line + "\n" for line in lines).encode())


def _nmt_score(directory, *arguments, stdin=b""):
    with chdir(directory):
        done = run_here("score", *arguments, stdin=stdin)
    return done.code, done.out.decode(), done.err


def _scores(directory, *arguments, stdin=b""):
    code, stdout, stderr = _nmt_score(directory, *arguments, "--json", stdin=stdin)
    assert (code, stderr) == (0, "")
    return json.loads(stdout)


def _refusal(directory, *arguments, stdin=b""):
    code, stdout, stderr = _nmt_score(directory, *arguments, stdin=stdin)
    assert (code, stdout) == (2, "")
    assert "Traceback" not in stderr
    return stderr


def _sacrebleu(directory, *arguments):
    command = [sys.executable, "-m", "sacrebleu", *arguments, "-m", "bleu", "chrf", "ter", "-w", "17"]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=True)
    keys = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}
    return {
        keys[score["name"]]: {"score": score["score"], "signature": score["signature"]}
        for score in json.loads(done.stdout)
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["hyp", "--reference", "ref"], ["ref", "-i", "hyp"]),
        (
            ["hyp", "--reference", "ref", "--reference", "ref2", "--lowercase", "--tokenize", "intl"],
            ["ref", "ref2", "-i", "hyp", "-lc", "-tok", "intl"],
        ),
    ],
)
def test_the_json_is_the_answer_of_sacrebleu(ours, theirs, files):
    assert _scores(files, *ours) == _sacrebleu(files, *theirs)


def test_a_file_a_gz_file_and_standard_input_score_the_same(files):
    text = (files / "hyp").read_bytes()
    (files / "hyp.gz").write_bytes(gzip.compress(text))
    truth = _scores(files, "hyp", "--reference", "ref", "--metric", "bleu")
    assert _scores(files, "hyp.gz", "--reference", "ref", "--metric", "bleu") == truth
    assert _scores(files, "--reference", "ref", "--metric", "bleu", stdin=text) == truth
    assert _scores(files, "-", "--reference", "ref", "--metric", "BLEU", stdin=text[:-1]) == truth


def test_lines_end_at_newline_only(files):
    _write(files / "odd", ["a\rb", "c\u2028d", "e\x0cf", "g\u0085h", "i\x00j"])
    assert _scores(files, "odd", "--reference", "odd", "--metric", "ter")["ter"]["score"] == 0


def test_the_human_form_has_a_line_and_a_signature_a_metric(files):
    scores = _scores(files, "hyp", "--reference", "ref")
    code, stdout, stderr = _nmt_score(files, "hyp", "--reference", "ref")
    assert (code, stderr) == (0, "")
    lines = stdout.split("\n")
    assert lines[0].startswith(f"BLEU = {scores['bleu']['score']:.2f} ")
    assert lines[2] == f"chrF2 = {scores['chrf']['score']:.2f}"
    assert lines[4] == f"TER = {scores['ter']['score']:.2f}"
    assert lines[1::2] == [f"  signature: {scores[name]['signature']}" for name in ("bleu", "chrf", "ter")]


def test_only_the_metrics_asked_for_are_printed(files):
    assert list(_scores(files, "hyp", "--reference", "ref", "--metric", "ter", "--metric", "chrf")) == ["ter", "chrf"]


def test_options_of_bleu_are_named_where_bleu_is_not_asked_for(files):
    idle = ("--lowercase", "--tokenize", "char")
    code, _, stderr = _nmt_score(files, "hyp", "--reference", "ref", "--metric", "chrf", *idle)
    told = [f"warning: {option} does nothing without --metric bleu\n" for option in ("--lowercase", "--tokenize")]
    assert (code, stderr) == (0, "".join(told))


def test_a_baseline_is_compared_by_paired_bootstrap(files):
    options = ["hyp", "--reference", "ref", "--baseline", "base"]
    found = _scores(files, *options)
    baseline = found.pop("baseline")
    assert found == _sacrebleu(files, "ref", "-i", "hyp")
    assert {name: metric["score"] for name, metric in baseline.items()} == {
        name: metric["score"] for name, metric in _sacrebleu(files, "ref", "-i", "base").items()
    }
    assert "|bs:1000|seed:12345|" in baseline["bleu"]["signature"]

    code, stdout, _ = _nmt_score(files, *options)
    assert code == 0
    assert "Against the baseline, by paired bootstrap (mean +/- half of the 95% confidence interval):\n" in stdout
    bleu = baseline["bleu"]
    assert (
        f"baseline {bleu['score']:.2f} ({bleu['mean']:.2f} +/- {bleu['ci']:.2f}), p = {bleu['p_value']:.4f}" in stdout
    )


def test_a_comparison_on_one_line_is_warned_of(files):
    for name, line in (("one", SYSTEM[0]), ("two", SYSTEM[1]), ("right", REFERENCE[0])):
        _write(files / name, [line])
    code, _, stderr = _nmt_score(files, "one", "--reference", "right", "--baseline", "two")
    assert (
        code,
        stderr.startswith("warning: one line is too little to compare: all bootstrap samples are the same"),
    ) == (0, True)


def test_a_system_against_its_copy_is_called_identical(files):
    _write(files / "copy", SYSTEM)
    options = ["hyp", "--reference", "ref", "--baseline", "copy"]
    code, stdout, stderr = _nmt_score(files, *options)
    assert code == 0
    assert stderr == "warning: the hypotheses and the baseline are the same text, so there is nothing to compare\n"
    assert stdout.count("), identical, p = 1.0000\n") == 3
    assert "*" not in stdout
    code, stdout, _ = _nmt_score(files, *options, "--json")
    baseline = json.loads(stdout)["baseline"]
    assert {name: (found["identical"], found["p_value"]) for name, found in baseline.items()} == {
        "bleu": (True, 1.0),
        "chrf": (True, 1.0),
        "ter": (True, 1.0),
    }


def test_scores_by_length_come_with_counts(files):
    options = ["hyp", "--reference", "ref", "--source", "src", "--by-length"]
    buckets = _scores(files, *options)["by_length"]
    assert [(bucket["min_words"], bucket["max_words"], bucket["lines"]) for bucket in buckets] == [
        (0, 10, 3),
        (11, 20, 2),
    ]
    for name, rows in {"short": (0, 2, 3), "long": (1, 4)}.items():
        _write(files / f"{name}.hyp", [SYSTEM[i] for i in rows])
        _write(files / f"{name}.ref", [REFERENCE[i] for i in rows])
    for name, bucket in zip(("short", "long"), buckets, strict=True):
        truth = _sacrebleu(files, f"{name}.ref", "-i", f"{name}.hyp")
        assert {key: bucket[key] for key in truth} == {key: metric["score"] for key, metric in truth.items()}

    code, stdout, _ = _nmt_score(files, *options)
    assert code == 0
    assert "By words in the source:\n" in stdout
    assert f"      0-10       3{buckets[0]['bleu']:8.2f}{buckets[0]['chrf']:8.2f}{buckets[0]['ter']:8.2f}\n" in stdout


def test_invalid_utf8_is_replaced_and_counted(files):
    (files / "hyp").write_bytes(b"\xff\n\xfe\n" + "\n".join(SYSTEM[2:]).encode())
    code, stdout, stderr = _nmt_score(files, "hyp", "--reference", "ref", "--metric", "bleu")
    assert code == 0
    assert stdout.startswith("BLEU = ")
    assert "hyp: 2 lines are not valid UTF-8; invalid bytes are read as U+FFFD" in stderr


def test_tokenised_text_is_warned_of_unless_meant(files):
    _write(files / "tok", ["It was , he said , so ."] * 5)
    code, _, stderr = _nmt_score(files, "tok", "--reference", "ref", "--metric", "bleu")
    assert code == 0
    assert "tok has spaces before full stops and commas: this looks like tokenised text" in stderr
    assert "ref has" not in stderr
    _scores(files, "tok", "--reference", "tok", "--metric", "bleu", "--tokenize", "none")


def test_pieces_are_warned_of(files):
    _write(files / "pieces", ["\u2581It \u2581was \u2581so ."] * 5)
    code, _, stderr = _nmt_score(files, "pieces", "--reference", "ref", "--metric", "bleu", "--tokenize", "none")
    assert code == 0
    assert "this looks like SentencePiece pieces, not text; decode it first (nmt decode)" in stderr


def test_unequal_line_counts_are_refused(files):
    _write(files / "short", SYSTEM[:4])
    assert "short has 4 lines and ref has 5 lines" in _refusal(files, "short", "--reference", "ref")
    assert "standard input has 1 line and ref has 5 lines" in _refusal(files, "--reference", "ref", stdin=b"a\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing", "--reference", "ref"], "missing: there is no such file"),
        (["hyp", "--reference", "."], ".: is a directory; give a text file"),
        (["--reference", "ref"], "standard input: there are no lines"),
        (["--reference", "-"], "standard input can be read only once: give files for the other inputs"),
        (["hyp", "--reference", "ref", "--metric", "blue"], "metric blue: must be one of bleu, chrf, ter"),
        (
            ["hyp", "--reference", "ref", "--tokenize", "14a"],
            "--tokenize 14a: must be one of none, zh, 13a, intl",
        ),
        (
            ["hyp", "--reference", "ref", "--by-length"],
            "--by-length and --source belong together: give both, or neither",
        ),
        (["hyp", "--reference", "ref", "--source", "src"], "--by-length and --source belong together"),
        (["hyp"], "--reference"),
    ],
)
def test_wrong_input_is_refused_with_a_reason(arguments, message, files):
    assert message in _refusal(files, *arguments)
