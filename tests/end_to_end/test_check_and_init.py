"""`nmt init` and `nmt check` as a user runs them."""

import contextlib
import json
import os
import re
import shutil
import sys

import pytest
from command_line import run_here

from nmt_cli.config.loader import load_config

NUMBERS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
)
ZAHLEN = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf", "dreizehn")
PAIRS = [
    (f"{NUMBERS[i]} and {NUMBERS[j]} are many", f"{ZAHLEN[i]} und {ZAHLEN[j]} sind viele")
    for i in range(13)
    for j in range(13)
]
CONFIG = """\
name: small
model_dir: runs/small
data:
  source_lang: en
  target_lang: de
  train: [{source: a.en, target: a.de}]
  dev: {source: dev.en, target: dev.de}
tokenizer: {vocab_size: 320, model_type: bpe}
model:
  embedding_size: 16
  encoder: {hidden_size: 16}
  decoder: {hidden_size: 16}
  attention: {size: 16}
training: {max_epochs: 1, device: cpu, precision: fp32}
"""


def nmt(directory, *arguments):
    with contextlib.chdir(directory):
        done = run_here(*(str(argument) for argument in arguments))
    return done.code, done.out.decode(), done.err


def write(directory, name, pairs):
    for side, ending in enumerate(("en", "de")):
        (directory / f"{name}.{ending}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path, "a", PAIRS)
    write(tmp_path, "dev", [("twelve and eleven", "zwölf und elf"), PAIRS[4]])
    (tmp_path / "c.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def init(directory, *arguments, source="a.en", target="a.de", output="my.yaml"):
    return nmt(
        directory, "init", "--source", source, "--target", target, "--source-lang", "en", "--target-lang", "de",
        "-o", output, *arguments,
    )  # fmt: skip


# check ------------------------------------------------------------------------------------------------------------


def test_good_text_can_be_trained_on_and_overlap_is_only_a_warning(corpus):
    code, out, err = nmt(corpus, "check", "--config", "c.yaml")
    assert (code, err) == (0, "")
    assert "train: a.en | a.de\n  pairs                                    169\n" in out
    assert "source is also in training                 1  dev.en:2 = a.en:5\n" in out
    assert "lengths     in pieces of a tokenizer trained for this check" in out
    assert out.endswith("training can begin; 1 severe finding, see the advice\n")
    assert not (corpus / "runs").exists()


def test_the_report_for_machines_is_one_json_object(corpus):
    code, out, err = nmt(corpus, "check", "--config", "c.yaml", "--json")
    report = json.loads(out)
    assert (code, err, report["problems"], report["unit"]) == (0, "", [], "pieces")
    train, dev = report["corpora"]
    assert (train["num_pairs"], train["num_kept"], dev["findings"]["overlap"]["count"]) == (169, 169, 1)
    assert report["parameters"]["total"] == sum(
        count for part, count in report["parameters"].items() if part != "total"
    )
    assert report["parameters"]["embeddings"] == 320 * 16
    assert report["memory_bytes"]["weights"] == 4 * report["parameters"]["total"]


@pytest.mark.parametrize("sets", [[], ["model.lexical_model=true"]], ids=["plain", "lexical model"])
def test_parameters_are_those_of_the_model_that_training_builds(corpus, sets):
    from nmt_cli.model.build import build_model

    options = [word for one in sets for word in ("--set", one)]
    report = json.loads(nmt(corpus, "check", "--config", "c.yaml", "--json", *options)[1])
    model = build_model(load_config(corpus / "c.yaml", sets).model, source_vocab_size=320, target_vocab_size=320)
    assert report["parameters"]["total"] == sum(parameter.numel() for parameter in model.parameters())
    assert report["parameters"]["attention"] == sum(p.numel() for p in model.decoder.attention.parameters())


def test_the_tokenizer_of_the_run_is_used_and_another_configuration_is_refused(corpus):
    assert nmt(corpus, "tokenizer", "--config", "c.yaml")[0] == 0
    code, out, err = nmt(corpus, "check", "--config", "c.yaml", "--set", "tokenizer.vocab_size=310")
    assert "lengths     in pieces of the tokenizer in runs/small\n" in out
    assert code == 2
    assert (
        "its tokenizer was trained with another configuration; these keys differ: tokenizer.vocab_size. Set them back, "
        in err
    )


def test_what_a_tokenizer_does_not_depend_on_may_change_after_it(corpus):
    unigram = ("--set", "tokenizer.model_type=unigram", "--set", "tokenizer.vocab_size=290")
    assert nmt(corpus, "tokenizer", "--config", "c.yaml", *unigram)[0] == 0
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", *unigram, "--set", "tokenizer.sampling_alpha=0.1")
    assert code == 0, err


def test_all_errors_of_the_configuration_are_named_at_once(corpus):
    code, out, err = nmt(
        corpus, "check", "--config", "c.yaml", "--set", "seeed=1", "--set", "model.encoder.num_layers=0"
    )
    assert (code, out) == (2, "")
    assert "c.yaml: unknown key 'seeed'; did you mean 'seed'?" in err
    assert "c.yaml: model.encoder.num_layers: must be greater than 0, is 0" in err


@pytest.mark.parametrize("command", ["check", "train", "improve"])
def test_errors_of_the_configuration_and_missing_files_are_named_at_once(corpus, command):
    (corpus / "dev.de").unlink()
    wrong = ["training.max_stepz=5", "training.patience=-1", "seed", "data.train.0.source=nil"]
    code, out, err = nmt(corpus, command, "--config", "c.yaml", *(word for one in wrong for word in ("--set", one)))
    assert (code, out) == (2, "")
    assert err == (
        "nmt: --set seed: must be KEY=VALUE, such as training.max_steps=100\n"
        "c.yaml: training.patience: must be greater than 0, is -1\n"
        "c.yaml: unknown key 'training.max_stepz'; did you mean 'max_steps'?\n"
        "nil: there is no such file\n"
        "dev.de: there is no such file\n"
    )


def test_files_and_disagreements_are_named_also_where_needed_keys_are_missing_or_wrong(corpus):
    data = {
        "source_lang": "en",
        "train": [{"source": "nil.en", "targt": "nil.de"}, {"source": "a.en", "target": "no.de"}],
        "dev": {"source": "dev.en", "target": 5},
        "test": 2 * [{"name": "t", "source": "a.en", "target": "a.de"}],
    }
    rest = {"tokenizer": {"nothing": 1, "joint": False}, "model": {"tied_embeddings": "all"}}
    (corpus / "wrong.yaml").write_text(json.dumps({"name": [1], "data": data, **rest}))
    code, out, err = nmt(corpus, "check", "--config", "wrong.yaml")
    assert (code, out) == (2, "")
    assert err == (
        "nmt: wrong.yaml: name: must be text, is [1]\n"
        "wrong.yaml: missing key 'model_dir'\n"
        "wrong.yaml: missing key 'data.train.0.target'\n"
        "wrong.yaml: unknown key 'data.train.0.targt'; did you mean 'target'?\n"
        "wrong.yaml: data.dev.target: must be text, is 5\n"
        "wrong.yaml: unknown key 'tokenizer.nothing'; `nmt schema` lists the keys\n"
        "wrong.yaml: data.target_lang: is missing; name the language here, or with every corpus\n"
        "wrong.yaml: data.test: every test set needs a name of its own\n"
        "wrong.yaml: model.tied_embeddings: all needs tokenizer.joint: true\n"
        "nil.en: there is no such file\n"
        "no.de: there is no such file\n"
    )


def test_sets_without_a_name_are_not_told_to_have_the_same_one(corpus):
    sets = "[{source: a.en, target: nil.de}, {source: a.en, target: no.de}]"
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", "--set", f"data.test={sets}")
    assert code == 2
    assert err == (
        "nmt: c.yaml: missing key 'data.test.0.name'\nc.yaml: missing key 'data.test.1.name'\n"
        "nil.de: there is no such file\nno.de: there is no such file\n"
    )


def test_all_problems_are_named_at_once_and_the_report_is_still_printed(corpus):
    with (corpus / "a.en").open("ab") as file:
        file.write(b"caf\xe9\n")
    (corpus / "dev.de").unlink()
    code, out, err = nmt(
        corpus, "check", "--config", "c.yaml", "--set", "data.test=[{name: t, source: nil, target: a.de}]"
    )
    assert code == 2
    assert err == (
        "nmt: nil: there is no such file\n"
        "dev.de: there is no such file\n"
        "a.en has 170 lines and a.de has 169 lines; line i of one must belong to line i of the other, so the counts "
        "must be equal\n"
    )
    assert "  lines                                    170 | 169\n" in out
    assert out.endswith("training would not start: 3 problems\n")


def test_invalid_text_is_refused_or_allowed_as_training_does_it(corpus):
    with (corpus / "a.en").open("ab") as english, (corpus / "a.de").open("ab") as german:
        english.write(b"caf\xe9\n")
        german.write(b"Kaffee\n")
    code, out, err = nmt(corpus, "check", "--config", "c.yaml")
    assert code == 2
    assert "a.en:170: is not valid UTF-8; fix the line, or set data.invalid_utf8 to skip or replace" in err
    assert "lines not UTF-8                            1  a.en:170\n" in out
    assert out.endswith("training would not start: 1 problem; 2 findings, 1 of them severe, see the advice\n")
    assert nmt(corpus, "check", "--config", "c.yaml", "--set", "data.invalid_utf8=skip")[0] == 0


def test_a_vocabulary_that_the_text_does_not_allow_is_found_before_training(corpus):
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", "--set", "tokenizer.vocab_size=5000")
    assert code == 2
    assert "nmt: tokenizer.vocab_size: 5000 is more than this text of 338 lines allows; set it to" in err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scoring.tokenize=bogus", "nmt: scoring.tokenize bogus: must be one of"),
        ("training.device=cuda:7", "nmt: device cuda:7: PyTorch finds "),
        ("training.init_from=nowhere", "nmt: training.init_from: nowhere: there is no such model directory"),
        (
            "tokenizer.symbols=[" + ", ".join(f"<{n}>" for n in range(150)) + "]",
            "nmt: tokenizer.vocab_size: 320 is too",
        ),
        ("data.train.0.source=pipe", "pipe: is a pipe or a device, but this text is read more than once. Give a file"),
        (
            "data.train.0.alignment=pipe",
            "pipe: is a pipe or a device, but this text is read more than once. Give a file",
        ),
        ("model_dir=c.yaml", "c.yaml: cannot be used as a model directory: file exists"),
        ("model_dir=c.yaml/run", "c.yaml/run: cannot be used as a model directory: file exists"),
        ("model_dir=link", "link: cannot be used as a model directory: a symbolic link in it leads nowhere"),
        ("model_dir=link/a", "link/a: cannot be used as a model directory: a symbolic link in it leads nowhere"),
        ("training.tensorboard=true", "training.tensorboard: needs tensorboard; pip install 'nmt-cli[logs]'"),
    ],
)
def test_what_training_refuses_is_refused_before_any_work_and_by_the_check_alike(corpus, setting, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # not installed
    os.mkfifo(corpus / "pipe")
    (corpus / "link").symlink_to("gone")
    for command in (("check",), ("train", "--dry-run"), ("train",)):
        if "symbols" in setting and "--dry-run" in command:
            continue  # nothing is trained for it
        code, _, err = nmt(corpus, *command, "--config", "c.yaml", "--set", setting)
        assert code == 2
        assert message in err.replace(f"{corpus}/", "")
        assert not list(corpus.glob("runs/small/checkpoints/step*"))


@pytest.mark.usefixtures("echoed_dev_set")
def test_the_commands_to_try_next_can_be_typed_where_a_name_has_a_blank(corpus):
    code, _, err = nmt(corpus, "train", "--config", "c.yaml", "--set", "model_dir=my run")
    assert code == 0, err
    assert err.endswith(f"try: nmt translate FILE --model '{corpus}/my run'\n")
    assert nmt(corpus, "average", "--model", "my run")[2].endswith(
        "try: nmt translate FILE --model 'my run' --checkpoint average\n"
    )
    index = json.loads((corpus / "my run/checkpoints/index.json").read_text())
    (corpus / "my run/checkpoints/index.json").write_text(json.dumps(index | {"last": None, "recent": [], "best": []}))
    for option, told in (
        ((), "has no checkpoint yet; train the model first"),
        (("--best", "1"), "has no best checkpoint, because no validation has scored one; leave out --best"),
    ):
        code, _, err = nmt(corpus, "average", "--model", "my run", *option)
        assert (code, err) == (2, f"nmt: my run: {told}\n")


@pytest.mark.usefixtures("echoed_dev_set")
def test_links_count_only_where_they_guide(corpus):
    (corpus / "a.align").write_text("none\n" * len(PAIRS))
    sets = ("--set", "data.train.0.alignment=a.align", "--set", "training.guided_alignment_weight=0")
    assert nmt(corpus, "check", "--config", "c.yaml", *sets[:2])[0] == 2
    assert nmt(corpus, "check", "--config", "c.yaml", *sets)[0] == 0
    assert nmt(corpus, "train", "--config", "c.yaml", *sets)[0] == 0


def test_links_must_be_as_many_as_pairs_wherever_they_are_named(corpus):
    (corpus / "a.align").write_text("0-0\n")
    sets = ("--set", "data.train.0.alignment=a.align", "--set", "training.guided_alignment_weight=0")
    for command in ("check", "train"):
        code, _, err = nmt(corpus, command, "--config", "c.yaml", *sets)
        assert code == 2
        assert "a.align has 1 line" in err


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_run_whose_text_has_changed_is_refused_by_the_check_as_by_training(corpus):
    assert nmt(corpus, "train", "--config", "c.yaml")[0] == 0
    more = ("--set", "training.max_epochs=2")
    assert nmt(corpus, "check", "--config", "c.yaml", *more)[0] == 0
    write(corpus, "a", PAIRS[1:])
    assert nmt(corpus, "check", "--config", "c.yaml")[0] == 0  # the run has ended
    for command in ("check", "train"):
        code, _, err = nmt(corpus, command, "--config", "c.yaml", *more)
        assert code == 2
        text = ", ".join(str(corpus / name) for name in ("a.en", "a.de"))
        assert f"{text}: not the text with which the run in {corpus / 'runs/small'} began" in err


def test_tokenizers_that_no_run_has_made_are_in_the_way_of_the_check_as_of_training(corpus):
    foreign = corpus / "runs/small/tokenizer/source.model"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"mine")
    for command in ("check", "tokenizer", "train"):
        code, _, err = nmt(corpus, command, "--config", "c.yaml")
        assert code == 2
        assert f"{foreign}: exists but was not made by `nmt tokenizer`".replace(f"{corpus}/", "") in err.replace(
            f"{corpus}/", ""
        )
        assert foreign.read_bytes() == b"mine"


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_test_set_that_cannot_be_scored_is_no_reason_not_to_train(corpus):
    (corpus / "t.en").write_text("one\n")
    sets = ("--set", "data.test=[{name: t, source: t.en, target: a.de}]")
    code, out, err = nmt(corpus, "check", "--config", "c.yaml", *sets)
    assert code == 2
    assert "t.en has 1 line" in err
    verdict = "training can begin; nmt evaluate would stop with an error: 1 problem"
    assert out.endswith(f"{verdict}; 1 severe finding, see the advice\n")
    assert nmt(corpus, "train", "--config", "c.yaml", *sets)[0] == 0
    code, out, err = nmt(corpus, "evaluate", "--model", "runs/small")
    assert (code, out) == (2, "")
    assert "line i of one must belong to line i of the other" in err


def test_a_number_of_any_length_addresses_an_entry_or_none(corpus):
    many = "9" * 5_000
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", "--set", f"data.train.{many}.weight=1")
    assert code == 2
    assert "; the list has 1, numbered from 0" in err
    assert "Traceback" not in err
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", "--set", f"data.train.{many}=1")
    assert code == 2
    assert "; the list has 1, numbered from 0" in err


def test_a_language_without_blanks_is_not_scored_by_words_unawares(corpus):
    code, _, err = nmt(corpus, "check", "--config", "c.yaml", "--set", "data.target_lang=zh_TW")
    assert code == 0
    assert (
        "warning: scoring.tokenize: BLEU counts words, which zh_TW does not separate by spaces; set it to zh\n" in err
    )
    sets = ("--set", "data.target_lang=zh_TW", "--set", "scoring.tokenize=zh")
    assert "warning" not in nmt(corpus, "check", "--config", "c.yaml", *sets)[2]


def test_a_run_has_tokenizers_of_one_kind(corpus):
    separate = ("--set", "tokenizer.joint=false", "--set", "model.tied_embeddings=none")
    for options, names in (((), ["joint"]), (separate, ["source", "target"]), ((), ["joint"])):
        assert nmt(corpus, "tokenizer", "--config", "c.yaml", *options)[0] == 0
        assert sorted(path.stem for path in (corpus / "runs/small/tokenizer").iterdir()) == names


# init -------------------------------------------------------------------------------------------------------------


def test_the_configuration_written_loads_and_passes_the_check(corpus):
    code, out, err = init(corpus)
    assert (code, out) == (0, "")
    assert "try: nmt check --config my.yaml; nmt train --config my.yaml" in err
    config = load_config(corpus / "my.yaml")
    assert (config.name, config.model_dir, config.data.source_lang) == ("my", "runs/my", "en")
    code, out, err = nmt(corpus, "check", "--config", "my.yaml")
    assert code == 0, err
    assert out.endswith("training can begin\n")


@pytest.mark.usefixtures("echoed_dev_set")
def test_updates_are_counted_as_training_makes_them(corpus):
    # Seen to fail where word pairs are left out, where the pieces are estimated by words, and without the padding.
    options = ("--source-lang", "en", "--target-lang", "de", "--dev-source", "dev.en", "--dev-target", "dev.de")
    code, _, err = nmt(corpus, "init", "--source", "a.en", "--target", "a.de", *options, "-o", "my.yaml")
    assert code == 0, err
    config = load_config(corpus / "my.yaml")
    written = (corpus / "my.yaml").read_text()
    told = re.search(r"max_epochs: \d+ +# passes through the text, here about ([\d,]+) updates", written)
    size = [f"--set=model.{key}=16" for key in ("embedding_size", "encoder.hidden_size", "decoder.hidden_size")]
    one_epoch = ("--set", "training.max_epochs=1", *size, "--set", "model.attention.size=16")
    checked = [
        json.loads(nmt(corpus, "check", "--config", "my.yaml", "--json", "--no-measure", *more)[1])["expected"][
            "updates"
        ]
        for more in ((), one_epoch)
    ]
    code, _, err = nmt(corpus, "train", "--config", "my.yaml", *one_epoch)
    assert code == 0, err
    made = [json.loads(line) for line in (corpus / "runs/my/metrics.jsonl").read_text().splitlines()]
    steps = max(record["step"] for record in made)
    assert checked == [config.training.max_epochs * steps, steps]
    assert int(told[1].replace(",", "")) == checked[0]
    assert 13 <= checked[0] // config.training.validation_freq <= 17


def test_text_whose_lines_are_all_too_long_is_configured(corpus):
    # Seen to fail with a division by zero.
    write(corpus, "long", [(f"{'one two ' * 400}{i}", f"{'eins zwei ' * 400}{i}") for i in range(3)])
    own = ("--dev-source", "dev.en", "--dev-target", "dev.de")
    assert init(corpus, *own, source="long.en", target="long.de")[0] == 0
    assert (corpus / "my.yaml").exists()


def test_a_dev_set_that_says_little_is_warned_of(corpus):
    languages = ("--source-lang", "en", "--target-lang", "de", "--source", "a.en", "--target", "a.de")
    told = "so its BLEU rises and falls by chance. If you have more pairs that are not trained on, name them with"
    held_out = nmt(corpus, "init", *languages, "-o", "held.yaml")[2]
    own = nmt(corpus, "init", *languages, "-o", "own.yaml", "--dev-source", "dev.en", "--dev-target", "dev.de")[2]
    large = nmt(corpus, "init", *languages, "-o", "large.yaml", "--dev-source", "a.en", "--dev-target", "a.de")[2]
    assert re.search(rf"the dev set has only \d+ pairs, {told}", held_out), held_out
    assert re.search(rf"the dev set has only \d+ pairs, {told}", own), own
    assert "the dev set has only" not in large


def test_text_of_few_pairs_is_warned_of(corpus):
    own = ("--dev-source", "dev.en", "--dev-target", "dev.de")
    for number in 1, 999, 1000:
        write(corpus, f"text{number}", [(f"one {i}", f"eins {i}") for i in range(number)])
        code, _, told = init(
            corpus, *own, source=f"text{number}.en", target=f"text{number}.de", output=f"{number}.yaml"
        )
        assert code == 0, told
        found = re.search(r"there (?:is|are) only ([\d,]+ pairs?)\. A model needs thousands", told)
        assert (found and found[1]) == {1: "1 pair", 999: "999 pairs", 1000: None}[number]


def test_held_out_pairs_are_drawn_by_the_seed_and_nothing_like_them_stays_in_training(corpus):
    write(corpus, "a", [*PAIRS, *PAIRS[:60], ("one and one are many", "anders"), ("different", ZAHLEN[2])])
    assert init(corpus)[0] == 0
    data = corpus / "my.data"
    dev, train = (
        list(zip(lines(data / f"{part}.en"), lines(data / f"{part}.de"), strict=True)) for part in ("dev", "train")
    )
    assert len(dev) == (len(PAIRS) + 62) // 20
    for side in (0, 1):
        assert not {pair[side] for pair in dev} & {pair[side] for pair in train}
    given = [*PAIRS, *PAIRS[:60], ("one and one are many", "anders"), ("different", ZAHLEN[2])]
    held = [{pair[side] for pair in dev} for side in (0, 1)]
    assert train == [pair for pair in given if pair[0] not in held[0] and pair[1] not in held[1]]
    assert init(corpus, output="again.yaml")[0] == 0
    assert init(corpus, "--seed", "2", output="other.yaml")[0] == 0
    assert lines(corpus / "again.data" / "dev.en") == lines(data / "dev.en")
    assert lines(corpus / "other.data" / "dev.en") != lines(data / "dev.en")


def test_a_dev_set_of_the_users_own_leaves_the_text_where_it_is(corpus):
    write(corpus, "b", PAIRS[:50])
    more = ("--source", "b.en", "--target", "b.de", "--dev-source", "dev.en", "--dev-target", "dev.de", "--name", "no")
    code, _, err = init(corpus, *more)
    assert code == 0, err
    config = load_config(corpus / "my.yaml")
    assert [corpus.source for corpus in config.data.train] == ["a.en", "b.en"]
    assert (config.data.dev.source, config.name, config.model_dir) == ("dev.en", "no", "runs/no")
    assert not (corpus / "my.data").exists()
    assert nmt(corpus, "check", "--config", "my.yaml")[0] == 0


def test_invalid_lines_of_the_user_are_skipped_by_the_configuration_or_not_copied(corpus):
    for ending in ("en", "de"):
        with (corpus / f"a.{ending}").open("ab") as file:
            file.write(b"caf\xe9\n")
    code, _, err = init(corpus, "--dev-source", "dev.en", "--dev-target", "dev.de", output="own.yaml")
    assert (code, "warning: 1 pairs are not UTF-8; the configuration skips them" in err) == (0, True)
    assert load_config(corpus / "own.yaml").data.invalid_utf8 == "skip"
    assert init(corpus)[0] == 0
    assert load_config(corpus / "my.yaml").data.invalid_utf8 == "error"
    assert all(nmt(corpus, "check", "--config", name)[0] == 0 for name in ("own.yaml", "my.yaml"))


def test_every_pair_is_counted_where_init_parts_the_text(corpus):
    for ending, line in (("en", b"\n \ncaf\xe9\nlast\n"), ("de", b"eins\nzwei\ndrei\nletztes\n")):
        with (corpus / f"a.{ending}").open("ab") as file:
            file.write(line)
    code, _, err = init(corpus)
    assert code == 0
    told = next(line for line in err.splitlines() if line.startswith("my.data: "))
    train, dev, alike, empty, invalid = (int(number) for number in re.findall(r"\b\d+(?= (?:pairs|held|left))", told))
    assert (empty, invalid) == (2, 1)
    assert train + dev + alike + empty + invalid == len(lines(corpus / "a.de"))
    assert [len(lines(corpus / f"my.data/{part}.en")) for part in ("train", "dev")] == [train, dev]


@pytest.mark.parametrize(("options", "output", "told"), [
    (["--name", "a/b"], "my.yaml", "--name: 'a/b' cannot"),
    (["--name", ""], "my.yaml", "--name: '' cannot"),
    ([], "\udcff.yaml", "-o \\udcff.yaml, which names the run too: '\\udcff' cannot"),
])  # fmt: skip
def test_a_name_that_a_run_cannot_have_is_refused_first(corpus, options, output, told):
    code, out, err = init(corpus, *options, output=output)
    assert (code, out) == (2, "")
    assert err == (
        f"nmt: {told} be the name of a run, which is trained in runs/NAME. Take letters, digits, '.', '_' and '-'\n"
    )


def test_names_that_yaml_would_read_otherwise_are_quoted(corpus):
    odd = "12:30 #1 'x' \u2028é.en"
    (corpus / "a.en").rename(corpus / odd)
    assert init(corpus, "--name", "1e3", "--dev-source", odd, "--dev-target", "a.de", source=odd)[0] == 0
    config = load_config(corpus / "my.yaml")
    assert (config.name, config.data.train[0].source) == ("1e3", odd)


def test_sides_that_are_exchanged_are_warned_of(corpus):
    told = "warning: {0} looks like de and {1} like en. If they are swapped, exchange the two file names\n"
    languages = ("--source-lang", "en", "--target-lang", "de")
    code, _, err = nmt(corpus, "init", "--source", "a.de", "--target", "a.en", *languages, "-o", "new.yaml")
    assert (code, told.format("a.de", "a.en") in err) == (0, True), err
    _, _, err = nmt(corpus, "check", "--config", "new.yaml", "--no-measure")
    assert told.format("new.data/train.en", "new.data/train.de") in err
    _, _, err = nmt(corpus, "check", "--config", "c.yaml", "--no-measure")
    assert "looks like" not in err
    code, _, err = init(corpus, "-o", "straight.yaml")
    assert (code, "looks like" in err) == (0, False), err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "dev.en"], "--source names 2 files and --target 1; give as many of one as of the other"),
        (["--dev-source", "dev.en"], "--dev-source and --dev-target belong together: give both, or neither"),
        (["--target-lang", "../x"], "--target-lang ../x: must be a language code, such as en or pt_BR"),
        (["--name", "a/b"], "name: "),
        (["-o", "c.yaml"], "c.yaml: exists already and is not overwritten"),
        (["-o", "no/where.yaml"], "no/where.yaml: there is no directory no; make it first"),
        (["--source", "dev.en", "--target", "a.de"], "dev.en has 2 lines and a.de has 169 lines"),
        (["--source", "nil", "--target", "a.de"], "nil: there is no such file"),
        (
            ["--source", "dev.en", "--target", "./dev.en"],
            "dev.en: is given as source and as target. Give two files",
        ),
        (
            ["--dev-source", "dev.en", "--dev-target", "./dev.en"],
            "dev.en: is given as source and as target. Give two files",
        ),
        (["-o", "x.data"], "x.data: is also the name of the directory for the text held out. Choose another ending"),
        (
            ["-o", "-"],
            "-o -: the configuration must be a file, because the run takes its name from it. Give -o NAME.yaml",
        ),
        (["-o", "my.yaml.gz"], "my.yaml.gz: a configuration is read as plain text; leave out .gz"),
        (
            ["--name", "here", "-o", "runs/here/config.yaml"],
            "the run keeps its own configuration under this name. Choose",
        ),
        (
            ["--source", "/dev/null", "--target", "a.de"],
            "/dev/null: is a pipe or a device, but this text is read more than",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(corpus, arguments, message):
    (corpus / "runs/here").mkdir(parents=True)
    before = sorted(corpus.iterdir())
    code, out, err = init(corpus, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert sorted(corpus.iterdir()) == before
    assert (corpus / "c.yaml").read_text(encoding="utf-8") == CONFIG


def test_held_out_text_is_never_overwritten(corpus):
    (corpus / "my.data").mkdir()
    (corpus / "my.data" / "train.de").write_text("mine\n", encoding="utf-8")
    code, _, err = init(corpus)
    assert code == 2
    assert "my.data/train.de: exists already and is not overwritten; choose another name for my.yaml" in err
    assert lines(corpus / "my.data" / "train.de") == ["mine"]
    assert not (corpus / "my.yaml").exists()


def test_text_of_one_pair_over_and_over_cannot_be_split(corpus):
    write(corpus, "a", PAIRS[:1] * 30)
    code, _, err = init(corpus)
    assert code == 2
    assert "a.en: nothing is left to train on when 1 pairs and all with the same source or target are held out" in err
    assert not (corpus / "my.data").exists()
    assert not (corpus / "my.yaml").exists()
    (corpus / "b.en").write_text("a b\na b\n\n")
    (corpus / "b.de").write_text("c d\nc d\nhalf a pair\n")
    code, _, err = init(corpus, source="b.en", target="b.de")
    assert code == 2
    assert "b.en: nothing is left to train on" in err


def test_the_licence_that_an_import_has_found_goes_into_the_configuration(corpus):
    """Contributors are named beside it, so that it is one licence for all pairs."""
    lines = [
        f"{en}\t{de}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{n} (one) & #{n} (two)"
        for n, (en, de) in enumerate(
            zip((corpus / "a.en").read_text().splitlines(), (corpus / "a.de").read_text().splitlines(), strict=True)
        )
    ]
    (corpus / "deu.txt").write_text("\n".join(lines) + "\n")
    languages = ("--source-lang", "en", "--target-lang", "de")
    assert nmt(corpus, "import", "deu.txt", "-o", "made", *languages)[0] == 0
    stated = "CC-BY 2.0 (France) Attribution: tatoeba.org"
    for output, files in (
        ("one.yaml", ("--pairs", "deu.txt")),
        ("two.yaml", ("--source", "made.en", "--target", "made.de")),
    ):
        code, _, err = nmt(corpus, "init", *files, *languages, "-o", output)
        assert code == 0, err
        assert load_config(corpus / output).data.licence == stated
    for texts in ({"a\nb": 1}, {"x" * 999: 1}, 3, None):
        damaged = json.dumps({"attribution": {"texts": texts}})[: -1 if texts is None else None]
        (corpus / "made.report.json").write_text(damaged)
        (corpus / "two.yaml").unlink()
        shutil.rmtree(corpus / "two.data")
        code, _, err = nmt(corpus, "init", "--source", "made.en", "--target", "made.de", *languages, "-o", "two.yaml")
        assert code == 0, err
        assert load_config(corpus / "two.yaml").data.licence is None
