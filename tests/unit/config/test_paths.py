"""Every path that a configuration can name is known as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CONFIG

from nmt_cli.config.loader import load_config, with_absolute_paths
from nmt_cli.config.paths import paths_in
from nmt_cli.config.schema import Config
from nmt_cli.config.section import PathKind

NO_PATHS = {
    *("name", "data.source_lang", "data.target_lang", "data.licence", "data.test.0.name"),
    *("tokenizer.symbols.0", "training.device", "scoring.tokenize", "training.early_stopping_direction"),
    *(f"data.monolingual.{side}.0.lang" for side in ("source", "target")),
    *(f"data.{text}.{side}_lang" for text in ("train.0", "dev", "dev.0", "test.0") for side in ("source", "target")),
}
"""Keys with text that is no path. A new key with text stands here, or has the type `DataPath` or `DirectoryPath`."""
LANGUAGES = {"source": "en", "target": "fr"}
DIRECTORIES = {"model_dir", "training.init_from"}
SCHEMA = Config.model_json_schema()


def keys_of_text(schema: dict[str, Any], key: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted keys of a JSON Schema that hold free text; an entry of a list has the number 0."""
    if "$ref" in schema:
        yield from keys_of_text(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], key)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from keys_of_text(choice, key)
    for name, inner in schema.get("properties", {}).items():
        yield from keys_of_text(inner, (*key, name))
    if "items" in schema:
        yield from keys_of_text(schema["items"], (*key, "0"))
    if schema.get("type") == "string" and "enum" not in schema and "const" not in schema:
        yield ".".join(key)


OF_TEXTS = {f"data.monolingual.{side}.0.text" for side in ("source", "target")}
OTHER_FORM = {"data.dev.0.source", "data.dev.0.target", *OF_TEXTS}
"""The dev sets as a list, in the place of one, and text in one language with its language."""
PATH_KEYS = sorted({*keys_of_text(SCHEMA)} - NO_PATHS - OTHER_FORM)


@pytest.fixture
def full(tmp_path: Path) -> Config:
    """A configuration in which every key for a path has one, named after the key."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(model_dir="run", corpus="corpus"), encoding="utf-8")
    one = {key: f"{key.removesuffix('.0')}=[{key}]" if key.endswith(".0") else f"{key}={key}" for key in PATH_KEYS}
    return load_config(file, list(one.values()))


def test_the_schema_names_paths_at_all():
    assert {"data.train.0.source", "data.monolingual.target.0", "model.pretrained.source"} < {*PATH_KEYS}


def test_every_text_in_the_schema_is_a_path_or_known_to_be_none(full: Config):
    found = {named.key: named for named in paths_in(full)}
    assert {*found} == {*PATH_KEYS}
    assert {key: named.path for key, named in found.items()} == {key: key for key in PATH_KEYS}
    assert {key for key, named in found.items() if named.kind is PathKind.DIRECTORY} == DIRECTORIES


def test_every_path_is_made_absolute(full: Config):
    absolute = with_absolute_paths(full)
    assert {named.key: named.path for named in paths_in(absolute)} == {key: str(Path.cwd() / key) for key in PATH_KEYS}


def test_the_paths_of_a_list_of_dev_sets_and_of_text_with_its_language_are_known(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(model_dir="run", corpus="corpus"), encoding="utf-8")
    named = [f"{side}: [{{text: data.monolingual.{side}.0.text, lang: {lang}}}]" for side, lang in LANGUAGES.items()]
    forms = [
        "data.dev=[{source: data.dev.0.source, target: data.dev.0.target}]",
        f"data.monolingual={{{', '.join(named)}}}",
    ]
    several = load_config(file, forms)
    assert {named.path for named in paths_in(several)} > OTHER_FORM
    assert all(named.path.startswith("/") for named in paths_in(with_absolute_paths(several)))


def test_a_configuration_without_optional_files_names_none(tmp_path: Path):
    file = tmp_path / "config.yaml"
    lines = CONFIG.format(model_dir="run", corpus="corpus").splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith(("  dev:", "  test:"))), encoding="utf-8")
    keys = [named.key for named in paths_in(load_config(file))]
    assert keys == ["model_dir", "data.train.0.source", "data.train.0.target"]
