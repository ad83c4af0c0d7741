"""Translation memories, catalogues, spreadsheets and subtitles: what is text in them, and what is refused."""

import bz2
import gzip
import lzma
import sys
import zipfile
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importing_here import imported

from nmt_cli.formats import xml
from nmt_cli.system.errors import InputError

TMX = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'
XLIFF = '<xliff version="1.2"><file source-language="en" target-language="fr"><body>{}</body></file></xliff>'


def unit(**segments):
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in segments.items())
    return f"<tu>{''.join(variants)}</tu>"


def tmx(directory, *units, begin=""):
    (directory / "m.tmx").write_text(begin + TMX.format("\n".join(units)), encoding="utf-8")
    return directory / "m.tmx"


def test_text_is_what_stands_outside_of_codes(tmp_path):
    text = (
        '<bpt i="1">&lt;b&gt;<sub>alt</sub></bpt>bold<ept i="1">x</ept> <hi>kept <ph>y</ph></hi>&amp; &#233;<it>z</it>'
    )
    assert imported(tmx(tmp_path, unit(en=text, fr="\n   un\n  deux\n"))).pairs == [("bold kept & é", "un   deux")]


def test_signs_in_a_section_of_plain_characters_are_text(tmp_path):
    text = "a <![CDATA[<b> & c]]> &nbsp; &amp; d<!-- e & <![CDATA[ f -->"
    assert imported(tmx(tmp_path, unit(en=text, fr="b"))).pairs == [("a <b> & c \xa0 & d", "b")]


@given(
    st.lists(
        st.sampled_from(["<![CDATA[", "]]>", "]", "<!--", "-->", "<?", "?>", "<", "&", "&amp;", "&nbsp;", "a", "\0"])
    ),
    st.lists(st.integers(0, 60)),
)
def test_a_document_is_read_alike_wherever_its_pieces_end(parts, cuts):
    whole = "".join(parts)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [(whole[begin:end], False) for begin, end in pairwise(places)]

    def read(pieces):
        return "".join(text for text, _ in xml._clean_texts(pieces))

    assert read([*pieces, ("", True)]) == read([(whole, True)])


def test_regions_and_variants_of_a_language_are_its_text(tmp_path):
    units = [unit(en_US="a", en_GB="b", FR="c", de="d"), unit(en="e", en_US="f", fr="g"), unit(de="h", fr="i")]
    made = imported(tmx(tmp_path, *units))
    assert made.pairs == [("a", "c"), ("b", "c"), ("e", "g")]
    assert made.report["skipped"] == {"no en segment in the unit": 1}
    assert made.report["inputs"][0]["languages"] == {"en-US": 2, "en-GB": 1, "FR": 1, "de": 2, "en": 1, "fr": 2}
    assert imported(tmx(tmp_path, *units), source="en-GB", target="de").pairs == [("b", "d")]


def test_text_of_another_region_than_is_asked_for_is_taken_with_a_warning(tmp_path, capsys):
    def warnings(*path, **languages):
        imported(*path, **languages)
        return [line for line in capsys.readouterr().err.split("\n") if "is used as" in line]

    units = [unit(en="a", pt_BR="b", pt_PT="c"), unit(en="d", pt_PT="e")]
    path = tmx(tmp_path, *units)
    message = f"warning: {path}: text marked pt-PT is used as pt-BR"
    assert warnings(path, target="pt-BR") == [message]
    assert warnings(path, source="en-GB", target="pt") == []
    assert warnings(tmx(tmp_path, units[0]), target="pt_br") == []
    path = tmp_path / "m.xlf"
    path.write_text(XLIFF.format(two_sides("a", "b") * 2).replace('"fr"', '"fr-CA"'), encoding="utf-8")
    message = f"warning: {path}: text marked fr-CA is used as fr-FR"
    assert warnings(path, target="fr-FR") == warnings(path, source="fr-FR", target="en") == [message]
    path = tmp_path / "m.po"
    path.write_text('msgid ""\nmsgstr ""\n"Language: fr_CA\\n"\n\nmsgid "a"\nmsgstr "b"\n', encoding="utf-8")
    assert warnings(path, target="fr-FR") == [f"warning: {path}: text marked fr_CA is used as fr-FR"]
    assert warnings(path, target="fr") == []


NOTE = {"texts with a footnote or the like inside a code (sub), which was left out": 1}


def test_a_footnote_inside_a_code_is_left_out_and_counted(tmp_path, capsys):
    text = "a word<ph>fn<sub>with a footnote</sub></ph>"
    made = imported(tmx(tmp_path, unit(en=text, fr="un mot"), unit(en="b", fr="b"), unit(en=text)))
    assert (made.pairs, made.report["notes"]) == ([("a word", "un mot"), ("b", "b")], NOTE)
    assert f"also found: {next(iter(NOTE))} (1)\n" in capsys.readouterr().err
    path = tmp_path / "m.xlf"
    path.write_text(XLIFF.format(two_sides("a word", text) + two_sides("b", "b")), encoding="utf-8")
    made = imported(path)
    assert (made.pairs, made.report["notes"]) == ([("a word", "a word"), ("b", "b")], NOTE)


def test_a_memory_of_other_languages_is_refused_with_those_it_has(tmp_path):
    with pytest.raises(InputError, match=r"m\.tmx: has no segment in fr; the languages in it are de \(1 units\), en"):
        imported(tmx(tmp_path, unit(en="a", de="b")))


@pytest.mark.parametrize("encoding", ["UTF-16", "ISO-8859-1", "windows-1252", "GB18030", "Shift_JIS"])
def test_a_document_is_read_in_the_encoding_that_it_declares(tmp_path, encoding):
    text = "é" if encoding in ("ISO-8859-1", "windows-1252") else "京"
    document = f'<?xml version="1.0" encoding="{encoding}"?>\r\n{TMX.format(unit(en="a", fr=text))}'
    (tmp_path / "m.tmx").write_bytes(document.encode(encoding))
    made = imported(tmp_path / "m.tmx")
    assert (made.pairs, made.report["encoding"]) == ([("a", text)], encoding)


@pytest.mark.parametrize("encoding", ["hex", "rot13", "undefined", "idna", "punycode", "klingon"])
def test_a_document_that_declares_no_encoding_of_text_is_read_as_its_bytes_are(tmp_path, encoding):
    path = tmp_path / "m.tmx"
    document = f'<?xml version="1.0" encoding="{encoding}"?>{TMX.format(unit(en="a", fr="bé"))}'
    for codec in ("utf-8", "cp1252"):
        path.write_bytes(document.encode(codec))
        assert imported(path).pairs == [("a", "bé")]
    with pytest.raises(InputError, match="--encoding rot13: is not known; examples are UTF-8, cp1252"):
        imported(path, encoding="rot13")


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
SECRET = '<!ENTITY e9 SYSTEM "file:///etc/passwd">'


@pytest.mark.parametrize("kind", ["m.tmx", "m.xlf"])
@pytest.mark.parametrize("declaration", [BOMB, SECRET, '<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;'])
def test_entities_are_refused_and_nothing_is_fetched(tmp_path, declaration, kind):
    root, body = ("tmx", TMX.format(unit(en="a", fr="&e9;"))) if kind == "m.tmx" else ("xliff", XLIFF.format("&e9;"))
    (tmp_path / kind).write_text(f"<!DOCTYPE {root} [{declaration}]>{body}", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{kind}:1: declares the entity [ex]\d?; take the declaration out"):
        imported(tmp_path / kind)


@pytest.mark.parametrize(
    ("text", "begin", "message"),
    [
        ("a &nbsp; b", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', None),
        (
            "a &foo; b",
            '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
            r"no pair was found; .*an & of no reference \(1, the first is .*m\.tmx:1\)",
        ),
        ("a < b", "", r"m\.tmx:1: is not well-formed XML: not well-formed \(invalid token\); fix the line"),
        ("<seg>" * 2000, "", r"m\.tmx:1: elements are nested more than 1,000 deep; nest them less"),
    ],
)
def test_damage_is_refused_at_the_line(tmp_path, text, begin, message):
    path = tmx(tmp_path, unit(en=text, fr="c"), begin=begin)
    if message is None:
        assert imported(path).pairs == [("a \xa0 b", "c")]
        return
    with pytest.raises(InputError, match=message):
        imported(path)
    assert [other.name for other in tmp_path.iterdir()] == ["m.tmx"]


def test_a_memory_that_is_cut_off_is_refused(tmp_path):
    path = tmx(tmp_path, *[unit(en="a", fr="b")] * 99)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(
        InputError, match=r"m\.tmx:99: is not well-formed XML: ends within an element; the file is cut off"
    ):
        imported(path)


def test_units_of_xliff_in_both_versions(tmp_path):
    path = tmp_path / "m.xlf"
    units = (
        '<trans-unit id="1"><source>a <g id="1">b</g><x id="2"/></source><target>c<ph id="3">{0}</ph></target>'
        "<alt-trans><source>no</source><target>no</target></alt-trans></trans-unit>"
        '<trans-unit id="2"><source>d</source></trans-unit><trans-unit id="3"><source>e</source><target/></trans-unit>'
        '<trans-unit id="4"><source>f</source><target state="new">f</target></trans-unit>'
    )
    path.write_text(XLIFF.format(units), encoding="utf-8")
    made = imported(path)
    assert made.pairs == [("a b", "c")]
    assert made.report["skipped"] == {
        "no target in the unit": 1, "empty target": 1, "not translated yet (state new)": 1,
    }  # fmt: skip
    assert imported(path, source="fr", target="en-US").pairs == [("c", "a b")]
    with pytest.raises(InputError, match=r"m\.xlf:1: translates from en to fr, not from en to de"):
        imported(path, target="de")
    path.write_text(
        '<xliff version="2.0" srcLang="en-GB" trgLang="fr"><file id="f"><unit id="u"><notes><note>n</note></notes>'
        '<segment state="translated"><source>a <pc id="1">b</pc><ph id="2"/></source><target>c</target></segment>'
        '<segment state="initial"><source>d</source><target>d</target></segment></unit></file></xliff>',
        encoding="utf-8",
    )
    assert imported(path).pairs == [("a b", "c")]


BREAKS = [
    '<ph type="lb">x</ph>', '<ph x="1">&lt;br/&gt;</ph>', '<x id="1" ctype="lb"/>',
    '<x id="1" equiv-text="&lt;br&gt;"/>',
    '<ph id="1" type="fmt" subType="xlf:lb"/>', '<ph x="2" type="x-br"/>', '<ph x="2" type="x-LineBreak"/>',
]  # fmt: skip


@pytest.mark.parametrize("code", BREAKS)
def test_a_code_that_breaks_a_line_does_not_glue_words_together(tmp_path, code):
    made = imported(tmx(tmp_path, unit(en=f"one{code}two", fr=f"un{code}deux")))
    assert (made.pairs, made.report["pairs_with_joined_lines"]) == ([("one two", "un deux")], 1)
    (tmp_path / "m.xlf").write_text(XLIFF.format(two_sides(f"one{code}two", f"un{code}deux")), encoding="utf-8")
    assert imported(tmp_path / "m.xlf").pairs == [("one two", "un deux")]
    (tmp_path / "m.xlf").write_text(XLIFF.format(two_sides('H<x id="1"/>2', 'H<x id="1"/>2')), encoding="utf-8")
    assert imported(tmp_path / "m.xlf").pairs == [("H2", "H2")]


def two_sides(source, target, more=""):
    return f"<trans-unit><source>{source}</source><target>{target}</target>{more}</trans-unit>"


def test_texts_that_a_unit_had_before_are_not_its_texts(tmp_path):
    """memoQ keeps earlier versions and matches of a memory in elements of its own."""
    old = "<mq:historical-unit><source>old</source><target>vieux</target></mq:historical-unit>"
    path = tmp_path / "m.mqxliff"
    path.write_text(XLIFF.format(two_sides("new", "neuf", old) + two_sides("todo", "", old)), encoding="utf-8")
    made = imported(path)
    assert (made.pairs, made.report["skipped"]) == ([("new", "neuf")], {"empty target": 1})


def segments(*texts):
    return " ".join(f'<mrk mtype="seg" mid="{number}">{text}</mrk>' for number, text in enumerate(texts, start=1))


@pytest.mark.parametrize(
    ("target", "pairs"),
    [
        (segments("Un.", "<g>Deux</g>."), [("One.", "Un."), ("Two.", "Deux.")]),
        (segments("Un.", ""), [("One.", "Un.")]),
        (segments("Un."), [("One.", "Un.")]),
        (segments('<mrk mtype="x-sdl-deleted">Une</mrk><mrk mtype="x-sdl-added">Un</mrk>.'), [("One.", "Un.")]),
        ("Un. Deux.", [("One. Two.", "Un. Deux.")]),
        (f"Zéro. {segments('Un.', 'Deux.')}", [("One. Two.", "Zéro. Un. Deux.")]),
        (segments("Un.", "Deux.", "Trois."), [("One. Two.", "Un. Deux. Trois.")]),
    ],
)
def test_marked_segments_are_pairs_where_both_sides_have_them(tmp_path, target, pairs):
    sides = f"<source>One. Two.</source><seg-source>{segments('One.', 'Two.')}</seg-source><target>{target}</target>"
    (tmp_path / "m.sdlxliff").write_text(XLIFF.format(f"<trans-unit>{sides}</trans-unit>"), encoding="utf-8")
    made = imported(tmp_path / "m.sdlxliff")
    num_lost = int(len(pairs) == 1 and pairs[0][0] == "One.")
    assert (made.pairs, made.report["skipped"]) == (pairs, {"empty target": 1} if num_lost else {})
    assert imported(tmp_path / "m.sdlxliff", source="fr", target="en").pairs == [pair[::-1] for pair in pairs]


def test_a_draft_among_the_segments_of_a_unit_costs_only_itself(tmp_path):
    """Trados tells the state of each segment of a unit behind its target."""
    states = '<sdl:seg-defs><sdl:seg id="1" conf="Translated"/><sdl:seg id="2" conf="Draft"/></sdl:seg-defs>'
    sides = (
        f"<source>One. Two. Three.</source><seg-source>{segments('One.', 'Two.', 'Three.')}</seg-source>"
        f"<target>{segments('Un.', 'Deux.', 'Trois.')}</target>"
    )
    path = tmp_path / "m.sdlxliff"
    path.write_text(XLIFF.format(f"<trans-unit>{sides}{states}</trans-unit>"), encoding="utf-8")
    made = imported(path)
    assert made.pairs == [("One.", "Un."), ("Three.", "Trois.")]
    assert made.report["skipped"] == {"unfinished (state Draft)": 1}


def test_messages_of_a_catalogue(tmp_path):
    path = tmp_path / "m.po"
    path.write_bytes(
        'msgid ""\nmsgstr ""\n"Language: fr\\n"\n"Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
        'msgid "a \\"b\\"\\n"\n"c"\nmsgstr "é\\n"\n"d"\n\n#, fuzzy\nmsgid "f"\nmsgstr "g"\n\nmsgid "u"\nmsgstr ""\n\n'
        'msgctxt "x"\nmsgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d fichier"\nmsgstr[1] "%d fichiers"\n\n'
        '#~ msgid "old"\n#~ msgstr "vieux"\n'.encode("latin-1")
    )
    made = imported(path)
    assert made.pairs == [('a "b" c', "é d"), ("%d file", "%d fichier"), ("%d files", "%d fichiers")]
    assert made.report["skipped"] == {"fuzzy": 1, "empty target": 1, "obsolete": 1}
    assert imported(path, source="fr", target="en").pairs[1] == ("%d fichier", "%d file")
    with pytest.raises(InputError, match=r"m\.po:3: translates into fr, which is neither en nor de"):
        imported(path, target="de")


@pytest.mark.parametrize(
    ("declared", "encoding", "text", "reported"),
    [
        ("KOI8-U", "koi8_u", "Файл є її ґанок", "KOI8-U"),
        ("ISO-8859-15", "iso8859_15", "5 € pour un œuf", "ISO-8859-15"),
        ("ISO-8859-7", "iso8859_7", "Άλλο είναι", "ISO-8859-7"),
        ("ISO-8859-5", "iso8859_5", "Другой файл", "ISO-8859-5"),
        ("ISO-8859-1", "cp1252", "5 € pour un œuf", "cp1252"),
        ("ISO-8859-1", "utf-8", "à côté", "UTF-8"),
        ("UTF-8", "cp1252", "5 € pour un œuf", "cp1252"),
        ("KLINGON", "cp1252", "5 € pour un œuf", "cp1252"),
    ],
)
def test_a_catalogue_is_read_in_the_charset_of_its_header(tmp_path, declared, encoding, text, reported):
    header = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={declared}\\n"\n\n'
    (tmp_path / "m.po").write_bytes(f'{header}msgid "a"\nmsgstr "{text}"\n'.encode(encoding))
    made = imported(tmp_path / "m.po", target="ru")
    assert (made.pairs, made.report["encoding"]) == ([("a", text)], reported)


def test_the_plural_form_for_one_is_that_of_the_singular(tmp_path):
    rule = "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);"
    forms = "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(("datotek", "ena", "dve", "tri")))
    (tmp_path / "m.po").write_text(
        f'msgid ""\nmsgstr ""\n"Language: sl\\n"\n"Plural-Forms: {rule}\\n"\n\n'
        f'msgid "one file"\nmsgid_plural "files"\n{forms}',
        encoding="utf-8",
    )
    assert imported(tmp_path / "m.po", target="sl").pairs == [
        ("files", "datotek"), ("one file", "ena"), ("files", "dve"), ("files", "tri"),
    ]  # fmt: skip


def test_a_plural_with_one_translation_is_that_of_the_singular(tmp_path):
    path = tmp_path / "m.po"
    path.write_text(
        'msgid "file"\nmsgid_plural "files"\nmsgstr "fichier"\n\nmsgid "a"\nmsgid_plural "b"\nmsgstr ""\n\n'
        'msgid "c"\nmsgstr "d"\n',
        encoding="utf-8",
    )
    made = imported(path)
    assert (made.pairs, made.report["skipped"]) == ([("file", "fichier"), ("c", "d")], {"empty target": 1})


def workbook(path, **sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_rows_of_a_spreadsheet(tmp_path):
    rows = [
        ("English", "Nr", "French"),
        ("a\nb", 1, "c"),
        ("d", 2, None),
        (None, None, None),
        (5, 3, 5.5),
        ("e", 4, "f"),
    ]
    path = workbook(tmp_path / "t.xlsx", Info=[("About",)], Table=rows)
    made = imported(path)
    assert made.pairs == [("a b", "c"), ("5", "5.5"), ("e", "f")]
    assert made.report["skipped"] == {"empty target": 1}
    assert made.report["skipped_places"]["empty target"][0].endswith("t.xlsx:Table!3")


def test_a_spreadsheet_with_two_tables_is_refused_with_the_options_that_settle_it(tmp_path):
    path = workbook(tmp_path / "t.xlsx", One=[("a", "b")], **{"The second": [("c", "d")]})
    with pytest.raises(InputError, match=r"2 sheets have columns of text\. .*: --sheet One; or --sheet 'The second'"):
        imported(path)
    assert imported(path, sheet="The second").pairs == [("c", "d")]
    with pytest.raises(InputError, match=r"--sheet Six: .*t\.xlsx has no such sheet; it has One, The second"):
        imported(path, sheet="Six")


def rewritten(path, old, new):
    """The workbook with another text in the XML of its first sheet."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert old in parts[sheet]
    parts[sheet] = parts[sheet].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return path


def test_the_size_that_a_sheet_says_it_has_may_be_wrong(tmp_path):
    rows = [("a", "b"), ("c", "d"), ("e", "f")]
    path = rewritten(workbook(tmp_path / "t.xlsx", One=rows), b'ref="A1:B3"', b'ref="A1:B2"')
    assert imported(path).pairs == imported(path, sheet="One").pairs == rows


def test_a_spreadsheet_may_have_any_name(tmp_path):
    path = workbook(tmp_path / "t.xlsx", One=[("a", "b")])
    assert imported(path.rename(tmp_path / "standard input")).pairs == [("a", "b")]


def test_errors_in_cells_are_no_sentences(tmp_path):
    errors = ("#N/A", "#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!")
    path = workbook(
        tmp_path / "t.xlsx", One=[("en", "fr"), *((f"word {error}", error) for error in errors), ("a", "b")]
    )
    made = imported(path)
    assert (made.pairs, made.report["skipped"]) == ([("a", "b")], {"empty target": 7})
    path = workbook(tmp_path / "t.xlsx", One=[("en", "fr"), ("a", "x")])
    path = rewritten(path, b'"B2" t="inlineStr"><is><t>x<', b'"B2" t="inlineStr"><is><t>#N/A<')
    assert imported(path).pairs == [("a", "#N/A")]  # a text that somebody wrote


def test_errors_in_cells_of_open_document_are_no_sentences(tmp_path):
    cells = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    error = cells.replace("cell>", 'cell calcext:value-type="error">', 1)
    rows = [cells.format("a") + error.format("#N/A"), cells.format("b") + cells.format("c")]
    body = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f'<doc><table:table table:name="One">{body}</table:table></doc>')
    made = imported(tmp_path / "t.ods")
    assert (made.pairs, made.report["skipped"]) == ([("b", "c")], {"empty target": 1})


def test_cells_of_open_document_that_are_no_text_are_counted(tmp_path):
    kinds = (
        ("string", "", "a"), ("date", "", "31.01.2024"), ("percentage", "0.25", "25%"), ("boolean", "", "TRUE"),
        ("float", "1234.5", "1,234.50"), ("float", "42", "42"),
    )  # fmt: skip
    cell = '<table:table-cell office:value-type="{}" office:value="{}"><text:p>{}</text:p></table:table-cell>'
    body = "".join(f"<table:table-row>{2 * cell.format(*kind)}</table:table-row>" for kind in kinds)
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f'<doc><table:table table:name="One">{body}</table:table></doc>')
    made = imported(tmp_path / "t.ods")
    assert made.pairs == [("a", "a"), ("42", "42")]
    assert made.report["skipped"] == {"a date, a formatted number or the like, which is not text": 4}


def test_equal_rows_of_open_document_are_counted_one_by_one(tmp_path):
    cells = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    rows = [
        '<table:table-row table:number-rows-repeated="3">{}</table:table-row>',
        "<table:table-row>{}</table:table-row>",
    ]
    body = "".join(
        row.format(cells.format(text) + cells.format(text.upper())) for row, text in zip(rows, "ab", strict=True)
    )
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f'<doc><table:table table:name="One">{body}</table:table></doc>')
    assert imported(tmp_path / "t.ods").pairs == [("a", "A"), ("a", "A"), ("a", "A"), ("b", "B")]


@pytest.mark.parametrize("settings", [{}, {"sheet": "One"}, {"sheet": "One", "columns": "1,2"}])
@pytest.mark.parametrize("header", [[("en", "fr")], []])
def test_formulas_without_saved_results_are_named(tmp_path, header, settings):
    rows = [*header, *((f"word {number}", f"=UPPER(A{number})") for number in range(2, 9))]
    path = workbook(tmp_path / "t.xlsx", One=rows)
    hint = rf"One!B{len(header) + 1} and perhaps others hold formulas without saved results; open the file in a spread"
    with pytest.raises(InputError, match=rf"t\.xlsx: .*[tT]he cell {hint}"):
        imported(path, **settings)
    rewritten(path, b"<v></v>", b"<v>5</v>")
    if header:
        assert len(imported(path, **settings).pairs) == 7


@pytest.mark.parametrize(("cell", "is_told"), [("=UPPER(B2)", True), ("", False)])
def test_formulas_without_saved_results_are_named_if_they_cost_a_pair(tmp_path, capsys, cell, is_told):
    path = workbook(tmp_path / "t.xlsx", One=[("en", "fr"), ("a", "b"), ("c", cell)])
    made = imported(path)
    assert (made.pairs, made.report["skipped"]) == ([("a", "b")], {"empty target": 1})
    hint = "t.xlsx: the cell One!B3 and perhaps others hold formulas without saved results; open the file in"
    assert (hint in capsys.readouterr().err) is is_told


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_compressed_spreadsheet_is_read(tmp_path, ending):
    path = workbook(tmp_path / "t.xlsx", One=[("en", "fr"), ("a", "b")])
    packed = tmp_path / f"t.xlsx.{ending}"
    packed.write_bytes({"gz": gzip, "bz2": bz2, "xz": lzma}[ending].compress(path.read_bytes()))
    made = imported(packed)
    assert (made.pairs, made.report["format"]) == ([("a", "b")], "XLSX")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_spreadsheet_alone_in_a_zip_archive_is_read(tmp_path, compression):
    path = workbook(tmp_path / "t.xlsx", One=[("en", "fr"), ("a", "b")])
    with zipfile.ZipFile(tmp_path / "p.zip", "w", compression) as archive:
        archive.write(path, "t.xlsx")
    assert imported(tmp_path / "p.zip").pairs == [("a", "b")]
    with zipfile.ZipFile(tmp_path / "p.zip", "a") as archive:
        archive.write(path, "other.xlsx")
    with pytest.raises(InputError, match=r"p\.zip: no parallel text .* \(t\.xlsx, other\.xlsx\); unpack it and give"):
        imported(tmp_path / "p.zip")


def test_a_table_that_begins_far_down_is_read_where_its_sheet_is_named(tmp_path):
    path = workbook(tmp_path / "t.xlsx", One=[*[(None, None)] * 60, ("French", "English"), ("a", "b")])
    with pytest.raises(InputError, match=r"two columns of text in its first 50 rows; its sheets are One\. .* --sheet"):
        imported(path)
    assert imported(path, sheet="One").pairs == [("b", "a")]


@pytest.mark.parametrize(("library", "name"), [("openpyxl", "t.xlsx"), ("zstandard", "t.tsv.zst")])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, library, name):
    monkeypatch.setitem(sys.modules, library, None)
    begin = {"t.tsv.zst": b"\x28\xb5\x2f\xfd" + bytes(9), "t.xlsx": b""}[name]
    (tmp_path / name).write_bytes(begin)
    if name == "t.xlsx":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("xl/workbook.xml", "")
    with pytest.raises(InputError, match=rf"{name}: reading .* needs {library}: pip install 'nmt-cli\[formats\]'"):
        imported(tmp_path / name)


SRT = """1
00:00:01,000 --> 00:00:02,000
<i>Hello</i>,
you.

2
00:00:03,000 --> 00:00:05,500
{\\an8}One long sentence.

3
00:00:20,000 --> 00:00:21,000
Alone.

4
00:00:30,000 --> 00:00:31,000
Last.
"""
VTT = """WEBVTT

NOTE not text

00:01.100 --> 00:02.100 align:start
<v Ann>Salut &amp; toi.

00:03.000 --> 00:04.200
Une longue

cue-6
00:04.200 --> 00:05.500
phrase.

01:00:00.000 --> 01:00:01.000
Seule.

00:30.050 --> 00:31.050
Fin.
"""


def test_cues_that_are_shown_at_the_same_time_are_pairs(tmp_path):
    (tmp_path / "film.en.srt").write_text(SRT, encoding="utf-8")
    (tmp_path / "film.fr.vtt").write_bytes(VTT.replace("\n", "\r\n").encode("utf-16"))
    made = imported(tmp_path / "film.fr.vtt", tmp_path / "film.en.srt")
    assert made.pairs == [
        ("Hello, you.", "Salut & toi."), ("One long sentence.", "Une longue phrase."), ("Last.", "Fin."),
    ]  # fmt: skip
    assert made.report["skipped"] == {
        "no cue of the other file at the same time (source)": 1,
        "no cue of the other file at the same time (target)": 1,
    }
    assert made.report["format"] == "VTT, SRT"


@pytest.mark.parametrize("side", ["en", "fr"])
def test_a_cue_shown_during_many_others_is_left_out_alone(tmp_path, side):
    times = "00:00:{:02},000 --> 00:00:{:02},000\n{}\n\n"
    for language, word in (("en", "Line"), ("fr", "Ligne")):
        cues = "".join(times.format(2 * number, 2 * number + 1, f"{word} {number}") for number in range(9))
        watermark = times.format(0, 59, "A station") if language == side else ""
        (tmp_path / f"a.{language}.srt").write_text(watermark + cues, encoding="utf-8")
    made = imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt")
    assert made.pairs == [(f"Line {number}", f"Ligne {number}") for number in range(9)]
    assert made.report["skipped"] == {"a cue shown during more than 4 of the other file": 1}
    place = made.report["skipped_places"]["a cue shown during more than 4 of the other file"]
    assert [name.rpartition("/")[2] for name in place] == [f"a.{side}.srt:1"]


def test_every_cue_of_a_long_chain_is_counted(tmp_path):
    for language, first in (("en", 0), ("fr", 1)):  # each is shown during half of two of the other side
        cues = (f"00:00:{n:02},000 --> 00:00:{n + 2:02},000\n{language}\n\n" for n in range(first, first + 14, 2))
        (tmp_path / f"a.{language}.srt").write_text("".join(cues), encoding="utf-8")
    with pytest.raises(InputError, match=r"no pair was found; cues that overlap in long chains \(7, the first is "):
        imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt")


def test_text_after_a_blank_line_in_a_cue_is_counted(tmp_path):
    srt = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n{}2\n00:00:03,000 --> 00:00:04,000\n{}\n\n3\n\n"
    (tmp_path / "a.en.srt").write_text(srt.format("One", "and\nmore\n\n", "Two"), encoding="utf-8")
    (tmp_path / "a.fr.srt").write_text(srt.format("Un", "", "Deux"), encoding="utf-8")
    made = imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt")
    assert made.pairs == [("One", "Un"), ("Two", "Deux")]
    broken = "a cue with times such as 00:00:01,000 --> 00:00:02,500 should begin here; the file is damaged or cut off"
    assert made.report["skipped"] == {"text after the blank line that ends a cue": 1, broken: 2}
    assert made.report["skipped_places"]["text after the blank line that ends a cue"][0].endswith("a.en.srt:5")
    head = "WEBVTT Kind: captions\nLanguage: en\n\nNOTE a\nb\n\nSTYLE\n::cue {}\n\nname of a cue\n"
    (tmp_path / "a.en.vtt").write_text(f"{head}00:01.000 --> 00:02.000\nOne\n\nNOTE\nc\n", encoding="utf-8")
    made = imported(tmp_path / "a.en.vtt", tmp_path / "a.fr.srt")
    assert (made.pairs, list(made.report["skipped"].values())) == ([("One", "Un")], [1, 1])


def test_many_variants_of_a_unit_do_not_multiply(tmp_path):
    sides = "".join(
        f'<tuv xml:lang="{code}"><seg>{code} {number}</seg></tuv>' for code in ("en", "fr") for number in range(2_000)
    )
    (tmp_path / "m.tmx").write_text(f"<tmx><body><tu>{sides}</tu></body></tmx>")
    made = imported(tmp_path / "m.tmx")
    assert made.pairs == [("en 0", f"fr {number}") for number in range(4)]
    assert made.report["skipped"] == {"combinations of variants beyond 4 in a unit": 3_999_996}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\u2029", "\x85"])
def test_what_ends_a_line_for_any_program_becomes_a_blank(tmp_path, end):
    unit = f'<tu><tuv xml:lang="en"><seg>One{end}and two{end}</seg></tuv><tuv xml:lang="fr"><seg>Un</seg></tuv></tu>'
    (tmp_path / "m.tmx").write_bytes(f"<tmx><body>{unit}</body></tmx>".encode())
    made = imported(tmp_path / "m.tmx")
    ((source, target),) = made.pairs
    assert (source.split(), target, len(source.splitlines())) == (["One", "and", "two"], "Un", 1)
    assert made.report["pairs_with_joined_lines"] == 1


def test_units_that_somebody_has_to_look_at_are_no_pairs(tmp_path):
    states = ("translated", "final", "needs-adaptation", "needs-l10n", "needs-review-translation", "new")
    units = "".join(
        f'<trans-unit id="{state}"><source>s {state}</source><target state="{state}">t {state}</target></trans-unit>'
        for state in states
    )
    (tmp_path / "m.xlf").write_text(XLIFF.format(units))
    made = imported(tmp_path / "m.xlf")
    assert made.pairs == [(f"s {state}", f"t {state}") for state in states[:2]]
    assert list(made.report["skipped"]) == [
        *(f"unfinished (state {state})" for state in states[2:5]),
        "not translated yet (state new)",
    ]
    made = imported(tmp_path / "m.xlf", with_unfinished=True)
    assert made.pairs == [(f"s {state}", f"t {state}") for state in states[:5]]


@pytest.mark.parametrize(
    ("unit_mark", "target_mark", "num_pairs"),
    [
        ("m:confirmed='0'", "", 0), ("m:confirmed='1'", "", 1), ("", "state-qualifier='fuzzy-match'", 0),
        ("", "state-qualifier='mt-suggestion'", 0), ("", "state='final' state-qualifier='mt-suggestion'", 1),
        ("approved='yes'", "state-qualifier='fuzzy-match'", 1), ("", "state='x-fuzzy'", 0),
    ],
)  # fmt: skip
def test_a_translation_that_nobody_has_confirmed_is_no_pair(tmp_path, unit_mark, target_mark, num_pairs):
    units = f"<trans-unit {unit_mark}><source>a</source><target {target_mark}>b</target></trans-unit>"
    confirmed = "<trans-unit><source>c</source><target>d</target></trans-unit>"
    (tmp_path / "m.xlf").write_text(XLIFF.format(units + confirmed).replace("<xliff", "<xliff xmlns:m='m'", 1))
    assert len(imported(tmp_path / "m.xlf").pairs) == 1 + num_pairs


@pytest.mark.parametrize("text", ["A & B.", "fish&chips", "a &foo; b", "A &"])
def test_an_ampersand_costs_its_unit_and_a_reference_of_html_none(tmp_path, text):
    path = tmx(tmp_path, unit(en=text, fr="c") + unit(en="1&nbsp;&lt;&copy;&#33;", fr="d"))
    assert imported(path).pairs == [("1\xa0<©!", "d")]
