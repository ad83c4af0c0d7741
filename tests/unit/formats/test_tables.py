"""Tables: which columns are the two sides, which quotes are text, and which rows cannot be read."""

import bz2
import json
from unicodedata import normalize

import pytest
from importing_here import imported

from nmt_cli.formats.recognise import suspected_format, text_format
from nmt_cli.system.errors import InputError

PAIRS = [
    ("The cat is here.", "Le chat est ici."), ("You have it.", "Vous avez ça."), ("I am not old.", "Je suis ici."),
    ("What do you want?", "Que voulez-vous ?"), ("She is with him.", "Elle est avec lui."),
]  # fmt: skip


def tsv(directory, rows, name="t.tsv"):
    path = directory / name
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
    return path


def test_tatoeba_with_numbers_and_attribution(tmp_path):
    rows = [(str(i), s, str(i + 9), t, f"CC-BY 2.0 (France) Attribution: tatoeba.org #{i} (CK) & #{i} (sacredceltic)")
            for i, (s, t) in enumerate(PAIRS)]  # fmt: skip
    made = imported(tsv(tmp_path, rows))
    assert made.pairs == PAIRS
    assert made.report["inputs"][0]["columns"] == [2, 4]
    assert made.report["attribution"] == {
        "texts": {"CC-BY 2.0 (France) Attribution: tatoeba.org": 5}, "contributors": {"CK": 5, "sacredceltic": 5},
    }  # fmt: skip


def test_the_sides_are_found_by_their_words_or_by_the_header(tmp_path):
    swapped = [(target, source) for source, target in PAIRS]
    assert imported(tsv(tmp_path, swapped)).pairs == PAIRS
    assert imported(tsv(tmp_path, [("fr", "en"), ("x", "y")])).pairs == [("y", "x")]
    assert imported(tsv(tmp_path, [("Target text", "Source text"), ("x", "y")])).pairs == [("y", "x")]
    assert imported(tsv(tmp_path, [("text_fr", "id", "text_en"), ("x", "7", "y")])).pairs == [("y", "x")]
    assert imported(tsv(tmp_path, swapped), columns="1,2").pairs == swapped
    assert imported(tsv(tmp_path, [("a", "b", "c")] * 3), columns="3,1").pairs == [("c", "a")] * 3


@pytest.mark.parametrize("first", [("Free text", "Texte libre"), ("Plain text", "Text"), ("line 1 text", "text 1")])
@pytest.mark.parametrize("columns", [None, "1,2"])
def test_a_pair_with_a_word_of_headers_is_no_header(tmp_path, first, columns):
    rows = [first, *PAIRS]
    made = imported(tsv(tmp_path, rows), columns=columns)
    assert (made.pairs, made.report["inputs"][0]["header_row"]) == (rows, False)


def test_a_pair_that_is_the_same_word_twice_is_no_header(tmp_path):
    rows = [("OK", "OK"), ("a small dog", "一只小狗在这里"), ("a red house", "一座红色的房子")]
    (tmp_path / "t.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    assert imported(tmp_path / "t.tsv", target="zh").pairs == rows


def test_words_that_are_codes_of_languages_twice_are_no_header(tmp_path):
    rows = [("no", "no"), ("house", "casa"), ("red", "rojo")]
    assert imported(tsv(tmp_path, rows), target="es").pairs == rows


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("en,fr\nHello\rthere,Bonjour\nBye,Salut\n", [("Hello there", "Bonjour"), ("Bye", "Salut")]),
        ('en,fr\n"Hello\rthere","Bonjour"\nBye,Salut\n', [("Hello there", "Bonjour"), ("Bye", "Salut")]),
        ("en,fr\nHello,Bonjour\rBye,Salut\nYes,Oui\n", [("Hello", "Bonjour"), ("Bye", "Salut"), ("Yes", "Oui")]),
        (
            'en,fr\r"Hi\nyou","Salut\ntoi"\rBye,Adieu\rYes,Oui\n',
            [("Hi you", "Salut toi"), ("Bye", "Adieu"), ("Yes", "Oui")],
        ),
        ('en,fr\n"x\ry",z\rA cat,Un chat\nB cat,Le chat\n', [("x y", "z"), ("A cat", "Un chat"), ("B cat", "Le chat")]),
        ("en,fr\nOne\rtwo\rthree,Un\rdeux\nYes,Oui\n", [("Yes", "Oui")]),
    ],
)
def test_a_lone_carriage_return_is_a_blank_or_parts_whole_rows(tmp_path, text, pairs):
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert imported(tmp_path / "t.csv").pairs == pairs


def test_the_sides_are_found_by_their_words_in_decomposed_text_too(tmp_path):
    english = ["He is not here.", "I do not know.", "What is that?", "The house is big."]
    vietnamese = ["Anh ấy không có ở đây.", "Tôi không biết.", "Đó là cái gì?", "Tôi có một ngôi nhà của tôi."]
    rows = [(normalize("NFD", text), other) for text, other in zip(vietnamese, english, strict=True)]
    assert imported(tsv(tmp_path, rows), target="vi").pairs == [row[::-1] for row in rows]


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([("a b", "c", "d")] * 3, {}, r"cannot tell which two columns are meant \(1: 'a b'; .* 1,2; or --columns 1,3"),
        ([("a b", "1")] * 3, {}, r"cannot tell which two columns are meant \(1: 'a b'; .* 1,2; or --columns 2,1$"),
        ([("German", "French"), ("a", "b")], {}, "the header row names German, French, not en and fr"),
        ([("a", "b")], {"columns": "1,3"}, "--columns 1,3: .*t.tsv has no column 3; there are 2"),
        ([("a", "b")], {"columns": "2"}, "--columns 2: give two columns, source first, such as --columns 1,2"),
        ([("en", "fr"), ("a", "b")], {"columns": "en,Deutsch"}, "has no column Deutsch; the columns are en, fr"),
        ([("en", "fr"), ("a", "b")], {"columns": "en,1"}, "--columns en,1: both are column 1 of .*t.tsv; give two"),
        ([("a", "b")], {"columns": "1,01"}, "--columns 1,01: both are column 1 of .*t.tsv; give two columns, source"),
        ([("Question", "b")], {"columns": "Question,c"}, "has no column Question; there are 2"),
        ([("abc",)], {}, "t.tsv: has one column only"),
        ([("a;b",), ("c;d",)], {}, "If the sign ; separates its columns, add --separator ';'"),
        ([("", ""), ("", "")], {}, "t.tsv: holds no rows"),
        ([("je", "the cat is not here"), ("the", "vous avez")], {}, "column 1 should be en and column 2 fr"),
    ],
)  # fmt: skip
def test_columns_in_doubt_are_refused_with_the_options_that_settle_it(tmp_path, rows, settings, message):
    with pytest.raises(InputError, match=message):
        imported(tsv(tmp_path, rows), **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["t.tsv"]


NO_VALUES = (
    "#N/A", "#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", r"\N", " #N/A ", "N/A", "<NA>", "#####",
    "#ERROR!", "#SPILL!", "Err:508", "#NOM?", "#NV", "#BEZUG!", "#N/D", "#¡REF!", "#ССЫЛКА!",
)  # fmt: skip


@pytest.mark.parametrize("value", NO_VALUES)
def test_a_cell_that_stands_for_a_missing_value_is_empty(tmp_path, value):
    (tmp_path / "t.csv").write_text(f"en,fr\na,b\nc,{value}\n{value},d\n#1!,{value[1:]}x\n#Yes!,f\n", encoding="utf-8")
    made = imported(tmp_path / "t.csv")
    assert [source for source, _ in made.pairs] == ["a", "#1!", "#Yes!"]
    assert made.report["skipped"] == {"empty target": 1, "empty source": 1}


def test_quotes_of_speech_are_text_and_quotes_of_a_spreadsheet_are_not(tmp_path):
    spoken = [('"Stop!"', "« Stop ! »"), ('"Hi," he said.', 'Il a dit "salut"'), ('a "b"', '"c" d')]
    assert imported(tsv(tmp_path, spoken)).pairs == spoken
    written = [('"He said ""stop""."', "x"), ('"two\nlines"', '"tab\there"'), ("plain", "words")]
    made = imported(tsv(tmp_path, written))
    assert made.pairs == [('He said "stop".', "x"), ("two lines", "tab\there"), ("plain", "words")]
    assert made.report["inputs"][0]["quoted_cells"] is True


def test_notes_exported_from_anki(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(
        "#separator:tab\n#html:true\n#tags column:3\nHello<br>you &amp; me\t<b>Salut</b>\ttag\nOne\tUn\t\n", "utf-8"
    )
    assert imported(path).pairs == [("Hello you & me", "Salut"), ("One", "Un")]


def test_rows_that_are_not_like_the_others_are_counted_and_not_shifted(tmp_path):
    rows = [*PAIRS, ("one",), ("a", "b", "c"), ("", "x"), ("x", " "), (" ", ""), ("",), ("last", "dernier")]
    made = imported(tsv(tmp_path, rows))
    assert made.pairs == [*PAIRS, ("last", "dernier")]
    assert made.report["skipped"] == {
        "one cell only": 1, "more cells than the other rows: a separator in the text": 1, "empty source": 1,
        "empty target": 1, "empty on both sides": 1,
    }  # fmt: skip
    assert made.report["notes"] == {"blank lines": 1}


def test_rows_with_more_cells_than_the_header_are_counted_and_not_shifted(tmp_path):
    rows = [("en", "fr"), ("1", "the house", "la maison"), ("2", "the dog", "le chien"), ("a", "b"), ("c", "d", "")]
    made = imported(tsv(tmp_path, rows))
    assert made.pairs == [("a", "b"), ("c", "d")]
    assert made.report["skipped"] == {
        "more cells than the header row: a column without a name, or a separator in the text": 2
    }
    assert imported(tsv(tmp_path, rows[:3]), columns="2,3").pairs == [row[1:] for row in rows[1:3]]


@pytest.mark.parametrize("columns", ["Question,Answer", "Question,3", "1,Answer"])
def test_columns_of_any_names_are_asked_for(tmp_path, columns):
    rows = [("Question", "Nr", "Answer"), ("a", "1", "b")]
    assert imported(tsv(tmp_path, rows), columns=columns).pairs == [("a", "b")]


@pytest.mark.parametrize("columns", [None, "3,5"])
def test_columns_of_language_codes_are_neither_a_header_row_nor_text(tmp_path, columns):
    rows = [(str(number), "eng", source, "fra", target) for number, (source, target) in enumerate(PAIRS)]
    for table in (rows, [*rows[:3], ("9", "", "the dog", "", "le chien"), *rows[3:]]):
        made = imported(tsv(tmp_path, table), columns=columns)
        assert made.pairs == [(row[2], row[4]) for row in table]
        assert made.report["inputs"][0]["columns"] == [3, 5]
        assert made.report["inputs"][0]["header_row"] is False
    with pytest.raises(InputError, match=r"--columns eng,fra: .*t\.tsv has no column eng; there are 5"):
        imported(tsv(tmp_path, rows), columns="eng,fra")


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_a_csv_with_any_separator_and_header(tmp_path, separator):
    path = tmp_path / "t.csv"
    path.write_bytes(
        f"id{separator}English{separator}French\r\n".encode()
        + f'1{separator}"a{separator} ""b""\r\nc"{separator}"d\ne"\r\n2{separator}x{separator}y\r\n'.encode()
    )
    made = imported(path)
    assert made.pairs == [(f'a{separator} "b" c', "d e"), ("x", "y")]
    assert made.report["inputs"][0]["separator"] == separator


@pytest.mark.parametrize(
    "table",
    [
        '"Yes, sure";"Oui, bien"\n"Yes, sure";"Oui, bien"\n',
        'English;French\n' + 'Yes, sure;"Oui,\nbien"\n' * 1500,  # the lines that are looked at end within a cell
    ],
)  # fmt: skip
def test_the_separator_is_one_with_which_the_quotes_are_right(tmp_path, table):
    (tmp_path / "t.csv").write_text(table, encoding="utf-8")
    made = imported(tmp_path / "t.csv")
    assert {*made.pairs} == {("Yes, sure", "Oui, bien")}
    assert made.report["inputs"][0]["separator"] == ";"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'en,fr\na,b\n"Hello" he said,c\n',
            r"t\.csv:3: a quoted cell begins in this line and does not end as it should",
        ),
        ('en,fr\na,b\n"never closed,c\n' + "x,y\n" * 300, r"t\.csv:3: a quoted cell"),
        ("no table\nhere\n", r"t\.csv: is not a table: no comma, semicolon, tab or vertical bar"),
    ],
)
def test_a_damaged_csv_is_refused_at_the_line(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        imported(tmp_path / "t.csv")


INDONESIAN = [("Good morning", "Selamat pagi"), ("Thank you", "Terima kasih")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "id,English,Indonesian\n1,Good morning,Selamat pagi\n2,Thank you,Terima kasih\n"),
        ("t.tsv", "en\tsentence id\tindonesian\nGood morning\t1\tSelamat pagi\nThank you\t2\tTerima kasih\n"),
        ("t.csv", "en,id\nGood morning,Selamat pagi\nThank you,Terima kasih\n"),
        (
            "t.jsonl",
            "".join(
                json.dumps({"id": f"a{i}", "en": e, "indonesian": n}) + "\n" for i, (e, n) in enumerate(INDONESIAN)
            ),
        ),
    ],
)
def test_an_id_is_the_language_only_where_nothing_else_is(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    made = imported(tmp_path / name, target="id")
    assert made.pairs == INDONESIAN


def test_a_column_of_numbers_is_not_norwegian(tmp_path):
    (tmp_path / "t.csv").write_text("No,English,Bokmaal\n1,Good morning,God morgen\n2,Thanks,Takk\n", encoding="utf-8")
    with pytest.raises(InputError, match="choose the columns, such as --columns 1,2"):
        imported(tmp_path / "t.csv", target="no")


def test_json_lines_whose_first_object_lacks_a_field(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"en": "a"}\n{"en": "b", "fr": "c"}\n', encoding="utf-8")
    for columns in (None, "en,fr"):
        made = imported(tmp_path / "t.jsonl", columns=columns)
        assert (made.pairs, made.report["skipped"]) == ([("b", "c")], {"the field fr is missing": 1})
    with pytest.raises(InputError, match="has no field 'x'; the fields are en, fr"):
        imported(tmp_path / "t.jsonl", columns="en,x")


@pytest.mark.parametrize("ends", ["\r\r\r", "\r\r\n", "\r\n\n", "\n\n\n"])
def test_json_lines_with_any_line_ends(tmp_path, ends):
    records = (json.dumps({"en": f"a{number}", "fr": f"b{number}"}) for number in range(3))
    text = "".join(record + end for record, end in zip(records, ends, strict=True))
    (tmp_path / "t.jsonl").write_bytes(text.encode())
    assert imported(tmp_path / "t.jsonl").pairs == [("a0", "b0"), ("a1", "b1"), ("a2", "b2")]


def test_json_lines_of_any_shape(tmp_path):
    for record in ({"source": "a", "target": "b"}, {"src": "a", "tgt": "b"}, {"id": 1, "en": "a", "fr": "b"},
                   {"translation": {"fr": "b", "en": "a"}}, {"text_en": "a", "text_fr": "b"}):  # fmt: skip
        (tmp_path / "t.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
        assert imported(tmp_path / "t.jsonl").pairs == [("a", "b")]
    (tmp_path / "t.jsonl").write_text('{"my own": "a", "q": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="--columns 'my own,q'; or --columns 'q,my own'"):
        imported(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text('{"p": "a", "q": "b"}\n{"p": "\\ud800", "q": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot tell which fields are en and fr.*: --columns p,q; or --columns q,p"):
        imported(tmp_path / "t.jsonl")
    for columns in ("p", "p,", "p,p", "p,q,p"):
        with pytest.raises(InputError, match=f"--columns {columns}: give two columns, source first"):
            imported(tmp_path / "t.jsonl", columns=columns)
    made = imported(tmp_path / "t.jsonl", columns="q,p")
    assert (made.pairs, made.report["skipped"]) == ([("b", "a")], {"not valid in its encoding": 1})


def test_a_damaged_archive_is_refused(tmp_path):
    path = tmp_path / "t.tsv.bz2"
    path.write_bytes(bz2.compress(b"a\tb\n" * 99_999)[:-20])
    with pytest.raises(InputError, match=r"t\.tsv\.bz2: the compressed data is damaged or cut off"):
        imported(path)


def test_a_line_of_brackets_is_text_and_no_endless_json():
    deep = b'{"a":' + b"[" * 3_000
    assert suspected_format(deep, "train.en") is None
    assert text_format(deep.decode() + "\nsome words\n", "train.en") == "text"


def test_files_in_folders_named_after_the_languages_are_paired_by_these(tmp_path):
    for folder, texts in (("en-fr/en", ("Yes.", "No.")), ("en-fr/fr", ("Oui.", "Non."))):
        (tmp_path / folder).mkdir(parents=True)
        for name, text in zip("ab", texts, strict=True):
            (tmp_path / folder / f"{name}.txt").write_text(f"{text}\n")
    paths = sorted(tmp_path.rglob("*.txt"))
    assert imported(*paths).pairs == imported(tmp_path).pairs == [("Yes.", "Oui."), ("No.", "Non.")]
    assert imported(paths[3], paths[1]).pairs == [("No.", "Non.")]
    (tmp_path / "c.txt").write_text("Oui.\n")
    with pytest.raises(InputError, match=r"en/a\.txt and \S*en/b\.txt: both are named as en"):
        imported(*paths[:3], tmp_path / "c.txt")


def test_a_text_named_after_a_third_language_is_refused(tmp_path):
    for name in ("c.de", "c.en"):
        (tmp_path / name).write_text("Ja.\n")
    with pytest.raises(InputError, match=r"c\.de: is named as de, not as en or fr"):
        imported(tmp_path / "c.de", tmp_path / "c.en")
