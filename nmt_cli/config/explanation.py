"""Explains in plain words what pydantic found wrong in a configuration."""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from nmt_cli.config.schema import REMOVED_KEYS, Config
from nmt_cli.config.section import PATTERN_MESSAGE_KEY

_PLAIN_WORDS = {
    "input should be": "must be", "a valid integer": "a whole number", "a valid boolean": "true or false",
    "a valid string": "text", "valid array": "list", "an object": "a section with keys", "valid ": "",
}  # fmt: skip


def explain(problem: Any) -> str:
    """Return an entry of pydantic's `ValidationError.errors()` as `key: what is wrong, and what to do`."""
    location = problem["loc"]
    key = ".".join(map(str, location))
    kind = problem["type"]
    if kind == "json_invalid":
        return "holds text that cannot be written in UTF-8, such as a file name in another encoding; correct it"
    if kind == "extra_forbidden" and location in REMOVED_KEYS:
        off = REMOVED_KEYS[location]
        return f"{key}: this option was removed because it improved no model; leave it out or set it to {off:g}"
    if kind == "extra_forbidden":
        return f"unknown key '{key}'{_suggestion(location)}"
    if kind == "too_short":
        return f"{key}: is empty; give at least one entry"
    if kind == "missing":
        return f"missing key '{key}'"
    if kind == "value_error":
        return "\n".join(f"{key}.{inner}" if key else inner for inner in str(problem["ctx"]["error"]).split("\n"))
    message = problem["msg"][0].lower() + problem["msg"][1:]
    if kind == "literal_error":
        message = f"must be one of {problem['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        message = _pattern_message(problem["ctx"]["pattern"], _schema()) or message
    for pydantic_words, plain in _PLAIN_WORDS.items():
        message = message.replace(pydantic_words, plain)
    given = json.dumps(problem["input"], ensure_ascii=False)
    return f"{key}: {message}, is {given if len(given) < 80 else given[:77] + '...'}"


@cache
def _schema() -> dict[str, Any]:
    return Config.model_json_schema()


def _pattern_message(pattern: str, schema: Any) -> str | None:
    """Return the error message that a JSON Schema has beside a regular expression; None if it lacks the expression."""
    if isinstance(schema, dict) and schema.get("pattern") == pattern:
        return str(schema[PATTERN_MESSAGE_KEY])
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return next((found for part in parts if (found := _pattern_message(pattern, part))), None)


def _suggestion(location: Sequence[str | int]) -> str:
    """Return the end of the message about an unknown key: the most similar key, or a hint to `nmt schema`."""
    wrong = str(location[-1])
    section = _section_at(location[:-1])
    near = difflib.get_close_matches(wrong, list(section.model_fields) if section else [], n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    everywhere = {key.rsplit(".", 1)[-1]: key for key in reversed(list(_all_keys(Config, "")))}
    elsewhere = difflib.get_close_matches(wrong, list(everywhere), n=1, cutoff=0.8)
    return f"; did you mean '{everywhere[elsewhere[0]]}'?" if elsewhere else "; `nmt schema` lists the keys"


def _section_at(location: Sequence[str | int]) -> type[BaseModel] | None:
    section: type[BaseModel] | None = Config
    for part in location:
        if isinstance(part, int) or section is None:
            continue
        field = section.model_fields.get(part)
        section = _section_in(field.annotation) if field else None
    return section


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section class in an annotation such as `tuple[TestSet, ...]`, or None if there is none."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in typing.get_args(annotation) if (found := _section_in(part))), None)


def _all_keys(section: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield f"{prefix}{name}"
        inner = _section_in(field.annotation)
        if inner is not None:
            yield from _all_keys(inner, f"{prefix}{name}.")
