"""Makes a `Config` from YAML text and `--set` overrides, or one error that lists every problem.

Values are read as YAML 1.2 reads them: `no` and `12:30` are strings, `1e-3` is a number (PyYAML alone follows 1.1).
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from nmt_cli.config.explanation import explain
from nmt_cli.config.schema import REMOVED_KEYS, Config
from nmt_cli.errors import ConfigError, InputError

MAX_CONFIG_BYTES = 1_000_000
STANDARD_INPUT = Path("-")
_FIRST_CHARACTERS = list("-+0123456789.")

# The implicit types of YAML 1.2's core schema (section 10.3.2 of the specification).
_CORE_SCHEMA = (
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), _FIRST_CHARACTERS),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        _FIRST_CHARACTERS,
    ),
)


class _Loader(yaml.SafeLoader):
    """Safe, YAML 1.2, no duplicate keys, no aliases (a file of a few lines can stand for gigabytes with them), no tags:
    what a value is shows in how it is written."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (as PyYAML declares it)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not supported", event.start_mark)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            problem = f"tags such as {tag} are not supported; a text stands in quotes, all else is written as it is"
            raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if (type(key), key) in seen:  # to Python the keys 1 and true are the same
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add((type(key), key))
        return super().construct_mapping(node, deep=deep)

    def construct_core_int(self, node: Any) -> int:
        text = self.construct_scalar(node)
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text, 10)


class _Dumper(yaml.SafeDumper):
    """Quotes what `_Loader` would otherwise read as a number."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as PyYAML declares it)
        key: list(value) for key, value in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        # YAML takes these for line breaks, which only between double quotes come back as they were.
        breaks = re.search("[\x85\u2028\u2029]", data)
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if breaks else None)


for _tag, _pattern, _first in _CORE_SCHEMA:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_core_int)
_Dumper.add_representer(str, _Dumper.represent_text)


def load_config(
    path: Path, overrides: Sequence[str] = (), *, check_files: Callable[[Config], object] | None = None
) -> Config:
    """Return the configuration in `path` (`-` is standard input) with `--set KEY=VALUE` overrides applied.

    The `ConfigError` for a wrong one lists every problem, also the `InputError` that `check_files` raises for what is
    left without the wrong keys. A right configuration is not given to `check_files`.
    """
    origin = "standard input" if path == STANDARD_INPUT else str(path)
    values = parse_yaml(_read(path), origin)
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: is not a configuration: it must hold keys and values, such as 'name: my_run'")
    problems: list[str] = []
    for override in overrides:
        try:
            _apply(values, override)
        except ConfigError as error:
            problems.append(str(error))
    config, wrong = _validated(values, origin)
    problems += wrong
    if config is None or problems:
        if config is not None and check_files is not None:
            try:
                check_files(config)
            except InputError as error:
                problems.append(str(error))
        raise ConfigError("\n".join(problems))
    return config


def parse_yaml(text: str, origin: str) -> Any:
    """Return the value that YAML 1.2 text stands for; `ConfigError` names `origin`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{origin}:{mark.line + 1}:{mark.column + 1}" if mark else origin
        too_deep = isinstance(error, RecursionError)
        problem = "too deeply nested" if too_deep else getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{place}: not valid YAML: {problem}") from error


def validate(values: Mapping[str, Any], origin: str) -> Config:
    """Check the values against the schema; `ConfigError` has one line a problem, each with its key."""
    config, problems = _validated(values, origin)
    if config is None or problems:
        raise ConfigError("\n".join(problems))
    return config


def _validated(values: Mapping[str, Any], origin: str) -> tuple[Config | None, list[str]]:
    """Return the configuration without its wrong keys, if these are not needed, and a line for each problem."""
    try:
        values = _without_removed_keys(values)
        # By way of JSON, where strict means what a reader of YAML expects: a list is a tuple, "3" is not a number.
        return Config.model_validate_json(json.dumps(values, default=str)), []
    except (ValueError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            return None, [f"{origin}: cannot be read: {error}"]
        problems, rest = _all_problems(values, error)
        wrong = [tuple(problem["loc"]) for problem in problems]
        lines = dict.fromkeys(
            line
            for problem in problems
            for line in _lines(problem)
            # A list may be too short only because its entries are wrong, and these are named.
            if not (
                problem["type"] == "too_short"
                and any(len(w) > len(problem["loc"]) and w[: len(problem["loc"])] == problem["loc"] for w in wrong)
            )
        )
        return rest, [f"{origin}: {line}" for line in lines]


def _without_removed_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without the keys of earlier versions, where these are switched off.

    A key that is switched on stays, so that it is refused.
    """
    kept: dict[str, Any] = copy.deepcopy(dict(values))
    for (*sections, key), off in REMOVED_KEYS.items():
        section: Any = kept
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict) and key in section and section[key] == off:
            del section[key]
    return kept


def _all_problems(values: Mapping[str, Any], error: ValidationError) -> tuple[list[Any], Config | None]:
    """Return the problems of an error and those that it hides, and the configuration without the wrong keys.

    pydantic compares keys with each other only where each is right. So the wrong keys are left out, and the rest is
    looked at again. Problems that come from leaving a key out are not told.
    """
    problems: list[Any] = error.errors()
    rest: Any = json.loads(json.dumps(values, default=str))
    left_out: list[Sequence[str | int]] = []
    new = problems
    while gone := [location for problem in new for location in _keys_of(problem) if _leave_out(rest, location)]:
        left_out += gone
        try:
            return problems, Config.model_validate_json(json.dumps(rest))
        except ValidationError as next_error:
            names = {str(location[-1]) for location in left_out}
            told = {line for problem in problems for line in _lines(problem)}
            new = []
            for problem in next_error.errors():
                found = [line for line in _lines(problem) if not names & set(re.findall(r"\w+", line))]
                if problem["type"] == "value_error" and not told.issuperset(found):
                    new.append({**problem, "lines": found})
            problems += new
    return problems, None


def _lines(problem: Any) -> list[str]:
    """Return the lines that tell of a problem."""
    lines: list[str] = problem.get("lines") or explain(problem).split("\n")
    return lines


def _keys_of(problem: Any) -> list[tuple[str | int, ...]]:
    """Return the key that is wrong, or those that do not agree: a section's own errors begin with them."""
    if problem["type"] != "value_error":
        return [problem["loc"]]
    lines = str(problem["ctx"]["error"]).split("\n")
    keys = [line.partition(":")[0].split(".") for line in lines]
    return [(*problem["loc"], *(int(part) if part.isdecimal() else part for part in key)) for key in keys]


def _leave_out(values: Any, location: Sequence[str | int]) -> bool:
    """Take a key out, so that its default stands there; False where it is no key that is there."""
    *sections, key = location or ("",)
    for part in sections:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
    is_key = isinstance(values, dict) and key in values
    if is_key:
        del values[key]
    return is_key


def dump_config(config: Config) -> str:
    """Return the configuration as YAML, every default written out; `load_config` reads it back to an equal value."""
    return dump_yaml(config.model_dump(mode="json"))


def dump_yaml(values: Any) -> str:
    """Return values as YAML that readers of YAML 1.1 and of 1.2 read back as they were."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)


def scalar(text: str) -> str:
    """Return a YAML string, quoted where a reader of YAML 1.1 or 1.2 might take it for something else."""
    is_plain = re.fullmatch(r"(?:\./|\.\./|/)?[A-Za-z_][A-Za-z0-9_./+-]*", text)
    if is_plain and text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", quoted)


def setting(key: str, text: object) -> str:
    """Return what stands behind `--set` to give a key this text, quoted where YAML would read something else."""
    value = str(text)
    with suppress(ConfigError):
        if parse_yaml(value, key) == value:
            return f"{key}={value}"
    return f"{key}={scalar(value)}"


def with_absolute_paths(config: Config) -> Config:
    """Return the same configuration, independent of the current directory."""

    def made_absolute(value: Any) -> Any:
        return [made_absolute(one) for one in value] if isinstance(value, list) else str(Path(value).absolute())

    def absolute(section: dict[str, Any], *keys: str) -> dict[str, Any]:
        return section | {key: made_absolute(section[key]) for key in keys if section.get(key) is not None}

    values = config.model_dump(mode="json")
    data = values["data"]
    for name in ("train", "test"):
        data[name] = [absolute(pair, "source", "target", "alignment") for pair in data[name]]
    for name in ("dev", "monolingual"):
        data[name] = data[name] and absolute(data[name], "source", "target")
    values["model"]["pretrained"] = absolute(values["model"]["pretrained"], "source", "target")
    values["training"] = absolute(values["training"], "init_from")
    return validate(absolute(values, "model_dir"), "configuration")


def differing_keys(one: Config, other: Config) -> list[str]:
    """Return the dotted keys whose values differ."""
    return differing_values(one.model_dump(mode="json"), other.model_dump(mode="json"))


def differing_values(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the `differing_keys` of two configurations as JSON holds them."""

    first, second = flat_values(one), flat_values(other)
    return [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]


def flat_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all sections by dotted key; a list is one value."""

    def flatten(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    return dict(flatten(values, ""))


def json_schema() -> str:
    """Return the JSON Schema of the configuration, for completion and checking in editors."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _read(path: Path) -> str:
    if path == STANDARD_INPUT and sys.stdin is None:
        raise ConfigError("standard input is closed; give a file")
    if path.is_dir():
        raise ConfigError(f"{path}: is a directory; name the YAML file in it")
    try:
        with open(0, "rb", closefd=False) if path == STANDARD_INPUT else path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; `nmt init` writes a configuration") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_CONFIG_BYTES:,} bytes, so it is no configuration")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def _apply(values: dict[str, Any], override: str) -> None:
    """Put one `KEY=VALUE` into the nested values; lists are addressed by number, `data.test.0.name`."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: must be KEY=VALUE, such as training.max_steps=100")
    value = parse_yaml(text, f"--set {key}")
    node = yaml.compose(text, Loader=_Loader)
    end = 0 if node is None else node.end_mark.index
    if text[end:].lstrip().startswith("#"):
        raise ConfigError(
            f"--set {override}: in YAML ` #` begins a comment, so the value would be {text[:end]!r}. Put the value "
            "between double quotes, within the quotes of the shell"
        )
    place: Any = values
    *parents, last = key.strip().split(".")
    for name in parents:
        if isinstance(place, dict) and not isinstance(place.get(name), (dict, list)):
            place[name] = {}
        place = place[_key_in(place, name, override)]
    place[_key_in(place, last, override)] = value


def _key_in(place: Any, name: str, override: str) -> str | int:
    """Return the key of a section, or the number of an entry in a list."""
    if isinstance(place, dict):
        return name
    if not isinstance(place, list):
        raise ConfigError(f"--set {override}: there is no {name!r} below a single value")
    if name.isdecimal() and len(name) < 10 and int(name) < len(place):
        return int(name)
    raise ConfigError(f"--set {override}: {name!r} is not one of the {len(place)} entries, numbered from 0")
