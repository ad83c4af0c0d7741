"""JSON lines: an object in each line, with the two sides in it or in its `translation`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from nmt_cli.errors import InputError
from nmt_cli.formats.columns import two_parts
from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, language_in, primary
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import Found, ImportReport

_SIDES = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("original", "translation"))


def read_json_lines(
    given: Input, facts: TextFacts, languages: Languages, asked: str | None, report: ImportReport
) -> Iterator[Found]:
    """Yield the two fields of each object; lines without them are counted.

    Raises:
        InputError: it is not certain which two fields of the first object are meant.
    """
    keys: tuple[str, str] | None = None
    for number, line in enumerate(read_lines(given, facts, universal=facts.line_ends in ("CR", "mixed")), start=1):
        place = f"{given.name}:{number}"
        if not line.strip():
            report.note("blank lines")
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            report.skip("not valid JSON", place)
            continue
        if not isinstance(record, dict):
            report.skip("not a JSON object", place)
            continue
        if isinstance(record.get("translation"), dict):
            record = record["translation"]
        if keys is None:
            keys = _keys(record, given.name, languages, asked)
            report.inputs[-1]["columns"] = list(keys)
        texts = [record.get(key) for key in keys]
        missing = [key for key, text in zip(keys, texts, strict=True) if not isinstance(text, str)]
        if missing:
            state = "is missing" if all(record.get(key) is None for key in missing) else "is not a string"
            report.skip(f"the field {' and '.join(missing)} {state}", place)
        else:
            yield Found(number, *map(str, texts))
    if keys is None:
        raise InputError(f"{given.name}: holds no JSON object in any line")


def _keys(record: dict[str, Any], name: str, languages: Languages, asked: str | None) -> tuple[str, str]:
    if asked is not None:
        source, target = two_parts(asked)
        if missing := [key for key in (source, target) if key not in record]:
            raise InputError(
                f"--columns {asked}: {name} has no field {' or '.join(map(repr, missing))}; the fields are "
                f"{', '.join(record)}"
            )
        return source, target
    for language_keys in (_exact(record, languages), _named(record, languages)):
        if language_keys is not None:
            return language_keys
    for source, target in _SIDES:
        if source in record and target in record:
            return source, target
    texts = [key for key, value in record.items() if isinstance(value, str)]
    tries = "; or ".join(f"--columns {shlex.quote(order)}" for order in _orders(texts)) or "--columns SOURCE,TARGET"
    raise InputError(
        f"{name}: it is not certain which fields are {languages.source} and {languages.target}. Run the same command "
        f"with what is right: {tries}"
    )


def _exact(record: dict[str, Any], languages: Languages) -> tuple[str, str] | None:
    return (languages.source, languages.target) if {*languages} <= record.keys() else None


def _named(record: dict[str, Any], languages: Languages) -> tuple[str, str] | None:
    found = [[key for key in record if language_in(key) == primary(language)] for language in languages]
    return (found[0][0], found[1][0]) if len(found[0]) == len(found[1]) == 1 and found[0] != found[1] else None


def _orders(keys: list[str]) -> list[str]:
    return [f"{keys[0]},{keys[1]}", f"{keys[1]},{keys[0]}"] if len(keys) > 1 else []
