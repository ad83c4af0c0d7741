"""JSON lines: each line has an object with a source and a target field, in itself or in its field `translation`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from nmt_cli.formats.columns import (
    OTHER_LANGUAGES,
    SAMPLE_ROWS,
    holds_languages,
    language_columns,
    names_other_languages,
    split_columns_option,
    unfinished_state,
)
from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, headers_naming
from nmt_cli.formats.members import Settings
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import ImportedPair, ImportReport
from nmt_cli.system.errors import InputError

_SIDES = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("original", "translation"))


def read_json_lines(
    input_file: Input,
    facts: TextFacts,
    languages: Languages,
    asked: str | None,
    report: ImportReport,
    *,
    with_unfinished: bool = False,
) -> Iterator[ImportedPair]:
    """Yield the source and target fields of each object; lines without them, and unfinished ones, are counted.

    `asked` is the value of --columns, two names of fields; None to find them.

    Raises:
        InputError: no line has an object, or it is not certain which two fields are meant.
    """
    records = _records(input_file, facts, report)
    sample = list(islice(records, SAMPLE_ROWS))
    if not sample:
        raise InputError(f"{input_file.name}: holds no JSON object in any line")
    keys = _keys([record for _, record in sample], input_file.name, languages, asked)
    report.inputs[-1]["columns"] = list(keys)
    fields, rows = _as_rows([record for _, record in sample])
    marks = [fields[place] for place in language_columns(rows, languages, [*map(fields.index, keys)])]
    order = languages if fields.index(keys[0]) < fields.index(keys[1]) else languages[::-1]
    settings = Settings(languages, asked)
    for number, record in chain(sample, records):
        texts = [record.get(key) for key in keys]
        missing = [key for key, text in zip(keys, texts, strict=True) if not isinstance(text, str)]
        if missing:
            state = "is missing" if all(record.get(key) is None for key in missing) else "is not a string"
            report.skip(f"the field {' and '.join(missing)} {state}", f"{input_file.name}:{number}")
        elif not with_unfinished and (unfinished := unfinished_state(record.items())):
            report.skip(f"unfinished ({unfinished})", f"{input_file.name}:{number}")
        elif names_other_languages([str(record.get(key) or "") for key in marks], order, settings):
            report.skip(OTHER_LANGUAGES, f"{input_file.name}:{number}")
        else:
            yield ImportedPair(number, *map(str, texts))


def read_json_texts(
    input_file: Input, facts: TextFacts, language: str, asked: str | None, report: ImportReport
) -> Iterator[ImportedPair]:
    """Yield one text field of each object, as source and as target; lines without it are counted.

    `asked` is the value of --columns, the name of the field; None to find it.

    Raises:
        InputError: it is not certain which field is meant.
    """
    records = _records(input_file, facts, report)
    sample = list(islice(records, SAMPLE_ROWS))
    fields = list(dict.fromkeys(key for _, record in sample for key in record))
    _, rows = _as_rows([record for _, record in sample])
    marks = language_columns(rows, (language,), ())
    codes = [fields[place] for place in marks]
    texts = [
        key for key in fields if key not in codes and any(isinstance(record.get(key), str) for _, record in sample)
    ]
    settings = Settings(Languages(language, language), is_single=True)
    found = (
        [fields[place] for place in headers_naming(fields, language)]
        or [key for key in ("text", "sentence") if key in texts]
        or texts
    )
    if asked is not None:
        found = [asked] if asked in fields else []
    if len(found) != 1:
        tries = "; or ".join(f"--columns {shlex.quote(key)}" for key in texts[:4]) or "--columns FIELD"
        raise InputError(
            f"{input_file.name}: cannot tell which field is {language}. Run the same command again with one of "
            f"these: {tries}"
        )
    report.inputs[-1]["columns"] = found
    for number, record in chain(sample, records):
        if names_other_languages([str(record.get(key) or "") for key in codes], (language,), settings):
            report.skip(OTHER_LANGUAGES, f"{input_file.name}:{number}")
        elif isinstance(text := record.get(found[0]), str):
            yield ImportedPair(number, text, text)
        else:
            report.skip(f"the field {found[0]} is missing or not a string", f"{input_file.name}:{number}")


def _records(input_file: Input, facts: TextFacts, report: ImportReport) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line that holds an object, with the object, or the one in its field `translation`."""
    is_universal = facts.line_ends in ("CR", "mostly CR", "mixed")
    for number, line in enumerate(read_lines(input_file, facts, universal=is_universal), start=1):
        place = f"{input_file.name}:{number}"
        if not line.strip():
            report.count_note("blank lines")
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            report.skip("not valid JSON", place)
            continue
        if not isinstance(record, dict):
            report.skip("not a JSON object", place)
            continue
        inner = record.get("translation")
        yield number, inner if isinstance(inner, dict) else record


def _as_rows(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of all fields, and the values of each record, as a table; all but strings are empty cells."""
    fields = list(dict.fromkeys(key for record in records for key in record))
    values = ([record.get(key) for key in fields] for record in records)
    return fields, [[value if isinstance(value, str) else "" for value in row] for row in values]


def _keys(records: Sequence[dict[str, Any]], name: str, languages: Languages, asked: str | None) -> tuple[str, str]:
    """Return the names of the source and target fields, as `asked` says or as the first suitable record shows.

    A record is suitable if it has fields named after the languages or their roles.
    """
    fields = {key: value for record in records for key, value in record.items()}
    if asked is not None:
        source, target = split_columns_option(asked)
        if missing := [key for key in (source, target) if key not in fields]:
            raise InputError(
                f"--columns {asked}: {name} has no field {' or '.join(map(repr, missing))}; the fields are "
                f"{', '.join(fields)}"
            )
        return source, target
    names, rows = _as_rows(records)
    codes = {key for column, key in enumerate(names) if key not in languages and holds_languages(rows, column)}
    for record in records:
        if (keys := _named_fields({key: record[key] for key in record if key not in codes}, languages)) is not None:
            return keys
    texts = [key for key, value in fields.items() if isinstance(value, str) and key not in codes]
    tries = "; or ".join(f"--columns {shlex.quote(order)}" for order in _orders(texts)) or "--columns SOURCE,TARGET"
    raise InputError(
        f"{name}: cannot tell which fields are {languages.source} and {languages.target}. Run the same command again "
        f"with one of these: {tries}"
    )


def _named_fields(record: dict[str, Any], languages: Languages) -> tuple[str, str] | None:
    """Return the fields named after the languages, or after roles such as `source` and `target`, or None."""
    names = list(record)
    found = [headers_naming(names, language) for language in languages]
    if len(found[0]) == len(found[1]) == 1 and found[0] != found[1]:
        return names[found[0][0]], names[found[1][0]]
    return next((sides for sides in _SIDES if {*sides} <= record.keys()), None)


def _orders(keys: list[str]) -> list[str]:
    return [f"{keys[0]},{keys[1]}", f"{keys[1]},{keys[0]}"] if len(keys) > 1 else []
