"""Finds the columns of a table that hold source texts and translations: by headers, by the text, or by `--columns`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, dropwhile, islice, permutations

from nmt_cli.formats.languages import (
    AMBIGUOUS_CODES,
    Languages,
    headers_naming,
    is_language_name,
    language_in,
    language_scores,
    order_of,
)
from nmt_cli.formats.members import Settings
from nmt_cli.formats.recognise import HEADER_WORDS
from nmt_cli.formats.report import ImportedPair, ImportReport
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import ALIASES, primary_language

SAMPLE_ROWS = 2_000
_MAX_TITLE_ROWS = 10
_MAX_COMPARED_COLUMNS = 20


class NonTextCell(str):
    """A cell of a spreadsheet that is not text, such as a date, even if a program would write it as text."""

    __slots__ = ()


_NO_VALUE = re.compile(
    r"\\N|<NA>|#?N/A|#N/D|#NV|#{3,}|Err:\d{3}"
    r"|#[¡¿]?(?:(?![a-zß-öø-ÿа-я])[^\W\d_])+(?:[ _/](?:[A-Z]+|0))*[!?]"  # such as #REF!, in any language
)
"""Cells of tables whose cells have no types, that stand for a missing value: NULL of a database, errors of formulas."""
_SIDES = (
    {"source", "src", "original", "quelltext", "ausgangstext", "texte source", "origen", "исходный текст"},
    {"target", "tgt", "trg", "translation", "translated", "zieltext", "übersetzung", "texte cible", "cible",
     "traduction", "traducción", "traduzione", "tradução", "перевод", "vertaling", "tłumaczenie"},
)  # fmt: skip
"""Names of columns with source texts, and of columns with their translations, in small letters."""
_ATTRIBUTION = re.compile(r"\bCC[- ]BY\b|Attribution:|tatoeba\.org|©|\(c\) ", re.I)
OTHER_LANGUAGES = "in other languages, as another column says"
"""Reason for leaving out a row."""
_LETTER, _LATIN = re.compile(r"[^\W\d_]"), re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_UNFINISHED = frozenset(
    ("true", "yes", "1", "fuzzy", "draft", "unfinished", "needs review", "needs-review", "needs work", "needs editing",
     "needs update", "in progress", "in review", "pending", "rejected", "unapproved", "not approved", "unreviewed",
     "untranslated", "not translated", "todo", "new", "needs-translation", "needs-adaptation", "needs-l10n",
     "needs-review-translation", "needs-review-adaptation", "needs-review-l10n")
)  # fmt: skip
"""States by which Weblate, XLIFF and other programs say that somebody has to look at a translation."""
_STATES = {
    **dict.fromkeys(("fuzzy", "state", "status", "translation status", "translation state"), _UNFINISHED),
    **dict.fromkeys(("approved", "reviewed"), frozenset(("no", "false", "0"))),
}
"""Names of columns and fields with the state of a translation, in small letters, and the states of unfinished ones."""
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "»", ")")
_OTHER_HEADERS = frozenset(
    (
        *("id", "number", "nr", "no", "note", "notes", "comment", "comments", "attribution", "license", "licence"),
        *("tags", "language", "lang", "column", "segment", "string"),
    )
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table that hold source and target, as indices from 0."""

    source: int
    target: int
    width: int
    """Number of cells in the header row, or else in most rows; a row with more cells of text has a separator in its
    text."""
    has_header: bool = False
    attribution: int | None = None
    reason: str = ""
    """Evidence by which the columns were chosen, for the user, such as `the words in them`."""


def rows_as_pairs(
    rows: Iterable[tuple[str | int, list[str]]],
    name: str,
    settings: Settings,
    report: ImportReport,
    *,
    is_grid: bool = False,
) -> Iterator[ImportedPair]:
    """Yield the source and target of each row; count rows that lack them, or that the table calls unfinished.

    `rows` has the place (a line number or a cell) and the cells of each row. In a grid, such as a spreadsheet, no
    separator can be in the text, so rows may have any number of cells.

    Raises:
        InputError: it is not certain which columns are meant; the message has the commands that settle it.
    """
    sample, rows = _begin_table(rows if is_grid else _empty_missing_values(rows), settings.languages, report)
    columns = choose_columns(
        [cells for _, cells in sample], name, settings.languages, settings.columns, is_grid=is_grid
    )
    states = []
    if columns.has_header and not settings.with_unfinished:
        states = [(place, cell) for place, cell in enumerate(sample[0][1]) if cell.strip().lower() in _STATES]
    report.inputs[-1]["columns"] = [columns.source + 1, columns.target + 1]
    report.inputs[-1]["header_row"] = columns.has_header
    if columns.has_header:
        report.inputs[-1]["header"] = [cell.strip() for cell in sample[0][1]]
    report.inputs[-1]["columns_by"] = columns.reason
    source, target, needed = columns.source, columns.target, max(columns.source, columns.target) + 1
    marks = language_columns(_cells_below(sample, columns.has_header), settings.languages, {source, target})
    order = settings.languages if source < target else settings.languages[::-1]
    body = islice(rows, int(columns.has_header), None)
    width = columns.width if not is_grid and needed > 1 else 0
    for (place, cells), is_cut in _mark_cut_rows(body, width, has_parts=_has_parts(sample, width)):
        if len(cells) < 2 and not any(cells):
            report.count_note("blank lines")
        elif not is_grid and len(cells) > columns.width and any(cells[columns.width :]):
            others = "header row: a column without a name, or" if columns.has_header else "other rows:"
            report.skip(f"more cells than the {others} a separator in the text", f"{name}:{place}")
        elif not is_grid and len(cells) == 1:
            report.skip("one cell only", f"{name}:{place}")
        elif is_cut:
            report.skip("a row that goes on in the next line, or is the rest of one", f"{name}:{place}")
        else:
            cells += [""] * (needed - len(cells))
            if columns.attribution is not None and len(cells) > columns.attribution:
                report.add_attribution(cells[columns.attribution])
            given = [(header, cells[column]) for column, header in states if column < len(cells)]
            if (state := unfinished_state(given)) and cells[target].strip():
                report.skip(f"unfinished ({state})", f"{name}:{place}")
            elif names_other_languages([cells[c] for c in marks if c < len(cells)], order, settings):
                report.skip(OTHER_LANGUAGES, f"{name}:{place}")
            else:
                yield from _pair(place, cells[source], cells[target], name, report)


def _empty_missing_values(
    rows: Iterable[tuple[str | int, list[str]]],
) -> Iterator[tuple[str | int, list[str]]]:
    """Yield the rows with empty cells in place of missing values, as a spreadsheet is read, which marks its errors."""
    return ((place, ["" if _NO_VALUE.fullmatch(cell.strip()) else cell for cell in cells]) for place, cells in rows)


def _begin_table(
    rows: Iterable[tuple[str | int, list[str]]], languages: Languages, report: ImportReport
) -> tuple[list[tuple[str | int, list[str]]], Iterator[tuple[str | int, list[str]]]]:
    """Return the first rows of a table, and an iterator over all its rows; the first row is the header, if any.

    Rows with a single cell above a header, such as the title of the table, are counted and left out.
    """
    rows = dropwhile(lambda row: not any(map(str.strip, row[1])), rows)
    sample = list(islice(rows, SAMPLE_ROWS))
    num_filled = [sum(bool(cell.strip()) for cell in cells) for _, cells in sample[: _MAX_TITLE_ROWS + 1]]
    begin = next((place for place, number in enumerate(num_filled) if number > 1), 0)
    below = [cells for _, cells in sample[begin:]]
    if begin and is_header(_without_repeated_cells(below), languages, below[1:]):
        for _ in filter(None, num_filled[:begin]):
            report.count_note("rows above the header")
        sample = sample[begin:]
    return sample, chain(sample, rows)


def unfinished_state(fields: Iterable[tuple[str, object]]) -> str | None:
    """Return the state that marks a translation as unfinished, in small letters; None if no field has one.

    Each field is a name and a value. `_STATES` has the names that count, and the states of unfinished translations.
    """
    for name, value in fields:
        word = str(value).strip().lower()
        if word in _STATES.get(name.strip().lower(), ()):
            return word
    return None


def language_columns(rows: Sequence[Sequence[str]], languages: Sequence[str], texts: Container[int]) -> list[int]:
    """Return the columns apart from `texts` that name the language of each row; one of them names one of `languages`.

    Without such a name, they may be articles, such as `el` and `la`.
    """
    asked, width = {*map(primary_language, languages)}, max(map(len, rows), default=0)
    found = [column for column in range(width) if column not in texts and holds_languages(rows, column)]
    seen = {primary_language(cell) for column in found for cell in _column_cells(rows, column)}
    return found if seen & asked else []


def holds_languages(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Return whether nearly all cells of a column are codes or names of languages, and not only `id` and `no`.

    Codes that are not known here count too, if at least half of the cells are known.
    """
    cells = [cell for cell in _column_cells(rows, column) if cell.strip().lower() not in ("", *AMBIGUOUS_CODES)]
    if not cells or 2 * sum(map(_is_language, cells)) < len(cells):
        return False
    return _is_mostly(rows, column, lambda cell: _is_language(cell) or re.fullmatch("[a-z]{2,3}", cell.strip()))


def _is_language(cell: str) -> bool:
    return is_language_name(cell) or (len(cell) < 9 and "-" in cell.replace("_", "-") and language_in(cell) is not None)


def names_other_languages(codes: Sequence[str], order: Sequence[str], settings: Settings) -> bool:
    """Return whether a row names languages, and the import does not ask for these.

    Two are compared in the order of the row, unless --columns tells the sides.
    """
    own, asked = [primary_language(code) for code in codes if code.strip()], [*map(primary_language, order)]
    if settings.columns is not None:
        own, asked = sorted(own), sorted(asked)
    if len(own) == 2 and not settings.is_single:
        return own != asked
    return bool(own) and {*own}.isdisjoint(asked)


def _cells_below(sample: Sequence[tuple[str | int, list[str]]], has_header: bool) -> list[list[str]]:
    return [cells for _, cells in sample[int(has_header) :]]


def rows_as_texts(
    rows: Iterable[tuple[str | int, list[str]]],
    name: str,
    language: str,
    asked: str | None,
    report: ImportReport,
    *,
    is_grid: bool = False,
) -> Iterator[ImportedPair]:
    """Yield each cell of the column in a language as a pair, with the same text as source and as target.

    `asked` is the number, from 1, or the header of the column; None to find it.

    Raises:
        InputError: it is not certain which column is meant; the message has the commands that settle it.
    """
    rows = rows if is_grid else _empty_missing_values(rows)
    sample, rows = _begin_table(rows, Languages(language, language), report)
    column, width, has_header = choose_column([cells for _, cells in sample], name, language, asked)
    report.inputs[-1] |= {"columns": [column + 1], "header_row": has_header}
    settings = Settings(Languages(language, language), is_single=True)
    marks = language_columns(_cells_below(sample, has_header), (language,), {column})
    body = islice(rows, int(has_header), None)
    width = 0 if is_grid or width < 2 else width
    for (place, cells), is_cut in _mark_cut_rows(body, width, has_parts=_has_parts(sample, width)):
        if is_cut:
            report.skip("a row that goes on in the next line, or is the rest of one", f"{name}:{place}")
        elif any(cells) or any(isinstance(cell, NonTextCell) for cell in cells):
            cell = cells[column] if len(cells) > column else ""
            codes = [cells[place] for place in marks if place < len(cells)]
            if names_other_languages(codes, (language,), settings):
                report.skip(OTHER_LANGUAGES, f"{name}:{place}")
                continue
            yield from _pair(place, cell, cell, name, report)


def _pair(place: str | int, source: str, target: str, name: str, report: ImportReport) -> Iterator[ImportedPair]:
    """Yield the pair of a row; if a side is no text, count the row as skipped instead."""
    if isinstance(source, NonTextCell) or isinstance(target, NonTextCell):
        report.skip("a date, a formatted number or the like, which is not text", f"{name}:{place}")
    else:
        yield ImportedPair(place, source, target)


def _mark_cut_rows(
    rows: Iterable[tuple[str | int, list[str]]], width: int, *, has_parts: bool
) -> Iterator[tuple[tuple[str | int, list[str]], bool]]:
    """Yield each row, and whether it is only a part of a row, because a line break cut one of the cells.

    `width` is the number of cells in a whole row; with 0, no row is a part. The parts of a row have its cells together,
    and one more for each break: a row of 4 cells becomes rows of 2 and 3, or of 1, 2 and 3. A break in the last cell
    leaves a whole row and a row of one cell, a break in the first cell the reverse. No part but the last ends with the
    end of a sentence, except before a single cell of a table with several columns. Without `has_parts`, short rows of
    several cells count as whole.
    """
    waiting: list[tuple[tuple[str | int, list[str]], bool]] = []
    """Rows that the next row may show to be parts, each with whether it is known to be a part already."""
    is_begin = False
    """True if the row before is a single cell that may be the beginning of a row."""
    for row in rows:
        cells = row[1]
        is_single = width > 1 and len(cells) == 1 and bool(cells[0].strip())
        goes_on = bool(waiting) and _is_continued(waiting[-1][0][1]) and any(map(str.strip, cells))
        num_cells = sum(len(one[1]) - 1 for one, _ in waiting) + len(cells)
        is_rest = is_single and bool(waiting) and (goes_on or width > 2)
        was_single = goes_on and len(waiting[-1][0][1]) == 1
        if is_rest or (was_single and len(cells) == width and (is_begin or cells[0][:1].islower())):
            yield from ((one, True) for one, _ in waiting)
            waiting = [(row, True)]
        elif goes_on and has_parts and len(cells) < width and num_cells == width:
            yield from ((one, True) for one, _ in [*waiting, (row, True)])
            waiting = []
        elif goes_on and has_parts and len(cells) < width and num_cells < width:
            waiting.append((row, is_single))
        else:
            yield from waiting
            waiting = [(row, is_single)]
        is_begin = is_single and not is_rest
    yield from waiting


def _is_continued(cells: Sequence[str]) -> bool:
    return any(map(str.strip, cells)) and not cells[-1].rstrip().endswith(_SENTENCE_ENDS)


def _has_parts(sample: Sequence[tuple[str | int, list[str]]], width: int) -> bool:
    """Return whether short rows may be parts of others: at least a quarter of the rows have `width` cells."""
    return 4 * sum(len(cells) == width for _, cells in sample) >= len(sample)


def choose_column(rows: Sequence[list[str]], name: str, language: str, asked: str | None) -> tuple[int, int, bool]:
    """Return the index of the column in one language, the number of columns, and whether there is a header row.

    `asked` is the number, from 1, or the header of the column; None to find it.

    Raises:
        InputError: several columns are possible; the message has the commands that settle it.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled:
        raise InputError(f"{name}: holds no rows")
    widths = [len(row) for row in filled]
    width = max({*widths}, key=lambda width: (widths.count(width), width))
    has_names = asked is not None and asked.strip() in [cell.strip() for cell in filled[0]]
    has_header = has_names or is_header(_without_repeated_cells(filled), Languages(language, language), filled[1:])
    header, body = (filled[0], filled[1:]) if has_header else (None, filled)
    if asked is not None:
        return _asked_column(asked.strip(), header, max(widths), name, asked), width, has_header
    if header is not None and (named := _column_of(header, body, language)) is not None:
        return named, width, has_header
    texts = [column for column in range(width) if _is_text(body, column)]
    if len(texts) != 1:
        likely = _rank_columns(body, texts or list(range(width)))
        tries = "; or ".join(f"--columns {column + 1}" for column in likely[:4])
        raise InputError(
            f"{name}: cannot tell which column is {language}. Run the same command again with one of these: {tries}"
        )
    return texts[0], width, has_header


def choose_columns(
    rows: Sequence[list[str]], name: str, languages: Languages, asked: str | None, *, is_grid: bool = False
) -> Columns:
    """Return the columns of source and target: those that `asked` (--columns) names, or else the likely ones.

    Raises:
        InputError: there is one column only, or several choices are possible; the message has the commands that settle
            it.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled:
        raise InputError(f"{name}: holds no rows")
    own = _without_repeated_cells(filled)
    has_header = rows[0] is filled[0] and (is_header(own, languages, filled[1:]) or _has_names(own, asked))
    header = filled[0] if has_header else None
    body = filled[1:] if header else filled
    widths = [len(row) for row in filled]
    if is_grid:
        width = max(widths)
    else:
        width = len(header) if header else max({*widths}, key=lambda width: (widths.count(width), width))
    attribution = next((c for c in range(width) if _is_mostly(body, c, _ATTRIBUTION.search)), None)
    if asked is not None:
        source, target = _asked_columns(asked, header, max(widths) if header else width, name)
        attribution = None if attribution in (source, target) else attribution
        width = max(width, source + 1, target + 1)
        return Columns(source, target, width, header is not None, attribution, f"--columns {asked}")
    if width < 2:
        sign = next((sign for sign in ";|" if _is_mostly(body, 0, re.compile(re.escape(sign)).search)), None)
        raise InputError(
            f"{name}: has one column only; a table needs the sentences in one column and their translations in "
            "another. If it is plain text, give the file of the translations too"
            + (f". If the sign {sign} separates its columns, add --separator {shlex.quote(sign)}" if sign else "")
        )
    if header is not None and (named := _named_columns(header, body, name, languages)) is not None:
        return Columns(
            *named, width, True, attribution, f"the header row ({header[named[0]].strip()}, {header[named[1]].strip()})"
        )
    texts = [column for column in range(width) if column != attribution and _is_text(body, column)]
    if len(texts) != 2:
        likely = texts if len(texts) > 2 else list(range(width))
        raise InputError(_ambiguity(name, filled[0], likely, _rank_pairs(body, likely, languages)))
    first, second = texts
    order = order_of((row[first] for row in body if len(row) > second), _column_cells(body, second), languages)
    if not order.is_certain:
        raise InputError(
            f"{name}: column {first + 1} should be {languages.source} and column {second + 1} {languages.target}, but "
            f"the words suggest the opposite. Run the same command again with one of these: --columns {first + 1},"
            f"{second + 1}; or --columns {second + 1},{first + 1}"
        )
    if order.is_swapped:
        return Columns(second, first, width, header is not None, attribution, "the words in them")
    return Columns(first, second, width, header is not None, attribution, "the order of the columns")


def _without_repeated_cells(rows: Sequence[list[str]]) -> list[str]:
    """Return the first row, with cells emptied that name no column.

    At least half of the rows below repeat them, or they are languages, as in the rows below, of other columns' texts.
    """
    below = rows[1:]
    marks = [c for c in range(len(rows[0])) if len(rows[0]) > 3 and _is_language(rows[0][c])]
    marks = [c for c in marks if holds_languages(below, c)]
    num_same = [sum(len(row) > c and row[c] == cell for row in below) for c, cell in enumerate(rows[0])]
    return [
        "" if 2 * n >= len(below) > 0 or c in marks else cell
        for c, (cell, n) in enumerate(zip(rows[0], num_same, strict=True))
    ]


def is_header(row: list[str], languages: Languages | None = None, body: Sequence[list[str]] = ()) -> bool:
    """Return whether a row is a header: two cells name both sides or two languages, or all cells are usual headers.

    If `languages` is given and all cells are short, one cell with the name of one of these languages is enough, and so
    is a cell in another script than the longer cells below it, which are in `body`.
    """
    cells = [cell.strip().lstrip("\ufeff").lower() for cell in row if cell.strip()]
    if all(side & {*cells} for side in _SIDES) or len({cell for cell in cells if is_language_name(cell)}) > 1:
        return True
    are_short = len({*cells}) > 1 and all(len(cell.split()) <= 3 and cell[-1] not in ".!?。！？…" for cell in cells)
    if languages is not None and are_short:
        asked = {primary_language(language) for language in languages}
        if any(
            is_language_name(cell)
            and primary_language(ALIASES.get(cell, cell)) in asked
            and cell not in AMBIGUOUS_CODES
            for cell in cells
        ):
            return True
        if any(_is_of_other_script(body, column, cell) for column, cell in enumerate(row)):
            return True
    return len(cells) > 1 and len({*filter(_names_side, cells)}) > 1 and all(
        _names_side(cell) or set(re.split(r"[\W_]+", cell)) & _OTHER_HEADERS for cell in cells
    )  # fmt: skip


def _is_of_other_script(body: Sequence[list[str]], column: int, name: str) -> bool:
    """Return whether all cells of a column are longer than its name, and either they or it are in Latin script."""
    cells = [cell for cell in _column_cells(body, column) if _LETTER.search(cell)]
    if len(cells) < 2 or not _LETTER.search(name):
        return False
    is_latin = _LATIN.search(name) is not None
    return all((_LATIN.search(cell) is None) == is_latin and len(cell) > len(name) for cell in cells)


def _rank_columns(rows: Sequence[list[str]], columns: Iterable[int]) -> list[int]:
    """Return column indices, those with most words first; but the first two are in the order of the table."""

    def num_words(column: int) -> float:
        cells = [cell for cell in _column_cells(rows, column) if _LETTER.search(cell)]
        return sum(len(cell.split()) + len(cell) / 1000 for cell in cells) / max(1, len(rows))

    ordered = sorted(columns, key=num_words, reverse=True)
    return [*sorted(ordered[:2]), *ordered[2:]]


def _rank_pairs(rows: Sequence[list[str]], columns: list[int], languages: Languages) -> list[tuple[int, int]]:
    """Return the pairs of columns as indices, source first: those first whose words are most of the two languages."""
    ranked = _rank_columns(rows, columns)[:_MAX_COMPARED_COLUMNS]
    scores = {column: language_scores(_column_cells(rows, column), languages) for column in ranked}
    return sorted(permutations(ranked, 2), key=lambda pair: -(scores[pair[0]][0] + scores[pair[1]][1]))


def _names_side(cell: str) -> bool:
    """Return whether a cell names a language, as `English text`, or has words of headers only, unlike `Free text`."""
    words = [word for word in re.split(r"[\W_]+", cell) if word]
    is_short = len(words) <= 3 and not cell.endswith((".", "!", "?"))
    is_header = bool(HEADER_WORDS.intersection(words)) and {*words} <= HEADER_WORDS | _OTHER_HEADERS
    return is_short and (language_in(cell) is not None or is_header)


def _named_columns(
    header: list[str], body: Sequence[list[str]], name: str, languages: Languages
) -> tuple[int, int] | None:
    """Return the indices of the source and target columns that the header names, or None if it does not name both.

    Raises:
        InputError: the header names other languages.
    """
    in_language = [_column_of(header, body, language) for language in languages]
    if primary_language(languages.source) != primary_language(languages.target) and None not in in_language:
        return in_language[0] or 0, in_language[1] or 0
    sides = [[c for c, cell in enumerate(header) if set(re.split(r"[\W_]+", cell.lower())) & side] for side in _SIDES]
    sides = [[c for c in side if not holds_languages(body, c)] for side in sides]
    languages_there = [cell for cell in header if is_language_name(cell)]
    if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
        return sides[0][0], sides[1][0]
    if len(languages_there) > 1:
        raise InputError(
            f"{name}: the header row names {', '.join(languages_there)}, not {languages.source} and "
            f"{languages.target}; choose the columns, such as --columns 1,2"
        )
    return None


def _column_of(header: list[str], body: Sequence[list[str]], language: str) -> int | None:
    """Return the index of the only column whose header names a language; None if none or several do."""
    found = headers_naming(header, language)
    if language.lower() in AMBIGUOUS_CODES:
        found = [column for column in found if _is_text(body, column)]
    return found[0] if len(found) == 1 else None


def _is_mostly(rows: Sequence[Sequence[str]], column: int, test: Callable[[str], object]) -> bool:
    """Return whether at least nine of ten filled cells of a column pass the test."""
    cells = [cell for cell in _column_cells(rows, column) if cell.strip()]
    return bool(cells) and sum(bool(test(cell)) for cell in cells) >= 0.9 * len(cells)


def _column_cells(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    return [row[column] for row in rows if len(row) > column]


def _is_text(rows: Sequence[list[str]], column: int) -> bool:
    """Return whether a column holds text: not numbers, addresses or codes of languages, and not mostly empty cells."""
    if _is_mostly(rows, column, _is_language) or holds_languages(rows, column):
        return False
    if _is_mostly(rows, column, lambda cell: not re.search(r"[^\W\d_]", cell) or re.match(r"https?://\S+$", cell)):
        return False
    return 2 * sum(bool(cell.strip()) for cell in _column_cells(rows, column)) >= len(rows)


def split_columns_option(asked: str) -> list[str]:
    """Return the two columns or fields that --columns names, source first.

    Raises:
        InputError: `asked` does not name two.
    """
    parts = [part.strip() for part in asked.split(",")]
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        raise InputError(f"--columns {asked}: give two columns, source first, such as --columns 1,2")
    return parts


def _has_names(row: list[str], asked: str | None) -> bool:
    """Return whether --columns names a column by its header, not its number, and the row has all names given so."""
    names = [part for part in split_columns_option(asked) if not part.isdecimal()] if asked is not None else []
    return bool(names) and {*names} <= {cell.strip() for cell in row}


def _asked_columns(asked: str, header: list[str] | None, width: int, name: str) -> tuple[int, int]:
    source, target = (_asked_column(part, header, width, name, asked) for part in split_columns_option(asked))
    if source == target:
        raise InputError(
            f"--columns {asked}: both are column {source + 1} of {name}; give two columns, source first, such as "
            "--columns 1,2"
        )
    return source, target


def _asked_column(part: str, header: list[str] | None, width: int, name: str, asked: str) -> int:
    if header is not None and part in (names := [cell.strip() for cell in header]):
        return names.index(part)
    if not re.fullmatch(r"[0-9]{1,4}", part) or not 1 <= int(part) <= width:
        there = f"the columns are {', '.join(header)}" if header else f"there are {width}"
        raise InputError(f"--columns {asked}: {name} has no column {part}; {there}")
    return int(part) - 1


def _ambiguity(name: str, row: list[str], columns: list[int], pairs: list[tuple[int, int]]) -> str:
    shown = "; ".join(f"{c + 1}: {row[c][:40]!r}" for c in columns if c < len(row))
    tries = "; or ".join(f"--columns {source + 1},{target + 1}" for source, target in pairs[:2])
    return (
        f"{name}: cannot tell which two columns are meant ({shown}). Run the same command again with one of these, "
        f"source first: {tries}"
    )
