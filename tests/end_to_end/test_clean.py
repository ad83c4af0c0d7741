"""`nmt clean`, and what `nmt check` and `nmt init` say of pairs that it would drop."""

import contextlib
import gzip
import json
import os
import random
import re
import shlex
from pathlib import Path

import pytest
from command_line import CONFIG, run_here

from nmt_cli.config.loader import load_config
from nmt_cli.demo import phrasebook

PAIRS = [(pair.source.encode(), pair.target.encode()) for pair in phrasebook.generate(seed=3, num_train=1_200).train]
LONG = sorted(PAIRS, key=lambda pair: -len(pair[0]))
NOISE = [
    ("copy", (LONG[0][0], LONG[0][0])),
    ("copy", (b"a\tcopy with\\n \t tabs", b"A\tcopy with\\n \t tabs")),
    ("swapped", LONG[1][::-1]),
    ("empty", (LONG[2][0], b" \t ")),
    ("mixed-encodings", (LONG[3][0], b"\xe9 " + LONG[3][1])),
    ("encoding", (LONG[3][0], "\ufffd ".encode() + LONG[3][1])),
    ("encoding", (LONG[4][0], LONG[4][1] + "Ã©".encode())),
    ("duplicate", PAIRS[10]),
    ("markup", (LONG[5][0], b"<b>" + LONG[5][1] + b"</b>")),
    ("numbers", (LONG[6][0] + b" 17", LONG[6][1] + b" 18")),
    ("too-long", (LONG[6][0] * 20, LONG[6][1] * 20)),
    ("wrong-language", (LONG[7][0], LONG[8][0])),
    ("length-ratio", (LONG[9][0], LONG[9][1][:4])),
]
INVISIBLE = 200 + len(NOISE) + 1
NOISY = [*PAIRS[:200], *(pair for _, pair in NOISE), (LONG[10][0], "\u200b".encode() + LONG[10][1]), *PAIRS[200:]]
KNOWN = {number: rule for number, (rule, _) in enumerate(NOISE, start=201)}


@pytest.fixture
def here(tmp_path):
    """A directory with a noisy corpus, in which commands run."""
    write(tmp_path, NOISY)
    with contextlib.chdir(tmp_path):
        yield tmp_path


def write(directory, pairs, name="a"):
    for side, ending in enumerate(("en", "fr")):
        (directory / f"{name}.{ending}").write_bytes(b"".join(pair[side] + b"\n" for pair in pairs))


def nmt(*arguments):
    done = run_here(*(str(argument) for argument in arguments))
    return done.code, done.out.decode(), done.err


def lines(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).split(b"\n")[:-1]


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def unescape(text):
    found, escaped = [], False
    for character in text:
        if escaped:
            found.append({"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[character])
        elif character != "\\":
            found.append(character)
        escaped = character == "\\" and not escaped
    return "".join(found)


def test_kept_and_dropped_are_what_was_read_in_order(here):
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    code, out, err = nmt("clean", "a.en", "a.fr", "-o", "made")
    assert (code, out) == (0, "")
    assert names(here) == sorted([*before, "made.dropped.tsv", "made.en", "made.fr"])
    assert {name: (here / name).read_bytes() for name in before} == before
    kept = list(zip(lines(here / "made.en"), lines(here / "made.fr"), strict=True))
    rows = [line.decode().split("\t") for line in lines(here / "made.dropped.tsv")]
    assert all(len(row) == 4 for row in rows)
    dropped = {int(number): (rule, unescape(source), unescape(target)) for number, rule, source, target in rows}
    assert list(dropped) == sorted(dropped)
    assert len(kept) + len(dropped) == len(NOISY)
    remaining = iter(kept)
    for number, pair in enumerate(NOISY, start=1):
        if number in dropped:
            assert dropped[number][1:] == tuple(text.decode(errors="replace") for text in pair)
        else:
            assert next(remaining) == pair
    for number, rule in KNOWN.items():
        assert dropped[number][0] == rule, number
    assert f"{len(NOISY):,} pairs read, {len(kept):,} kept" in err
    assert f"made.en, made.fr: {len(kept):,} pairs; dropped pairs: made.dropped.tsv\n" in err


def test_rules_can_be_switched_off_and_on(here):
    options = [word for rule in ("copy", "wrong-language") for word in ("--keep", rule)]
    assert nmt("clean", "a.en", "a.fr", "-o", "made", *options, "--drop", "invisible")[0] == 0
    reasons = {
        int(number): rule
        for number, rule, *_ in (line.decode().split("\t") for line in lines(here / "made.dropped.tsv"))
    }
    assert "copy" not in reasons.values()
    assert "wrong-language" not in reasons.values()
    assert reasons[INVISIBLE] == "invisible"


def test_a_dry_run_counts_beside_what_an_earlier_cleaning_wrote(here):
    assert nmt("clean", "a.en", "a.fr", "-o", "x")[0] == 0
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    code, _, err = nmt("clean", "a.en", "a.fr", "-o", "x", "--dry-run")
    assert code == 0, err
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before
    assert nmt("clean", "a.en", "a.fr", "-o", "a", "--dry-run")[0] == 2  # the inputs themselves


def test_a_dry_run_counts_the_same_and_writes_nothing(here):
    before = names(here)
    told = "nmt: -o PREFIX is missing: name the new files, such as -o clean, or only count with --dry-run\n"
    assert nmt("clean", "a.en", "a.fr") == (2, "", told)
    code, out, err = nmt("clean", "a.en", "a.fr", "--dry-run")
    assert (code, out, names(here)) == (0, "", before)
    assert err == "".join(nmt("clean", "a.en", "a.fr", "-o", "made")[2].splitlines(keepends=True)[:-1])


def test_compressed_files_go_in_and_out_and_equal_endings_are_told_apart(here):
    for name in ("a.en", "a.fr"):
        (here / f"{name}.gz").write_bytes(gzip.compress((here / name).read_bytes()))
    (here / "b.en").write_bytes((here / "a.fr").read_bytes())
    assert nmt("clean", "a.en.gz", "a.fr.gz", "-o", "zipped")[0] == 0
    assert nmt("clean", "a.en", "a.fr", "-o", "plain")[0] == 0
    assert nmt("clean", "a.en", "b.en", "-o", "same")[0] == 0
    for side, ending in (("source", "en"), ("target", "fr")):
        assert lines(here / f"zipped.{ending}.gz") == lines(here / f"plain.{ending}") == lines(here / f"same.{side}.en")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.en", "nil", "-o", "made"], "nil: there is no such file"),
        (["a.en", "short.fr", "-o", "made"], "short.fr has 1 line; line i of one must belong to line i of the other"),
        (["a.en", "a.fr", "-o", "a"], "a.en: cannot be both input and output. The output a.en is the same file"),
        (["a.en", "a.fr", "-o", "old"], "old.fr: exists already and is not overwritten; choose another -o"),
        (["a.en", "a.fr", "-o", "no/made"], "no/made.en: there is no directory no; make it first"),
        (["a.en", "a.fr", "-o", "-"], "-o -: must be the beginning of file names, such as -o clean for clean.en"),
        (["a.en", "a.fr", "-o", "."], "-o .: must be the beginning of file names"),
        (["-", "-", "-o", "made"], "standard input: can be read only once, but cleaning reads twice. Give a file"),
        (["a.en", "-", "-o", "made"], "standard input: can be read only once, but cleaning reads twice. Give a file"),
        (["a.en", "pipe", "-o", "made"], "pipe: can be read only once, but cleaning reads twice. Give a file"),
        (["a.en", "a.en", "-o", "made"], "a.en: is given as source and as target. Give two files"),
        (["a.en", "a.fr", "-o", "made", "--keep", "copys"], "--keep copys: there is no such rule; did you mean copy?"),
        (["a.en", "a.fr", "-o", "made", "--drop", "xyz"], "--drop xyz: there is no such rule; the rules are empty, "),
        (["a.en", "a.fr", "-o", "made", "--drop", "copy", "--keep", "copy"], "--keep copy and --drop copy contradict"),
        (["a.en", "a.fr", "-o", "made", "--tag", "\udcff"], "--tag '\\udcff': is not valid UTF-8; give one word, such"),
        (["a.en", "cr.fr", "-o", "made"], "cr.fr: its lines end in CR only, so it would be one line; `nmt import`"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_and_leaves_nothing_behind(here, arguments, message):
    os.mkfifo(here / "pipe")
    (here / "old.fr").write_text("mine\n")
    (here / "short.fr").write_text("un\n")
    (here / "cr.fr").write_bytes(b"un\rdeux\rtrois\r" * 100)
    before = names(here)
    code, out, err = nmt("clean", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert names(here) == before


def test_text_without_a_good_pair_and_no_text_at_all_are_no_error(here):
    write(here, [(b"", b"x")] * 3, "bad")
    write(here, [], "none")
    code, _, err = nmt("clean", "bad.en", "bad.fr", "-o", "made")
    assert code == 0
    assert "warning: no pair is left. Look at the rules above, and switch off the wrong ones with --keep RULE" in err
    code, _, err = nmt("clean", "none.en", "none.fr", "-o", "nothing")
    assert code == 0
    assert "0 pairs read, 0 kept" in err
    assert lines(here / "nothing.en") == lines(here / "nothing.dropped.tsv") == []


def test_what_cannot_be_looked_for_is_not_said_to_be_absent(here):
    def told(err):
        return {line.split()[0] for line in err.splitlines() if "not looked for: too few pairs" in line}

    write(here, PAIRS[:100], "few")
    assert told(nmt("clean", "few.en", "few.fr", "-o", "made", "--dry-run")[2]) >= {"swapped", "wrong-language"}
    assert told(nmt("clean", "a.en", "a.fr", "-o", "made", "--dry-run")[2]) == set()


def test_files_of_unequal_lengths_are_refused_with_the_place_where_they_part(here):
    write(here, PAIRS, "b")
    (here / "b.fr").write_bytes(b"".join(target + b"\n" for _, target in PAIRS[:600] + PAIRS[601:]))
    for command in (
        ["clean", "b.en", "b.fr", "-o", "made"],
        ["clean", "b.en", "b.fr", "-o", "made", "--dry-run"],
        ["init", "--source", "b.en", "--target", "b.fr", "--source-lang", "en", "--target-lang", "fr", "-o", "b.yaml"],
    ):
        code, _, err = nmt(*command)
        assert code == 2
        place = re.search(r" from about line (\d+)\. Look there: paste b\.en b\.fr \| sed -n '\d+,\d+p'\n$", err)
        assert abs(int(place[1]) - 601) <= 20
    assert not list(here.glob("made*"))


def test_the_command_that_trains_on_cleaned_files_names_them_so_that_they_are_found(here):
    (here / "d #1").mkdir()
    write(here, [PAIRS[0]], "dev")
    write(here, [PAIRS[-1]], "test")
    write(here / "d #1", NOISY, "a")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ["--set", 'data.train=[{source: "d #1/a.en", target: "d #1/a.fr"}]', "--set", "data.invalid_utf8=skip"]
    out = nmt("check", "--config", "c.yaml", *sets)[1]
    cleaning = next(line for line in out.splitlines() if "nmt clean " in line).partition(": nmt ")[2]
    assert nmt(*shlex.split(cleaning))[0] == 0
    training = next(line for line in out.splitlines() if "to train on the cleaned files: " in line)
    arguments = shlex.split(training.partition(": nmt train ")[2])
    code, _, err = nmt("check", *arguments)
    assert code == 0, err


def test_no_command_trains_on_cleaned_files_with_links_that_do_not_fit_them(here):
    write(here, [PAIRS[0]], "dev")
    write(here, [PAIRS[-1]], "test")
    (here / "a.align").write_text("\n" * len(NOISY))
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ["--set", "data.train=[{source: a.en, target: a.fr}]", "--set", "data.invalid_utf8=skip"]
    plain = nmt("check", "--config", "c.yaml", *sets)[1]
    assert "  to train on the cleaned files: nmt train " in plain
    sets += ["--set", "data.train.0.alignment=a.align", "--set", "training.guided_alignment_weight=0"]
    code, out, err = nmt("check", "--config", "c.yaml", *sets)
    assert code == 0, err
    assert "to train on the cleaned files" not in out
    assert "  train: after cleaning, a.align no longer fits; align the cleaned files again before training\n" in out


def test_the_check_sorts_its_advice_and_names_the_command(here):
    write(here, [PAIRS[0]], "dev")
    write(here, [PAIRS[-1]], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--set", "data.invalid_utf8=skip")
    code, out, _ = nmt("check", "--config", "c.yaml", *sets)
    assert code == 0
    assert "\nadvice, worst first\n" in out
    assert "such pairs teach the model to copy; drop them: nmt clean a.en a.fr -o a.clean --without" in out
    assert out.splitlines()[-1].endswith(" findings, 2 of them severe, see the advice")
    assert re.search(r"^  severe +100\.00 %  dev: leak: ", out, re.MULTILINE)
    assert re.search(r"^  slight +0\.\d\d %  train: copy: ", out, re.MULTILINE)
    advice = json.loads(nmt("check", "--config", "c.yaml", "--json", *sets)[1])["advice"]
    assert [one["severity"] for one in advice] == sorted((one["severity"] for one in advice), reverse=True)
    found = {one["finding"]: one for one in advice}
    assert found["copy"]["places"][0] == "a.en:201"
    assert found["copy"]["per_cent"] == pytest.approx(100 * found["copy"]["pairs"] / len(NOISY), abs=0.001)
    leaks = [one for one in advice if one["finding"] == "leak"]
    clean = "nmt clean a.en a.fr -o a.clean --without ./dev.en --without ./test.en"
    assert {(one["corpus"], one["per_cent"], one["level"], one["command"]) for one in leaks} == {
        ("dev", 100.0, "severe", clean),
        ("test book", 100.0, "severe", clean),
    }
    assert found["invisible"]["command"] == clean.replace("a.clean", "a.clean-invisible --drop invisible")
    assert found["copy"]["command"] == clean
    assert nmt(*clean.split()[1:])[0] == 0
    held_out = {PAIRS[0][0], PAIRS[-1][0]}
    assert held_out.isdisjoint(lines(here / "a.clean.en"))
    rows = [line.split(b"\t") for line in lines(here / "a.clean.dropped.tsv")]
    assert {row[2] for row in rows if row[1] == b"leak"} == held_out


def test_lines_in_another_encoding_are_advised_on_though_training_stops_at_them(here):
    write(here, [PAIRS[0]], "dev")
    write(here, [PAIRS[-1]], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]")
    code, out, _ = nmt("check", "--config", "c.yaml", "--json", *sets)
    assert code == 2
    found = {one["finding"]: one for one in json.loads(out)["advice"] if one["corpus"] == "train"}
    number = next(number for number, rule in KNOWN.items() if rule == "mixed-encodings")
    assert found["mixed-encodings"]["places"] == [f"a.en:{number}"]
    assert found["mixed-encodings"]["command"].startswith("nmt clean a.en a.fr -o a.clean --without ")


def test_tokenised_text_and_sources_with_many_targets_are_advised_on(here):
    parted = [tuple(side.replace(b".", b" .").replace(b"?", b" ?") + b" , so ." for side in pair) for pair in PAIRS]
    write(here, [*parted, *((PAIRS[0][0], b"%b %d" % (PAIRS[0][1], number)) for number in range(9))])
    write(here, [PAIRS[0]], "dev")
    write(here, [PAIRS[-1]], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--no-measure")
    code, out, _ = nmt("check", "--config", "c.yaml", "--json", *sets)
    assert code == 0
    found = {one["finding"]: one for one in json.loads(out)["advice"] if one["corpus"] == "train"}
    assert found["tokenised"]["pairs"] == len(PAIRS)
    assert found["tokenised"]["command"] == (
        "pip install sacremoses; cat a.en | sacremoses -l en detokenize > a.plain.en; "
        "cat a.fr | sacremoses -l fr detokenize > a.plain.fr"
    )
    assert found["many-targets"]["places"] == [f"a.en:{len(PAIRS) + row}" for row in (4, 5, 6)]
    assert found["many-targets"]["pairs"] == 6
    assert " -o a.clean-many-targets --drop many-targets --without " in found["many-targets"]["command"]
    assert nmt("clean", "a.en", "a.fr", "-o", "made", "--drop", "many-targets")[0] == 0
    assert [line for line in lines(here / "made.en") if line == PAIRS[0][0]] == [PAIRS[0][0]] * 3


def test_a_large_corpus_is_judged_by_a_part_and_that_is_said(here, monkeypatch):
    monkeypatch.setattr("nmt_cli.corpora.advice.MAX_EXAMINED", 5_000)
    write(here, NOISY * 8, "a")
    write(here, PAIRS[:1], "dev")
    write(here, PAIRS[:1], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--set", "data.invalid_utf8=skip")
    code, out, _ = nmt("check", "--config", "c.yaml", *sets)
    assert code == 0
    assert f"\n                     judged by 5,616 of the {8 * len(NOISY):,} pairs, taken from all parts\n" in out
    assert f"{8 * len(NOISY):,}" == "9,712"


@pytest.mark.slow
def test_init_offers_to_clean_what_is_not_clean(here):
    languages = ("--source-lang", "en", "--target-lang", "fr")
    code, _, err = nmt("init", "--source", "a.en", "--target", "a.fr", *languages, "-o", "my.yaml")
    assert code == 0
    share = nmt("clean", "a.en", "a.fr", "-o", "x", "--dry-run")[2].partition("dropped (")[2].partition(")")[0]
    assert f" of {len(NOISY):,} pairs ({share}; most for " in err
    better = re.search(r"^to clean first: (.*)$", err, re.MULTILINE)[1].split("; ")
    assert better[0] == "nmt clean a.en a.fr -o a.clean"
    for command in better:
        assert nmt(*command.split()[1:])[0] == 0
    assert load_config(Path("my.clean.yaml")).data.train[0].source == "my.clean.data/train.en"
    write(here, PAIRS, "good")
    code, _, err = nmt("init", "--source", "good.en", "--target", "good.fr", *languages, "-o", "good.yaml")
    assert code == 0
    assert "nmt clean" not in err


@pytest.mark.slow
def test_every_command_of_the_check_works_as_it_is_printed(here):
    """One after the other, beside what an earlier check has made; the originals stay as they are."""
    write(here, [*PAIRS[:300], *NOISY[200:215] * 4, *PAIRS[300:]], "a b")
    write(here, [*PAIRS[:250], *((target, source) for source, target in PAIRS[250:300])], "dev")
    write(here, PAIRS[240:320], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a b.en, target: a b.fr}]", "--set", "data.invalid_utf8=skip")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    for number in ("", "2"):
        report = json.loads(nmt("check", "--config", "c.yaml", "--json", "--no-measure", *sets)[1])
        named = {(one["corpus"], one["finding"]) for one in report["advice"]}
        assert {("dev", "swapped"), ("dev", "leak"), ("test book", "leak"), ("train", "invisible")} <= named
        commands = dict.fromkeys(one["command"] for one in report["advice"])
        assert len(commands) >= 3
        for command in commands:
            code, _, err = nmt(*shlex.split(command)[1:])
            assert code == 0, err
        program, *words = shlex.split(report["train_command"])
        assert (program, words[0]) == ("nmt", "train")
        assert f"data.train.0.source=a b.clean{number}.en" in words
        code, out, _ = nmt("check", *words[1:], "--no-measure")
        assert code == 0
        assert "dev: leak: the source is also in the training text" not in out
    assert {name: (here / name).read_bytes() for name in before} == before


def test_files_where_nothing_can_be_written_are_cleaned_into_the_working_directory(here, monkeypatch):
    monkeypatch.setattr("nmt_cli.corpora.advice.os.access", lambda path, mode: not os.path.samefile(path, "locked"))
    (here / "locked").mkdir()
    write(here / "locked", NOISY, "a")
    languages = ("--source-lang", "en", "--target-lang", "fr")
    _, _, err = nmt("init", "--source", "locked/a.en", "--target", "locked/a.fr", *languages, "-o", "my.yaml")
    assert "\nto clean first: nmt clean locked/a.en locked/a.fr -o a.clean; nmt init --source a.clean.en " in err


def test_the_last_line_names_severe_findings_where_no_line_is_suspicious_by_itself(here):
    write(here, [*((target, source) for source, target in PAIRS[100:300]), *PAIRS[300:]], "a")
    write(here, PAIRS[:9], "dev")
    write(here, PAIRS[9:18], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    held_out = ("--set", "data.dev=null", "--set", "data.test=[]")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--no-measure", *held_out)
    code, out, _ = nmt("check", "--config", "c.yaml", *sets)
    assert code == 0
    assert "train: swapped: " in out
    assert out.endswith("\ntraining can begin; 1 severe finding, see the advice\n")


def test_sentences_of_the_dev_set_in_a_test_set_are_a_leak(here):
    write(here, PAIRS[600:], "a")
    write(here, PAIRS[:40], "dev")
    write(here, [*PAIRS[30:60], (b"", b"x")], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--no-measure", "--json")
    report = json.loads(nmt("check", "--config", "c.yaml", *sets)[1])
    shared = {source for source, _ in PAIRS[:40]} & {source for source, _ in PAIRS[30:60]}
    number = sum(source in shared for source, _ in PAIRS[30:60])
    (leak,) = (one for one in report["advice"] if "dev set" in one["description"])
    assert (leak["corpus"], leak["pairs"], leak["read"]) == ("test book", number, 31)
    assert leak["places"][0] == "./test.en:1 = ./dev.en:31"
    assert leak["command"] == "nmt clean ./dev.en ./dev.fr -o dev.clean --without ./test.en"


def test_a_dev_or_test_set_that_is_the_training_text_is_no_reason_to_empty_that(here):
    write(here, PAIRS[:40], "a")
    write(here, PAIRS[30:60], "dev")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    train = ("--set", "data.train=[{source: a.en, target: a.fr}]", "--no-measure", "--json")

    def leaks(dev: str, test: str) -> set[tuple[str, str, str]]:
        sets = ("--set", f"data.dev={{source: {dev}.en, target: {dev}.fr}}", "--set", f"data.test.0.source={test}.en")
        code, out, _ = nmt("check", "--config", "c.yaml", *train, *sets, "--set", f"data.test.0.target={test}.fr")
        assert code == 0
        found = (one for one in json.loads(out)["advice"] if one["finding"] == "leak")
        return {(one["corpus"], one["advice"].partition(",")[0], one["command"]) for one in found}

    itself, is_dev = "this is the training text itself", "this is the dev set itself"
    clean = ("take these sentences out of the training text", "nmt clean a.en a.fr -o a.clean --without dev.en")
    (here / "link.en").symlink_to("a.en")
    (here / "link.fr").symlink_to("a.fr")
    assert leaks("a", "link") == {("dev", itself, ""), ("test book", itself, ""), ("test book", is_dev, "")}
    assert leaks("dev", "dev") == {("dev", *clean), ("test book", *clean), ("test book", is_dev, "")}


def test_the_check_says_where_unequal_files_part_and_that_one_file_is_no_corpus(here):
    write(here, PAIRS, "b")
    (here / "b.fr").write_bytes(b"".join(target + b"\n" for _, target in PAIRS[:600] + PAIRS[601:]))
    write(here, PAIRS[:9], "dev")
    write(here, PAIRS[:9], "test")
    (here / "c.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="."), encoding="utf-8")
    sets = ("--set", "data.train=[{source: b.en, target: b.fr}]", "--no-measure")
    code, out, _ = nmt("check", "--config", "c.yaml", "--json", *sets)
    assert code == 2
    (found,) = (one for one in json.loads(out)["advice"] if one["corpus"] == "train")
    assert (found["finding"], found["level"]) == ("out-of-step", "severe")
    assert abs(int(found["places"][0].removeprefix("b.en:")) - 601) <= 20
    assert found["command"].startswith("paste b.en b.fr | sed -n ")
    write(here, PAIRS, "b")
    (here / "b.fr").write_bytes(b"".join(target + b"\n" for _, target in PAIRS) + b"\n\n")
    code, out, _ = nmt("check", "--config", "c.yaml", *sets)
    assert code == 2
    assert f"lines and belong together as far as both go (b.en:{len(PAIRS) + 1} ...)\n" in out
    sets = ("--set", "data.train=[{source: b.en, target: b.en}]", "--no-measure")
    code, out, _ = nmt("check", "--config", "c.yaml", *sets)
    assert code == 0
    assert "the same file is given as source and as target: name the translation as the target\n" in out
    assert "nmt clean b.en" not in out
    assert "not looked for in train: swapped, wrong-language" in out
    one_file = ["--source", "b.en", "--target", "b.en", "--source-lang", "en", "--target-lang", "fr", "-o", "b.yaml"]
    assert "b.en: is given as source and as target. Give two files" in nmt("init", *one_file)[2]


def test_no_bytes_are_lost_or_shifted_whatever_the_lines_hold(here):
    draw = random.Random(4)
    parts = [b"", b"\0", b"\r", b"\xff", b"\t", b"\\", "\u2028".encode(), "你好".encode(), b"<b>", b"12", b"a b", b" "]
    pairs = [tuple(b"".join(draw.choices(parts, k=draw.randrange(9))) for _ in range(2)) for _ in range(700)]
    write(here, pairs, "odd")
    assert nmt("clean", "odd.en", "odd.fr", "-o", "made", "--drop", "invisible")[0] == 0
    kept = list(zip(lines(here / "made.en"), lines(here / "made.fr"), strict=True))
    rows = [line.decode().split("\t") for line in lines(here / "made.dropped.tsv")]
    dropped = {int(number): (unescape(source), unescape(target)) for number, _, source, target in rows}
    assert kept == [pair for number, pair in enumerate(pairs, start=1) if number not in dropped]
    assert all(
        dropped[number] == tuple(text.decode(errors="replace") for text in pairs[number - 1]) for number in dropped
    )
