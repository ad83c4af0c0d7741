"""Every mistake of a configuration at once, and none of them a surprise."""

import re

import pytest

from nmt_cli.config.loader import dump_config, json_schema, load_config, validate
from nmt_cli.config.yaml_text import dump_yaml, format_override, parse_yaml
from nmt_cli.system.errors import ConfigError

GOOD = """
name: x
model_dir: x
data: {source_lang: en, target_lang: de, train: [{source: a, target: b}]}
"""


@pytest.fixture
def problems(tmp_path):
    """The lines of the error that some overrides give."""
    path = tmp_path / "c.yaml"
    path.write_text(GOOD, encoding="utf-8")

    def of(*overrides):
        with pytest.raises(ConfigError) as caught:
            load_config(path, overrides)
        return [line.replace(str(path), "c.yaml") for line in str(caught.value).split("\n")]

    return of


def test_what_is_wrong_by_itself_and_what_does_not_agree_are_named_together(problems):
    found = problems(
        "tokenizer.joint=false", "bogus=1", "model.attention.filter_width=4", "model.attention.coverage=neural",
        "model.attention.type=dot", "model.decoder.readout_size=8",
    )  # fmt: skip
    assert found == [
        "c.yaml: model.attention.coverage: is an option of additive attention, not of dot",
        "c.yaml: model.attention.filter_width: must be odd, is 4",
        "c.yaml: unknown key 'bogus'; `nmt schema` lists the keys",
        "c.yaml: model.decoder.readout_size: is 8, but tied_embeddings: all needs embedding_size, 256",
        "c.yaml: model.tied_embeddings: all needs tokenizer.joint: true",
    ]
    assert problems("tokenizer.joint=false", "bogus=1", "training.max_steps=many") == [
        'c.yaml: training.max_steps: must be a whole number, is "many"',
        "c.yaml: unknown key 'bogus'; `nmt schema` lists the keys",
        "c.yaml: model.tied_embeddings: all needs tokenizer.joint: true",
    ]


def test_no_problem_is_made_by_leaving_out_what_is_wrong(problems):
    assert problems("data.dev.source=3", "data.dev.target=b", "training.schedule=plateau") == [
        "c.yaml: data.dev.source: must be text, is 3"
    ]
    assert problems("model.embedding_size=many", "model.decoder.readout_size=8") == [
        'c.yaml: model.embedding_size: must be a whole number, is "many"'
    ]


def test_a_value_in_place_of_a_list_is_told_in_plain_words(problems):
    assert problems("data.monolingual={target: a.txt}") == [
        'c.yaml: data.monolingual.target: must be a list, is "a.txt"'
    ]


def test_all_that_does_not_agree_in_a_section_is_named(problems):
    assert problems("tokenizer.joint=false", "data.dev=null", "training.schedule=plateau") == [
        "c.yaml: model.tied_embeddings: all needs tokenizer.joint: true",
        "c.yaml: training.schedule: plateau needs data.dev",
    ]
    assert problems("model.decoder.recurrence=luong", "model.decoder.readout=maxout", "model.attention.type=none") == [
        "c.yaml: model.decoder.readout: luong's readout is its attentional vector; leave it at auto",
    ]


def test_a_decoder_that_never_sees_the_source_is_refused(problems):
    sets = ("model.attention.type=none", "model.attention.context=initial", "model.decoder.initial_state=zero")
    (problem,) = problems(*sets)
    assert problem == (
        "c.yaml: model.decoder.initial_state: zero leaves the decoder without the source, because attention.type is "
        "none and attention.context initial"
    )


def test_an_override_that_cannot_be_applied_hides_no_other_problem(problems):
    assert problems("nokey", "training.foo=1", "data.train.9.source=x") == [
        "--set nokey: must be KEY=VALUE, such as training.max_steps=100",
        "--set data.train.9.source=x: there is no entry 9; the list has 1, numbered from 0",
        "c.yaml: unknown key 'training.foo'; `nmt schema` lists the keys",
    ]


@pytest.mark.parametrize(
    ("override", "value"), [("data.train.0.source=d #1/a.en", "d"), ("name='x'  # mine", "'x'"), ("name= #x", "")]
)
def test_a_comment_in_an_override_is_refused(problems, override, value):
    (refused,) = problems(override)
    assert refused == (
        f"--set {override}: in YAML ` #` begins a comment, so the value would be {value!r}. Put the value between "
        "double quotes, within the quotes of the shell"
    )


@pytest.mark.parametrize("text", ["d #1/a.en", "a: b", "@x", "[x", "&x *y", "null", "1e3", "ü", 'a "b"', "plain/a.en"])
def test_an_override_from_setting_gives_the_text(problems, text):
    assert problems(format_override("nowhere", text)) == ["c.yaml: unknown key 'nowhere'; `nmt schema` lists the keys"]
    assert parse_yaml(format_override("", text).removeprefix("="), "here") == text


@pytest.mark.parametrize("key", ["tokenizer.symbols.0.x", "tokenizer.symbols.0.x.y"])
def test_an_override_below_a_single_value_is_refused(problems, key):
    assert problems("tokenizer.symbols=[<a>]", f"{key}=1") == [
        f"--set {key}=1: the part before .x is a single value, not a section with keys"
    ]


@pytest.mark.parametrize(
    "value",
    ["!!bool maybe", "!!timestamp foo", '!!float ""', "!!map [a]", "!!set [a]", "{? !!set {a} : 1}", "!!binary aGk=",
     "!!python/name:os.system", "!mine 3", "{!!binary aGk= : 1}"],
)  # fmt: skip
def test_tags_are_refused_where_they_stand(value):
    with pytest.raises(ConfigError, match=r"^here:1:\d+: not valid YAML: tags such as \S+ are not supported"):
        parse_yaml(value, "here")


def test_an_alias_is_a_copy_of_its_value_and_can_be_merged():
    text = "a: &a {x: [1], y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [{z: 4}, *a], y: 5}\ne: [<<]\n"
    values = parse_yaml(text, "here")
    assert values["b"] == values["a"] == {"x": [1], "y": 2}
    assert values["b"]["x"] is not values["a"]["x"]
    assert (values["c"], values["d"]) == ({"x": [1], "y": 3}, {"x": [1], "y": 5, "z": 4})
    assert values["e"] == parse_yaml(dump_yaml(["<<"]), "here") == ["<<"]


BOMB = "\n".join(["a0: &a0 x", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a\n  b: *a\n", "here:2:6: not valid YAML: the alias *a is a part of the value that it stands for"),
        ("a: 1\nb: *c\n", "here:2:4: not valid YAML: found undefined alias 'c'"),
        (BOMB, "here:6:25: not valid YAML: the aliases up to here stand for too much text; write the values out"),
        ("a: {<<: 1}", "here:1:9: not valid YAML: expected a mapping or list of mappings for merging"),
    ],
)
def test_aliases_that_cannot_be_written_out_are_refused_where_they_stand(text: str, message: str):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        parse_yaml(text, "here")


def test_text_that_is_no_unicode_is_said_to_be_that(problems):
    assert problems('name="\\ud800"') == [
        "c.yaml: holds text that cannot be written in UTF-8, such as a file name in another encoding; correct it"
    ]


@pytest.mark.parametrize(
    "override",
    [
        "tokenizer.vocab_size=9999999999999999999999999",
        "training.threads=99999999999",
        "data.train.0.weight=1e300",
        f"training.max_epochs=1{'0' * 400}",
        f"training.batch_size=1{'0' * 400}",
    ],
)
def test_numbers_beyond_any_use_are_refused(problems, override):
    (found,) = problems(override)
    assert found.startswith(f"c.yaml: {override.partition('=')[0]}: must be less than or equal to ")


def test_an_override_that_is_nested_too_deeply_is_refused(problems):
    assert problems(f"{'a.' * 1500}a=1")[0].startswith("c.yaml: cannot be read: maximum recursion depth exceeded")


def test_a_coverage_that_sentencepiece_does_not_take_is_refused_by_its_key(problems):
    message = "c.yaml: tokenizer.character_coverage: must be greater than or equal to 0.98, is 0.5"
    assert problems("tokenizer.character_coverage=0.5") == [message]


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("[<pad>]", "c.yaml: tokenizer.symbols: <pad> is reserved; choose another"),
        ("[</s>]", "c.yaml: tokenizer.symbols: </s> is reserved; choose another"),
        ("[<0x41>]", "c.yaml: tokenizer.symbols: <0x41> is reserved; choose another"),
        ("[<a>, <b>, <a>]", "c.yaml: tokenizer.symbols: <a> is given twice"),
    ],
)
def test_symbols_that_no_tokenizer_can_have_are_refused(problems, symbols, message):
    assert problems(f"tokenizer.symbols={symbols}") == [message]


def test_a_section_that_contradicts_itself_hides_nothing_of_the_others(problems):
    found = problems("model.decoder.recurrence=luong", "model.decoder.readout=tanh", "tokenizer.joint=false")
    assert found == [
        "c.yaml: model.decoder.readout: luong's readout is its attentional vector; leave it at auto",
        "c.yaml: model.tied_embeddings: all needs tokenizer.joint: true",
    ]


def test_two_keys_that_do_not_agree_hide_nothing_though_neither_fits_the_default_of_the_other(problems):
    found = problems("model.attention={type: multihead, size: 17, heads: 3}", "tokenizer.joint=false")
    assert found == [
        "c.yaml: model.attention.size: 17 is not a multiple of heads, 3",
        "c.yaml: model.tied_embeddings: all needs tokenizer.joint: true",
    ]


@pytest.mark.parametrize("name", [".", "..", "a/b", ""])
def test_a_name_is_one_name_of_a_path(problems, name):
    (found,) = problems(f"name='{name}'")
    assert found.startswith("c.yaml: name: ")


NAME_IN_WORDS = "must be a name without slashes, backslashes and control characters, and neither . nor .."


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("name=en/de", f'name: {NAME_IN_WORDS}, is "en/de"'),
        ("data.test=[{name: .., source: a, target: b}]", f'data.test.0.name: {NAME_IN_WORDS}, is ".."'),
        ("training.device=gpu", 'training.device: must be auto, cpu, cuda, or a GPU such as cuda:0, is "gpu"'),
        ('tokenizer.symbols=["a b"]', 'tokenizer.symbols.0: must be text without spaces, is "a b"'),
        ('data.train.0.alignment="a\\nb"', 'data.train.0.alignment: must be a path without line breaks, is "a\\nb"'),
        ('data.licence=" "', 'data.licence: must be one line of text, is " "'),
    ],
)
def test_text_of_a_wrong_form_is_told_in_words(problems, override, message):
    assert problems(override) == [f"c.yaml: {message}"]


def test_each_pattern_has_its_words():
    schema = json_schema()
    assert schema.count('"pattern": ') == schema.count('"patternErrorMessage": ') > 0


@pytest.mark.parametrize("name", ["...", "..a", ".a", "a.b", "a", "x\x85y", "\u2028 z", "é"])
def test_a_name_comes_back_as_it_was_written(name):
    changed = validate({**parse_yaml(GOOD, "here"), "name": name}, "here")
    assert parse_yaml(dump_config(changed), "there")["name"] == name


def test_a_removed_key_is_accepted_where_it_is_off_and_refused_where_it_is_on(tmp_path, problems):
    path = tmp_path / "old.yaml"
    path.write_text(GOOD + "training: {r_drop: 0.0}\nmodel: {encoder: {transition_depth: 1}}\n", encoding="utf-8")
    assert load_config(path) == load_config(tmp_path / "c.yaml")
    assert problems("training.r_drop=5", "model.decoder.transition_depth=2") == [
        (
            "c.yaml: model.decoder.transition_depth: this option was removed because it improved no model; leave it "
            "out or set it to 1"
        ),
        "c.yaml: training.r_drop: this option was removed because it improved no model; leave it out or set it to 0",
    ]


def test_a_key_that_does_nothing_any_more_is_accepted_and_who_sets_it_is_warned(tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(GOOD, encoding="utf-8")
    for value, times in (("true", 1), ("false", 0)):
        assert load_config(path, [f"training.cuda_graphs={value}"]) == load_config(path)
        told = "training.cuda_graphs: does nothing any more, because CUDA graphs were removed; leave it out"
        assert capsys.readouterr().err.count(told) == times
    path.write_text(dump_config(load_config(path)).replace("training:", "training:\n  cuda_graphs: true"), "utf-8")
    assert load_config(path, is_stored=True) == load_config(path)
    assert capsys.readouterr().err.count(told) == 1  # of the second


def test_a_number_of_updates_alone_decides_the_length(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(GOOD, encoding="utf-8")

    def limits(*overrides):
        training = load_config(path, overrides).training
        return training.max_steps, training.max_epochs

    assert limits() == (None, 20)
    assert limits("training.max_steps=100") == (100, None)
    assert limits("training.max_steps=100", "training.max_epochs=3") == (100, 3)
    assert limits("training.max_steps=null") == (None, 20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  b: 1\n c: 2\n", "here:3:2: not valid YAML: the indentation differs from the lines above"),
        ("a: 1\n  b: 2\n", "here:2:4: not valid YAML: two keys on one line, or wrong indentation"),
        ("a:\n\tb: 1\n", "here:2:1: not valid YAML: a tab; indent with spaces"),
        ("a: {x: 1\nb: 2\n", "here:2:2: not valid YAML: a comma is missing before this, or } to close"),
        ("b: 2\na: 'x\n", "here:3:1: not valid YAML: a quotation mark that was opened in line 2 is not closed"),
        ("a: 1\nb:2\n", "here:3:1: not valid YAML: line 2 has no colon followed by a space"),
        ("a: @x\n", "here:1:4: not valid YAML: put text that begins with @ in quotes"),
        ("a: 'it's'\n", "here:1:8: not valid YAML: there is text behind the value"),
        ("a: - b\n", "here:1:4: not valid YAML: begin each item of a list on a line of its own"),
        ("a: 1\n---\nb: 2\n", "here:2:1: not valid YAML: --- begins a second YAML document here; remove it"),
    ],
)
def test_what_is_wrong_in_yaml_is_said_in_plain_words(text: str, message: str):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        parse_yaml(text, "here")
