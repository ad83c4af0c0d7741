"""The encoding and the line ends of a text are found, reported, and never guessed where two could be meant."""

import codecs

import pytest
from importing_here import imported

from nmt_cli.formats import encoding
from nmt_cli.formats.opening import Input
from nmt_cli.formats.recognise import misread_lines, utf16_encoding, xml_format
from nmt_cli.system.errors import InputError

TEXTS = {
    "fr": ["Où est la gare ?", "Il a très faim à Noël.", "« Ça va ? » dit-elle.", "C’était l’été dernier."],
    "de": ["Schöne Grüße aus Köln!", "Das weiß ich nicht.", "Wir müssen über die Brücke.", "Ein größeres Haus."],
    "es": ["¿Dónde está el niño?", "Mañana será otro día.", "¡Qué sorpresa!", "El corazón es pequeño."],
    "zh": ["我们明天去北京。", "你好，世界！", "这是一只红色的猫。", "他不在这里。"],
    "ja": ["猫はどこですか。", "私は学生です。", "明日、東京へ行きます。", "ありがとうございます。"],
    "ko": ["안녕하세요.", "고양이는 어디에 있습니까?", "저는 학생입니다.", "내일 만나요."],
    "ru": ["Где находится вокзал?", "Я не знаю этого.", "Большая красная дверь.", "Завтра будет новый день."],
    "pl": ["Gdzie jest dworzec?", "Nie wiem, co się stało.", "Zażółć gęślą jaźń.", "Jutro będzie nowy dzień."],
    "el": ["Πού είναι ο σταθμός;", "Δεν ξέρω.", "Αύριο θα είναι μια νέα μέρα.", "Ένα μεγάλο σπίτι."],
    "vi": ["Tôi là sinh viên.", "Con mèo ở đâu?", "Ngày mai chúng ta sẽ đi.", "Cảm ơn bạn rất nhiều."],
}
CASES = [
    *((encoding, language) for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32") for language in TEXTS),
    *((encoding, language) for encoding in ("utf-16-le", "utf-16-be") for language in ("fr", "de", "pl")),
    *(("cp1252", language) for language in ("fr", "de", "es")),
    ("latin-1", "de"), ("latin-1", "es"), ("gb18030", "zh"), ("gbk", "zh"), ("big5", "zh"), ("shift_jis", "ja"),
    ("euc_jp", "ja"), ("cp949", "ko"), ("cp1251", "ru"), ("koi8_r", "ru"), ("cp1250", "pl"), ("cp1253", "el"),
    ("iso2022_jp", "ja"), ("iso2022_kr", "ko"),
]  # fmt: skip
BIG5 = ["我們明天去北京。", "你好，世界！", "這是一隻紅色的貓。", "他不在這裡。"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("encoding", "language"), CASES)
def test_a_text_is_read_in_its_encoding(tmp_path, encoding, language, line_end):
    lines = BIG5 if encoding == "big5" else TEXTS[language]
    english = [f"Sentence {number}." for number in range(len(lines))]
    (tmp_path / "a.en").write_text("\n".join(english), encoding="utf-8")
    (tmp_path / f"a.{language}").write_bytes((line_end.join(lines) + line_end).encode(encoding))
    made = imported(tmp_path / "a.en", tmp_path / f"a.{language}", target=language)
    assert made.pairs == list(zip(english, lines, strict=True))
    reported = codecs.lookup(made.report["inputs"][0]["encodings"][1])
    assert lines[0].encode(reported.name).decode(encoding.removesuffix("-sig")).lstrip("\ufeff") == lines[0]


def test_a_western_text_with_a_c1_control_is_latin_1(tmp_path):
    (tmp_path / "a.en").write_bytes(b"a\nb\nc\n")
    (tmp_path / "a.fr").write_bytes("\x81été\nnoël\nça".encode("latin-1"))
    assert imported(tmp_path / "a.en", tmp_path / "a.fr").report["encoding"] == "UTF-8, Latin-1"


def test_an_encoding_in_doubt_is_refused_with_the_options_that_settle_it(tmp_path):
    (tmp_path / "a.en").write_bytes(b"a\n")
    (tmp_path / "a.fr").write_bytes(b"\xb3\xb9\xa4\xa6\n")
    with pytest.raises(
        InputError, match=r"a\.fr: is not UTF-8, and its encoding is not certain.*--encoding cp1252; or"
    ):
        imported(tmp_path / "a.en", tmp_path / "a.fr")
    assert imported(tmp_path / "a.en", tmp_path / "a.fr", encoding="cp1250").report["pairs"] == 1


@pytest.mark.parametrize(("encoding", "english"), [("cp1251", "a “b”"), ("cp1251", "Ш, ©"), ("utf-16", "été")])
def test_an_encoding_for_two_files_is_not_that_of_a_file_in_utf_8(tmp_path, capsys, encoding, english):
    (tmp_path / "a.en").write_text(f"{english}\n", encoding="utf-8")
    (tmp_path / "a.ru").write_bytes("Большая дверь.\n".encode(encoding))
    made = imported(tmp_path / "a.en", tmp_path / "a.ru", target="ru", encoding=encoding)
    assert made.pairs == [(english, "Большая дверь.")]
    assert made.report["encoding"] == f"UTF-8, {encoding}"
    err = capsys.readouterr().err
    assert f"a.en: is valid UTF-8 and is read so, not as --encoding {encoding} says" in err
    assert err.count("--encoding") == 1


def test_a_table_in_utf_8_is_read_in_the_encoding_that_is_asked_for_with_a_warning(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("Christmas\tnoël\n", encoding="utf-8")
    assert imported(tmp_path / "a.tsv", encoding="latin1").pairs == [("Christmas", "noÃ«l")]
    told = "a.tsv: is valid UTF-8, but is read as --encoding latin1 says; leave it out if characters come out wrong"
    assert told in capsys.readouterr().err
    (tmp_path / "a.tsv").write_text("Christmas\tnoël\n", encoding="latin1")
    assert imported(tmp_path / "a.tsv", encoding="latin1").pairs == [("Christmas", "noël")]
    assert "warning" not in capsys.readouterr().err


def test_few_broken_lines_do_not_make_another_encoding_of_utf_8(tmp_path):
    french = [b"\xc3\xa9t\xc3\xa9 %d" % number for number in range(40)]
    french[7] = b"\xe9t\xe9"
    (tmp_path / "a.en").write_bytes(b"".join(b"summer %d\n" % number for number in range(40)))
    (tmp_path / "a.fr").write_bytes(b"\n".join(french))
    made = imported(tmp_path / "a.en", tmp_path / "a.fr")
    assert (len(made.pairs), made.report["encoding"]) == (39, "UTF-8")
    assert made.report["skipped"] == {"not valid in its encoding": 1}
    assert made.report["skipped_places"]["not valid in its encoding"][0].endswith("a.en:8")


@pytest.mark.parametrize("end", ["\n\x1a", "\x1a", "\r\n\x1a\x1a"])
def test_the_mark_of_dos_at_the_end_of_a_file_is_no_text(tmp_path, end):
    (tmp_path / "t.tsv").write_text(f"Hello\tBonjour\nSee you\tÀ bientôt{end}", newline="")
    (tmp_path / "a.en").write_text(f"Hello\nSee you{end}", newline="")
    (tmp_path / "a.fr").write_text("Bonjour\nÀ bientôt\n")
    pairs = [("Hello", "Bonjour"), ("See you", "À bientôt")]
    assert imported(tmp_path / "t.tsv").pairs == imported(tmp_path / "a.en", tmp_path / "a.fr").pairs == pairs


@pytest.mark.parametrize("table", [True, False])
def test_a_zero_byte_costs_its_line(tmp_path, table):
    lines = [f"The line {number}" for number in range(99)]
    english, french = [*lines, "Where \0 is it?", "The end"], [*lines, "Où est-ce ?", "Fin"]
    if table:
        paths = [tmp_path / "t.tsv"]
        paths[0].write_text("".join(f"{one}\t{other}\n" for one, other in zip(english, french, strict=True)))
    else:
        paths = [tmp_path / "a.en", tmp_path / "a.fr"]
        for path, text in zip(paths, (english, french), strict=True):
            path.write_text("\n".join(text))
    made = imported(*paths)
    assert made.pairs == [*zip(lines, lines, strict=True), ("The end", "Fin")]
    assert made.report["skipped_places"] == {"a zero byte, which is no text": [f"{paths[0]}:100"]}


@pytest.mark.parametrize("declared", ["ISO-8859-1", "windows-1252", "KOI8-R", "UTF-8"])
def test_a_stray_byte_does_not_let_utf_8_be_what_it_declares(tmp_path, capsys, declared):
    header = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={declared}\\n"\n\n'.encode()
    french = {"One": "déjà", "Three": "près"}
    messages = "".join(f'msgid "{one}"\nmsgstr "{other}"\n\n' for one, other in french.items()).encode()
    (tmp_path / "a.po").write_bytes(header + b"# Jos\xe9\n" + messages)
    assert imported(tmp_path / "a.po").pairs == list(french.items())
    assert (declared != "UTF-8") == (f"declares the encoding {declared}, but is in UTF-8" in capsys.readouterr().err)


def test_a_carriage_return_within_a_line_becomes_a_space(tmp_path):
    english = [f"line {number}" for number in range(50)]
    (tmp_path / "a.en").write_text("\n".join(english), encoding="utf-8")
    (tmp_path / "a.fr").write_bytes("\n".join([*english[:7], "lig\rne", *english[8:]]).encode())
    made = imported(tmp_path / "a.en", tmp_path / "a.fr")
    assert made.pairs[7] == ("line 7", "lig ne")
    assert (made.report["pairs"], made.report["pairs_with_joined_lines"]) == (50, 1)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("a\nb".encode("utf-16"), "UTF-16"),
        ("你好".encode("utf-16"), "UTF-16"),
        ("some words\n".encode("utf-16-le"), "UTF-16-LE"),
        (b"\xff\xfe broken \xc3\nand a line\n", None),
        (b"\xff\x00\n", None),
        (b"a\0b\0c\n" * 9, None),
        (b"\0" * 99, None),
        (b"", None),
    ],
)
def test_utf_16_is_told_from_lines_of_arbitrary_bytes(head, encoding):
    assert utf16_encoding(head) == encoding


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"one\rtwo\rthree\r", "CR"),
        (b"one\rtwo\rthree\n", "CR"),
        (b"one\r\ntwo\r\n", None),
        (b"one\r\n", None),
        (b"one\r", "CR"),
        (b"a\rb\nc\n", None),
        (b"caf\xe9\nth\xe9\nno\nno\n", "encoding"),
        (b"no\n" * 99 + b"caf\xe9\n" * 3, "encoding"),
        (b"no\n" * 99 + b"caf\xe9\n", None),
        ("é\n".encode() * 9 + b"caf\xe9\n" * 9, None),
        ("é\n".encode(), None),
    ],
)
def test_lines_that_training_would_misread_are_told_from_single_broken_ones(head, what):
    found = misread_lines(head)
    assert (None if found is None else found.cause) == what


@pytest.mark.parametrize("instruction", ["<?php the_title(); ?>", '<?xml version="1.0"?>', "<!DOCTYPE a [b]>"])
def test_many_instructions_are_read_once(instruction):
    """In a time that doubled with each, this test would never end."""
    assert xml_format(f"{instruction}\n" * 200 + "Hello world.") is None
    assert xml_format(f"{instruction}\n" * 200 + "<tmx version='1.4'>") == "TMX"


def test_bytes_of_characters_that_a_catalogue_escapes_are_these_characters(tmp_path):
    path = tmp_path / "a.po"
    path.write_bytes(
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        b'msgid "coffee"\nmsgstr "caf\\303\\251 noir"\n\nmsgid "tea"\nmsgstr "th\\xc3\\xa9 \\101"\n'
    )
    assert imported(path).pairs[0] == ("coffee", "café noir")
    assert imported(path).pairs[1][1].startswith("thé")


def test_a_line_of_the_greatest_length_is_read_and_a_longer_one_refused(monkeypatch):
    """Seen to be refused at the greatest length, as longer than it."""
    monkeypatch.setattr(encoding, "MAX_LINE_CHARACTERS", 5)

    def lines(text):
        facts = encoding.TextFacts("UTF-8", "utf-8", "LF")
        return list(encoding.read_lines(Input("a.txt", data=text.encode()), facts))

    assert lines("abcd\nabcde") == ["abcd\n", "abcde"]
    with pytest.raises(InputError, match=r"a\.txt:2: the line is longer than 5 characters"):
        lines("abc\nabcdef\n")
