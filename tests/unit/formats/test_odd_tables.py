"""Tables of other programs: which character separates the cells, broken rows, headers, and cells that are no text."""

from __future__ import annotations

import datetime
import json

import pytest
from importing_here import imported

from nmt_cli.assembly.imported_pairs import import_pairs
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import Settings
from nmt_cli.system.errors import InputError

PRICES = "fr;en\n" + "".join(f"Cela coûte {n},50 euros.;It costs {n}.50 euros.\n" for n in range(30))
PLEASE = "".join(f"It costs {n}.50 euros, please.;Cela coûte {n} euros.\n" for n in range(5))


@pytest.mark.parametrize(
    ("content", "pair", "number"),
    [
        (PRICES, ("It costs 0.50 euros.", "Cela coûte 0,50 euros."), 30),
        (PLEASE, ("It costs 0.50 euros, please.", "Cela coûte 0 euros."), 5),
        ("Il coûte 1,50 euros.;It costs 1,50 euros.\n" * 9, ("It costs 1,50 euros.", "Il coûte 1,50 euros."), 9),
        (PRICES.replace(";", "|"), ("It costs 0.50 euros.", "Cela coûte 0,50 euros."), 30),
        ("en,fr\n" + "it; is,il; est\n" * 3, ("it; is", "il; est"), 3),
        ("en, fr\n" + "a dog, un chien\n" * 3, ("a dog", " un chien"), 3),
    ],
)
def test_the_separator_gives_all_rows_as_many_cells_and_fits_the_header(tmp_path, content, pair, number):
    (tmp_path / "t.csv").write_text(content)
    made = imported(tmp_path / "t.csv")
    assert (made.pairs[0], len(made.pairs)) == (pair, number)


def test_a_table_with_two_readings_is_refused_with_both(tmp_path):
    (tmp_path / "t.csv").write_text("a red,dog;un chien\n" * 3)
    with pytest.raises(InputError) as refusal:
        imported(tmp_path / "t.csv")
    assert str(refusal.value).endswith(
        "several separators fit equally well: 'a red | dog;un chien'; or 'a red,dog | un chien'. Run the same "
        "command again with one of these: --separator ,; or --separator ';'"
    )
    assert imported(tmp_path / "t.csv", separator=";").pairs[0] == ("a red,dog", "un chien")
    (tmp_path / "t.txt").write_text("a#b\nc#d\n")
    assert imported(tmp_path / "t.txt", separator="#").pairs == [("a", "b"), ("c", "d")]


def test_rows_that_broke_over_lines_are_no_pairs(tmp_path):
    (tmp_path / "t.tsv").write_text(
        "id\tsource\ttarget\n0\tThe car is red.\tLa voi\nture est rouge.\n"
        "1\tThe hou\nse is big.\tLa maison est grande.\n"
        "2\tThe tree is old.\tL’arbre est vieux.\n3\tThe key is new.\tLa clé est neuve.\n"
    )
    made = imported(tmp_path / "t.tsv")
    assert [source for source, _ in made.pairs] == ["The tree is old.", "The key is new."]
    assert sum(made.report["skipped"].values()) == 4


WHOLE = ["The tree is old.\tL’arbre est vieux.", "The key is new.\tLa clé est neuve."]


@pytest.mark.parametrize(
    ("broken", "cells"),
    [
        ("The car is red.\tLa voi\nture est rouge.\nThe hou\nse is big.\tLa maison est grande.", ""),
        ("source\ttarget\tid\tnote\nThe car is red.\tLa voi\nture est rouge.\t1\tx", "\t1\tx"),
        ("source\ttarget\tid\tnote\nThe house\nis big.\tLa maison\nest grande.\t2\ty", "\t1\tx"),
        ("source\ttarget\tid\nIt is. It was.\tElle est.\t1\nElle était.", "\t1"),
    ],
)
def test_no_part_of_a_broken_row_is_a_pair(tmp_path, broken, cells):
    (tmp_path / "t.tsv").write_text("\n".join([broken, *(row + cells for row in WHOLE)]) + "\n")
    assert imported(tmp_path / "t.tsv").pairs == [tuple(row.split("\t")) for row in WHOLE]


def test_a_whole_row_after_a_single_cell_is_a_pair(tmp_path):
    (tmp_path / "t.tsv").write_text("\n".join(["en\tfr", "One\tUn", "deux", "Yes\tOui", *WHOLE]) + "\n")
    assert imported(tmp_path / "t.tsv").pairs == [("Yes", "Oui"), *(tuple(row.split("\t")) for row in WHOLE)]


@pytest.mark.parametrize(
    "header",
    ["Englisch;Französisch", "Inglés;Francés", "Английский;Французский", "Quelltext;Zieltext", "Original;Traduction"],
)
def test_a_header_in_the_words_of_another_language_is_no_pair(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\nHello.;Bonjour.\nThe house.;La maison.\n")
    assert imported(tmp_path / "t.csv").pairs == [("Hello.", "Bonjour."), ("The house.", "La maison.")]


@pytest.mark.parametrize("last", ["note", ""])
def test_a_row_without_its_last_cell_is_whole_where_others_lack_it_too(tmp_path, last):
    rows = [f"a dog {n}\tun chien {n}" + (f"\t{last}" if last and n % 2 else "") for n in range(20)]
    (tmp_path / "t.tsv").write_text("\n".join(["source\ttarget\tnotes", *rows]) + "\n")
    assert len(imported(tmp_path / "t.tsv").pairs) == 20


def test_references_of_web_programs_are_read_as_characters(tmp_path):
    rows = "".join(f'"O&#039;Neil has {n} cars &amp; keys.","O&#039;Neil a {n} voitures."\n' for n in range(6))
    (tmp_path / "t.csv").write_text("english,french\n" + rows)
    made = imported(tmp_path / "t.csv")
    assert made.pairs[0] == ("O'Neil has 0 cars & keys.", "O'Neil a 0 voitures.")
    assert made.report["notes"] == {"pairs with references such as &#039;, which were read as characters": 6}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.jsonl", '{"en": "O&#039;Neil &amp; co", "fr": "O&#039;Neil"}\n'),
        ("t.tsv", "en\tfr\nO&#39;Neil &amp; co\tO&apos;Neil\n"),
        ("t.po", 'msgid "O&#x27;Neil &amp; co"\nmsgstr "O&#039;Neil"\n'),
    ],
)
def test_references_are_characters_in_every_format(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert imported(tmp_path / name).pairs == [("O'Neil & co", "O'Neil")]


@pytest.mark.parametrize(
    ("header", "language"),
    [("Nr;English;Tiếng Việt", "vi"), ("Nr;English;Viet", "vi"), ("No;中文;Text", "zh")],
)
def test_a_header_that_names_one_language_is_no_pair(tmp_path, header, language):
    source = "zh" if language == "zh" else "en"
    texts = (
        ("我喜欢红色的车。", "Nous aimons les voitures rouges.")
        if source == "zh"
        else ("I like it.", "Tôi không thích.")
    )
    rows = "".join(f"{n};{n} {texts[0]};{n} {texts[1]}\n" for n in range(4))
    (tmp_path / "t.csv").write_text(f"{header}\n{rows}")
    made = imported(tmp_path / "t.csv", source=source, target="fr" if source == "zh" else language, columns="2,3")
    assert (len(made.pairs), made.report["inputs"][0]["header_row"]) == (4, True)


def test_a_header_in_another_script_than_its_column_is_no_pair(tmp_path):
    (tmp_path / "t.tsv").write_text("Vraag\tAntwoord\n" + "Где красная машина?\tWaar is de rode auto?\n" * 3)
    assert len(imported(tmp_path / "t.tsv", source="ru", target="nl").pairs) == 3


def test_the_columns_that_are_offered_look_like_sentences(tmp_path):
    rows = "".join(f"w{n}\tnoun\tThis is a red car, number {n}.\tC’est une voiture rouge {n}.\n" for n in "abc")
    (tmp_path / "t.tsv").write_text(rows)
    with pytest.raises(InputError, match=r"--columns 3,4; or --columns 3,"):
        imported(tmp_path / "t.tsv")


@pytest.mark.parametrize(
    ("source", "target", "offered"), [("en", "fr", "1,3"), ("fr", "de", "3,2"), ("de", "en", "2,1")]
)
def test_the_columns_whose_words_are_of_the_two_languages_are_offered_first(tmp_path, source, target, offered):
    rows = "Hello\tHallo\tBonjour\nThe car is here\tDas rote Auto ist da\tLa voiture rouge est ici\n"
    (tmp_path / "t.tsv").write_text(rows)
    with pytest.raises(InputError, match=rf"source first: --columns {offered}; or "):
        imported(tmp_path / "t.tsv", source=source, target=target)


@pytest.mark.parametrize("title", ["Glossary 2024\t\t\n", "Glossary\n\nof 2024\n\n"])
def test_a_title_above_the_header_is_no_pair_and_hides_no_header(tmp_path, title):
    (tmp_path / "t.tsv").write_text(f"{title}No\tEnglish\tFrench\n1\tHello\tBonjour\n2\tBye\tAdieu\n")
    made = imported(tmp_path / "t.tsv")
    assert made.pairs == [("Hello", "Bonjour"), ("Bye", "Adieu")]
    assert made.report["notes"] == {"rows above the header": title.count("Glossary") + title.count("of")}


def test_cells_that_are_no_text_are_counted(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["English", "French"])
    sheet.append(["the car", "la voiture"])
    for value in (datetime.date(2024, 1, 31), 0.25, True, 1234.5, 7, datetime.time(10, 30)):
        sheet.append([value, value])
    sheet["A4"].number_format = sheet["B4"].number_format = "0%"
    sheet["A6"].number_format = sheet["B6"].number_format = "#,##0.00"
    book.save(tmp_path / "t.xlsx")
    made = imported(tmp_path / "t.xlsx")
    assert made.pairs == [("the car", "la voiture"), ("7", "7")]
    assert made.report["skipped"] == {"a date, a formatted number or the like, which is not text": 5}
    single = Settings(Languages("en", "en"), columns="1", is_single=True)
    report = json.loads(import_pairs([str(tmp_path / "t.xlsx")], str(tmp_path / "one"), single).report.read_text())
    assert report["skipped"] == made.report["skipped"]


def test_regions_of_one_language_are_told_with_their_numbers(tmp_path, capsys):
    units = [("zh-CN", "a"), ("zh-TW", "b"), ("zh-CN", "c")]
    body = "".join(
        f"<tu><tuv xml:lang='en'><seg>{text}</seg></tuv><tuv xml:lang='{code}'><seg>{text}</seg></tuv></tu>"
        for code, text in units
    )
    path = tmp_path / "m.tmx"
    path.write_text(f"<tmx version='1.4'><header/><body>{body}</body></tmx>")
    for language in ("zh", "zh-CN"):
        assert len(imported(path, target=language).pairs) == 3
        assert f"m.tmx: mixes regions or scripts of {language}: 2 in zh-CN, 1 in zh-TW" in capsys.readouterr().err
    files = "".join(
        f"<file source-language='en' target-language='{code}'><body><trans-unit><source>{text}</source><target>{text}"
        "</target></trans-unit></body></file>"
        for code, text in units
    )
    (tmp_path / "m.xlf").write_text(f"<xliff version='1.2'>{files}</xliff>")
    assert len(imported(tmp_path / "m.xlf", target="zh").pairs) == 3
    assert "m.xlf: mixes regions or scripts of zh: 2 in zh-CN, 1 in zh-TW" in capsys.readouterr().err


def test_rows_that_a_table_calls_unfinished_are_no_pairs(tmp_path):
    rows = "a,b,False\nc,d,True\ne,f,\ng,,True\n"
    (tmp_path / "t.csv").write_text(f"source,target,fuzzy\n{rows}")
    made = imported(tmp_path / "t.csv")
    assert made.pairs == [("a", "b"), ("e", "f")]
    assert made.report["skipped"] == {"unfinished (true)": 1, "empty target": 1}
    assert len(imported(tmp_path / "t.csv", with_unfinished=True).pairs) == 3


@pytest.mark.parametrize(
    ("header", "value", "is_pair"),
    [
        ("state", "needs-translation", False), ("state", "needs-review-translation", False),
        ("state", "translated", True), ("Status", "Not approved", False), ("Status", "pending", False),
        ("Status", "final", True),
        ("Approved", "no", False), ("Approved", "yes", True), ("fuzzy", "true", False), ("note", "new", True),
    ],
)  # fmt: skip
def test_the_state_of_a_row_is_told_by_a_column_or_a_field(tmp_path, header, value, is_pair):
    (tmp_path / "t.tsv").write_text(f"source\ttarget\t{header}\na b\tc d\t\nx y\tz w\t{value}\n")
    fields = {"source": "x y", "target": "z w", header: {"true": True}.get(value, value)}
    (tmp_path / "t.jsonl").write_text('{"source": "a b", "target": "c d"}\n' + json.dumps(fields) + "\n")
    for name in ("t.tsv", "t.jsonl"):
        made = imported(tmp_path / name)
        assert made.pairs == [("a b", "c d"), ("x y", "z w")][: 1 + is_pair]
        assert made.report["skipped"] == ({} if is_pair else {f"unfinished ({value.lower()})": 1})
        assert len(imported(tmp_path / name, with_unfinished=True).pairs) == 2


def test_unfinished_objects_are_taken_without_a_warning_if_asked_for(tmp_path, capsys):
    (tmp_path / "t.jsonl").write_text('{"en": "One", "fr": "Un", "fuzzy": true}\n{"en": "Two", "fr": "Deux"}\n')
    assert imported(tmp_path / "t.jsonl").pairs == [("Two", "Deux")]
    assert len(imported(tmp_path / "t.jsonl", with_unfinished=True).pairs) == 2
    assert "does nothing" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "source_lang\ttarget_lang\tsource\ttarget\nen\tfr\tYes.\tOui.\nen\tde\tNo.\tNein.\n"),
        ("a.csv", "q,s,source,target\nYes.,Oui.,eng,fra\nNo.,Nein.,eng,deu\n"),
        ("a.csv", "English,French,Yes.,Oui.\nGerman,French,Nein.,Non.\nEnglish,German,No.,Nein.\n"),
        (
            "a.jsonl",
            '{"source": "Yes.", "target": "Oui.", "to": "fr"}\n{"source": "No.", "target": "Nein.", "to": "de"}',
        ),
    ],
)
def test_a_row_that_names_other_languages_is_no_pair(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    made = imported(tmp_path / name)
    assert made.pairs == [("Yes.", "Oui.")]
    assert made.report["skipped"]["in other languages, as another column says"] >= 1


def test_codes_of_languages_are_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": "Yes.", "s": "Oui.", "source": "en", "target": "fr"}\n')
    with pytest.raises(InputError, match=r"cannot tell which fields are en and fr.* --columns q,s; or --columns s,q"):
        imported(tmp_path / "a.jsonl")
    (tmp_path / "a.tsv").write_text("1\teng\tYes.\n2\tfra\tOui.\n3\tkab\tIh.\n4\teng\tNo.\n" * 9)
    made = import_pairs(
        [str(tmp_path / "a.tsv")], str(tmp_path / "made"), Settings(Languages("en", "en"), is_single=True)
    )
    assert made.source.read_text().split("\n")[:3] == ["Yes.", "No.", "Yes."]


def test_articles_that_are_codes_of_languages_are_no_languages(tmp_path):
    (tmp_path / "a.csv").write_text("el,perro,dog\nla,casa,house\nel,gato,cat\n")
    assert imported(tmp_path / "a.csv", source="es", target="en").pairs[0] == ("perro", "dog")
