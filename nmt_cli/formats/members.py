"""Recognises the format of each file of an import, and chooses the member of an archive."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass

from nmt_cli.formats.encoding import TextFacts, text_head
from nmt_cli.formats.languages import Languages, language_of_name
from nmt_cli.formats.opening import Input, resolve_input, zip_archive
from nmt_cli.formats.recognise import detect_non_text, json_objects, other_format, text_format, utf16_encoding
from nmt_cli.system.errors import InputError

FORMATS = {
    "text": "text", "tsv": "TSV", "csv": "CSV", "tmx": "TMX", "xliff": "XLIFF", "po": "PO", "jsonl": "JSON lines",
    "srt": "SRT", "vtt": "VTT", "html": "HTML", "xlsx": "XLSX", "ods": "ODS",
}  # fmt: skip
"""Values of --format, with the names of the formats in messages."""
ONE_SIDE_FORMATS = ("text", "SRT", "VTT")
"""Formats in which a file holds one of the two languages."""
_ENDINGS = (".tsv", ".tab", ".csv", ".tmx", ".xlf", ".xliff", ".po", ".jsonl")
_MAX_ODD_SHARE = 0.01
"""Largest share of zero bytes and of bytes that are not valid UTF-8 with which a file with zero bytes is text."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of an import."""

    languages: Languages
    columns: str | None = None
    encoding: str | None = None
    format: str | None = None
    """A key of `FORMATS`; None to recognise the format of each file."""
    sheet: str | None = None
    member: str | None = None
    with_unfinished: bool = False
    """True if translations that a format marks as unfinished are taken too."""
    separator: str | None = None
    """The character between the cells of a table; None to find it."""
    is_single: bool = False
    """True if text in one language is imported; both of `languages` are then this language."""


@dataclass(frozen=True, slots=True)
class RecognisedInput:
    """A file and its format."""

    input_file: Input
    format: str


def recognise_input(container: Input, settings: Settings) -> tuple[list[RecognisedInput], list[str]]:
    """Return the file, or the members of an archive, that are to be read, and the names of the other members.

    Raises:
        InputError: the file is in no format that is known here, or several members of an archive could be meant.
    """
    inputs, foreign = resolve_input(container)
    if inputs[0].member is not None:
        return _chosen_members(container, inputs, settings)
    (input_file,) = inputs
    if foreign is not None and input_file.compression is not None and foreign.kind.endswith((" archive", " data")):
        raise InputError(
            f"{input_file.name}: is {foreign.kind} in a compressed file; decompress it first, then give what is in it"
        )
    if foreign is not None and foreign.kind == "a spreadsheet":
        return [RecognisedInput(input_file, _spreadsheet_format(input_file))], []
    if foreign is not None and not _is_text(foreign.kind):
        raise InputError(
            f"{input_file.name}: is {foreign.kind}; {foreign.advice.replace('`nmt import`', 'this command')}"
        )
    return [_recognise_text(input_file, settings)], []


def _is_text(what: str) -> bool:
    return what.startswith(("UTF-", "a TMX", "an XLIFF"))


def _spreadsheet_format(input_file: Input) -> str:
    with zip_archive(input_file) as archive:
        return "XLSX" if "xl/workbook.xml" in archive.namelist() else "ODS"


def _recognise_text(input_file: Input, settings: Settings) -> RecognisedInput:
    """Return a text with its format: the one that the options tell, or else the one that its beginning shows.

    The bytes that tell formats apart are the same in all encodings but UTF-16.
    """
    if settings.format in ("xlsx", "ods"):
        raise InputError(
            f"{input_file.name}: is not a spreadsheet, as --format {settings.format} says; leave out --format"
        )
    if settings.format not in (None, "jsonl"):
        return RecognisedInput(input_file, FORMATS[settings.format])
    if settings.separator is not None and settings.format is None:
        return RecognisedInput(input_file, "TSV" if settings.separator == "\t" else "CSV")
    head = input_file.head(1 << 17)
    marked = utf16_encoding(head[: 1 << 12])
    facts = TextFacts("", marked or "utf-8", "none")
    text = text_head(input_file, facts)
    if (objects := json_objects(text)) is not None:
        old = input_file.path if input_file.name == input_file.path and input_file.compression is None else "a.json"
        new = f"{old.removesuffix('.json')}.jsonl"
        raise InputError(
            f"{input_file.name}: is JSON, of which each line must hold one object. For example "
            f"`jq -c {shlex.quote(objects)} {shlex.quote(old)} > {shlex.quote(new)}` writes such lines"
        )
    if settings.format is not None:
        return RecognisedInput(input_file, FORMATS[settings.format])
    kind = text_format(text, input_file.inner_name)
    if kind == "HTML" and not settings.is_single:
        raise InputError(
            f"{input_file.name}: is HTML, a page in one language; `nmt import {shlex.quote(input_file.file)} -o PREFIX "
            "--lang XX` writes its text, one paragraph a line"
        )
    if kind == "text" and (other := other_format(text)) is not None:
        raise InputError(
            f"{input_file.name}: is {other.kind}; {other.advice}. If each of its lines is a sentence, give "
            "--format text"
        )
    if not text.strip("\ufeff"):
        raise InputError(f"{input_file.name}: is empty")
    num_odd = text.count("\0") + text.count("\ufffd")
    if kind == "text" and "\0" in text and num_odd > _MAX_ODD_SHARE * len(text):
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{input_file.name}:{line}: holds zero bytes and is not text in any format that is known here; if each of "
            "its lines is a sentence, give --format text"
        )
    return RecognisedInput(input_file, kind)


def _chosen_members(
    container: Input, members: list[Input], settings: Settings
) -> tuple[list[RecognisedInput], list[str]]:
    """Return the members with the only parallel text of an archive, and the names of the other members.

    The parallel text is one member with both sides, or two members named after the languages.
    """
    if settings.member is not None:
        if not (asked := [one for one in members if one.member == settings.member]):
            names = ", ".join(str(one.member) for one in members[:20])
            raise InputError(f"--member {settings.member}: {container.name} has no such file; it contains {names}")
        members = asked
    kinds = _texts_of(members, settings)
    if settings.is_single:
        return _only_member(container, kinds)
    both = [one for one in kinds if one.format not in ONE_SIDE_FORMATS]
    languages = settings.languages
    named = {
        language: [
            one for one in kinds if language_of_name(one.input_file.inner_name, languages, at_end=True) == language
        ]
        for language in languages
    }
    sides = [named[language] for language in dict.fromkeys(languages)]
    if len(sides) == 2 and all(len(side) == 1 for side in sides):
        chosen = [sides[0][0], sides[1][0]]
        both = [one for one in both if one.input_file.inner_name.lower().endswith(_ENDINGS)]
        if settings.format is None:
            chosen = [
                RecognisedInput(one.input_file, one.format if one.format in ONE_SIDE_FORMATS else "text")
                for one in chosen
            ]
        both = [one for one in both if one.input_file not in [side.input_file for side in chosen]]
    else:
        chosen = both[:1]
    rivals = [one for one in both if one not in chosen]
    if rivals:
        tries = "; or ".join(f"--member {shlex.quote(str(one.input_file.member))}" for one in [*chosen, *rivals][:4])
        raise InputError(
            f"{container.name}: holds several parallel texts. Run the same command again with one of these: {tries}"
        )
    if not chosen:
        names = ", ".join(str(one.member) for one in members[:20])
        raise InputError(
            f"{container.name}: no parallel text is recognised in this archive ({names}); unpack it and give the files"
        )
    read = {one.input_file.member for one in chosen}
    return chosen, [str(one.member) for one in resolve_input(container)[0] if one.member not in read]


def _only_member(container: Input, kinds: list[RecognisedInput]) -> tuple[list[RecognisedInput], list[str]]:
    """Return the only member of an archive that is text, in a list, and the names of the other members.

    Raises:
        InputError: no member is text, or several are.
    """
    if len(kinds) != 1:
        tries = "; or ".join(f"--member {shlex.quote(str(one.input_file.member))}" for one in kinds[:4])
        advice = f"Run the same command again with one of these: {tries}" if kinds else "Unpack it and give a file"
        raise InputError(f"{container.name}: contains {len(kinds) or 'no'} text files. {advice}")
    return kinds, [str(one.member) for one in resolve_input(container)[0] if one.member != kinds[0].input_file.member]


def _texts_of(members: list[Input], settings: Settings) -> list[RecognisedInput]:
    """Return the members of an archive that are text, with their formats; pictures, pages and the like are left out."""
    texts = []
    for one in members:
        foreign = detect_non_text(one.head(1 << 12))
        if foreign is None or _is_text(foreign.kind):
            with suppress(InputError):
                texts.append(_recognise_text(one, settings))
    return texts
