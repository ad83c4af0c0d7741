"""Makes a `Config` from YAML text and `--set` overrides, or one error that lists every problem."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt_cli.config.explanation import explain
from nmt_cli.config.paths import make_paths_absolute
from nmt_cli.config.schema import FORMS, IGNORED_KEYS, REMOVED_KEYS, RENAMED_KEYS, Config
from nmt_cli.config.yaml_text import dump_yaml, parse_yaml, value_end
from nmt_cli.system.console import warn
from nmt_cli.system.errors import ConfigError, InputError

MAX_CONFIG_BYTES = 1_000_000
STANDARD_INPUT = Path("-")
_Location = tuple[str | int, ...]
_NEEDED_NAMES = {"name", "model_dir", "source_lang", "target_lang"}


def load_config(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    check_files: Callable[[Config], object] | None = None,
    is_stored: bool = False,
) -> Config:
    """Return the configuration in `path` (`-` is standard input) with `--set KEY=VALUE` overrides applied.

    Warn of keys that no longer have an effect, except if `is_stored`: a run has stored this configuration.

    If anything is wrong, raise one `ConfigError` that lists every problem. Then `check_files` is called too, with the
    configuration without its wrong keys, and its `InputError` is added to the list. It is not called for a right
    configuration.
    """
    origin = "standard input" if path == STANDARD_INPUT else str(path)
    values = parse_yaml(_read(path), origin)
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: is not a configuration: it must hold keys and values, such as 'name: my_run'")
    problems = _rename(values, origin)
    for override in overrides:
        try:
            _apply(values, override)
        except ConfigError as error:
            problems.append(str(error))
    for (*sections, key), reason in IGNORED_KEYS.items():
        if not is_stored and (_section(values, sections) or {}).get(key):
            warn(f"{'.'.join((*sections, key))}: does nothing any more, because {reason}; leave it out")
    config, wrong = _config_and_problems(values, origin)
    problems += wrong
    if config is None or problems:
        if config is not None and check_files is not None:
            try:
                check_files(config)
            except InputError as error:
                problems.append(str(error))
        raise ConfigError("\n".join(problems))
    return config


def validate(values: Mapping[str, Any], origin: str) -> Config:
    """Return the configuration with these values, or raise `ConfigError` with a line for each problem."""
    config, problems = _config_and_problems(values, origin)
    if config is None or problems:
        raise ConfigError("\n".join(problems))
    return config


def _config_and_problems(values: Mapping[str, Any], origin: str) -> tuple[Config | None, list[str]]:
    """Return the configuration without its wrong keys, and a line for each problem.

    The configuration is None if it is not valid without these keys either.
    """
    try:
        values = _without_removed_keys(values)
        _rename(values, origin)
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
    """Return the values without the keys of earlier versions that are switched off or do nothing any more.

    A removed key that is switched on stays, so that it is refused.
    """
    kept: dict[str, Any] = copy.deepcopy(dict(values))
    for (*sections, key), off in REMOVED_KEYS.items():
        section = _section(kept, sections)
        if section is not None and key in section and section[key] == off:
            del section[key]
    for *sections, key in IGNORED_KEYS:
        (_section(kept, sections) or {}).pop(key, None)
    return kept


def _rename(values: dict[str, Any], origin: str) -> list[str]:
    """Rename keys of earlier versions in `values`, and return a message for each conflict.

    A conflict is a key that has different values under its old and its new name.
    """
    problems = []
    for (*sections, old), new in RENAMED_KEYS.items():
        section = _section(values, sections)
        if section is None or old not in section:
            continue
        value = section.pop(old)
        if section.setdefault(new, value) != value:
            key = ".".join((*sections, old))
            problems.append(f"{origin}: {key}: is an older name of {new}, which has another value; leave {key} out")
    return problems


def _section(values: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the section at a path of keys, such as `model`, `encoder`; None if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else None


def _all_problems(values: Mapping[str, Any], error: ValidationError) -> tuple[list[Any], Config | None]:
    """Return the problems (pydantic's error dicts) of an error and those that it hides, and the configuration without
    the wrong keys, or None if no valid one is left.

    pydantic compares keys with each other only where each is right. So the wrong keys are left out, needed ones get a
    stand-in, and the rest is looked at again. Problems that come from leaving a key out are not reported.
    """
    problems = _errors(error)
    rest: Any = json.loads(json.dumps(values, default=str))
    left_out: set[str] = set()
    filled_in: set[_Location] = set()
    new = problems
    while _repair_values(rest, new, left_out, filled_in):
        try:
            return problems, Config.model_validate_json(json.dumps(rest))
        except ValidationError as next_error:
            known = {line for problem in problems for line in _lines(problem)}
            new = []
            for problem in _errors(next_error):
                if problem["type"] == "missing":  # because it was wrong and is left out
                    new.append(problem)
                elif problem["type"] == "value_error":
                    found = [line for line in _lines(problem) if not left_out & set(re.findall(r"\w+", line))]
                    new.append({**problem, "lines": found})
                    if not known.issuperset(found):
                        problems.append(new[-1])
    return problems, None


def _errors(error: ValidationError) -> list[Any]:
    """Return `error.errors()`, with the `loc` of each reduced to keys and list indices of the configuration."""
    return [
        {**problem, "loc": tuple(part for part in problem["loc"] if part not in FORMS)} for problem in error.errors()
    ]


def _repair_values(values: Any, problems: Sequence[Any], left_out: set[str], filled_in: set[_Location]) -> bool:
    """Remove wrong keys, adding their names to `left_out`, and fill in missing ones; return False if nothing changed.

    A key is filled in once, so that this comes to an end.
    """
    changed = False
    for problem in problems:
        if problem["type"] == "missing":
            left_out.discard(str(problem["loc"][-1]))
            changed |= problem["loc"] not in filled_in and _fill_in(values, problem["loc"])
            filled_in.add(problem["loc"])
            continue
        first, others = _keys_of(problem)
        gone = [key for key in first if _leave_out(values, key)] or [key for key in others if _leave_out(values, key)]
        left_out |= {str(key[-1]) for key in gone}
        missing = [
            key for key in first if key and key[-1] in _NEEDED_NAMES and key not in filled_in and key not in gone
        ]
        filled_in.update(missing)
        filled = [_fill_in(values, key) for key in missing]
        changed |= bool(gone) or any(filled)
    return changed


def _lines(problem: Any) -> list[str]:
    """Return the message about a problem as lines: those of `explain`, or a selection that is stored in the problem."""
    lines: list[str] = problem.get("lines") or explain(problem).split("\n")
    return lines


def _keys_of(problem: Any) -> tuple[list[_Location], list[_Location]]:
    """Return the locations of the keys that are wrong or do not agree, and of words in the message that may be keys.

    Each line of the message of a section's own check begins with such a key.
    """
    if problem["type"] != "value_error":
        return [problem["loc"]], []
    message = str(problem["ctx"]["error"])

    def location(key: str) -> _Location:
        return (*problem["loc"], *(int(part) if part.isdecimal() else part for part in key.split(".")))

    first = [location(line.partition(":")[0]) for line in message.split("\n")]
    words = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", message)
    return first, [location(key) for key in words if "." in key or problem["loc"]]


def _leave_out(values: Any, location: Sequence[str | int]) -> bool:
    """Remove a key, so that its default applies; return False if it is not there."""
    *sections, key = location or ("",)
    section = _section_at(values, sections)
    if section is None or key not in section:
        return False
    del section[key]
    return True


def _fill_in(values: Any, location: Sequence[str | int]) -> bool:
    """Set a missing key that is needed to a stand-in value; return False if none is known.

    A name gets a value that nothing else has. Of the two files `source` and `target`, the missing one gets the other.
    """
    *sections, key = location
    section = _section_at(values, sections)
    if section is None:
        return False
    other = {"source": "target", "target": "source"}.get(str(key))
    stand_in = section.get(other) if other else "-".join(map(str, location)) if key in _NEEDED_NAMES else None
    if stand_in is not None:
        section[key] = stand_in
    return stand_in is not None


def _section_at(values: Any, sections: Sequence[str | int]) -> dict[str | int, Any] | None:
    """Return the section at this path of keys and list indices; None if there is none."""
    for part in sections:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return None
    return values if isinstance(values, dict) else None


def dump_config(config: Config) -> str:
    """Return the configuration as YAML, every default written out; `load_config` reads it back to an equal value."""
    return dump_yaml(config.model_dump(mode="json"))


def with_absolute_paths(config: Config) -> Config:
    """Return the same configuration with absolute paths, so that it does not depend on the current directory."""
    return validate(make_paths_absolute(config.model_dump(mode="json"), config), "configuration")


def differing_keys(one: Config, other: Config) -> list[str]:
    """Return the dotted keys, such as `training.max_steps`, whose values differ between two configurations."""
    return differing_json_keys(one.model_dump(mode="json"), other.model_dump(mode="json"))


def differing_json_keys(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the dotted keys whose values differ between two configurations, which are given as parsed JSON."""

    first, second = flat_values(one), flat_values(other)
    return [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]


def flat_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all nested sections by dotted key, such as `training.max_steps`; a list is one value."""

    def flatten(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    return dict(flatten(values, ""))


def json_schema() -> str:
    """Return the text of the configuration's JSON Schema, for completion and checking in editors."""
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
        raise ConfigError(f"{path}: is larger than {MAX_CONFIG_BYTES:,} bytes, so it is not a configuration")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def _apply(values: dict[str, Any], override: str) -> None:
    """Set the key of one `KEY=VALUE` in the nested values, or raise `ConfigError` if that is impossible.

    An entry of a list is named by its index from 0, as in `data.test.0.name`.
    """
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: must be KEY=VALUE, such as training.max_steps=100")
    value = parse_yaml(text, f"--set {key}")
    end = value_end(text)
    if text[end:].lstrip().startswith("#"):
        raise ConfigError(
            f"--set {override}: in YAML ` #` begins a comment, so the value would be {text[:end]!r}. Put the value "
            "between double quotes, within the quotes of the shell"
        )
    place: Any = values
    *parents, last = key.strip().split(".")
    last = RENAMED_KEYS.get((*parents, last), last)
    for name in parents:
        if isinstance(place, dict) and not isinstance(place.get(name), (dict, list)):
            place[name] = {}
        place = place[_key_in(place, name, override)]
    place[_key_in(place, last, override)] = value


def _key_in(place: Any, name: str, override: str) -> str | int:
    """Return `name` for a section, or the index that it names in a list; raise `ConfigError` if it leads nowhere."""
    if isinstance(place, dict):
        return name
    if not isinstance(place, list):
        raise ConfigError(f"--set {override}: the part before .{name} is a single value, not a section with keys")
    if name.isdecimal() and len(name) < 10 and int(name) < len(place):
        return int(name)
    raise ConfigError(f"--set {override}: there is no entry {name}; the list has {len(place):,}, numbered from 0")
