"""`nmt import --lang`: the text in one language from every format; and a directory of files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from importing_here import imported

from nmt_cli.assembly.imported_pairs import import_pairs, languages_of
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import Settings
from nmt_cli.system.errors import InputError

PO = 'msgid ""\nmsgstr ""\n"Language: fr\\n"\n\nmsgid "a dog"\nmsgstr "un chien"\n\n#, fuzzy\nmsgid "b"\nmsgstr "c"\n'
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="fr"><body><trans-unit><source>a dog</source>'
    "<target>un chien</target></trans-unit><trans-unit><source>b</source></trans-unit></body></file></xliff>"
)
TMX = (
    "<tmx version='1.4'><header/><body><tu><tuv xml:lang='en-GB'><seg>a dog</seg></tuv><tuv xml:lang='fr'><seg>un chien"
    "</seg></tuv></tu><tu><tuv xml:lang='fr'><seg>c</seg></tuv></tu></body></tmx>"
)
ROLLING = "WEBVTT\n" + "".join(
    f"\n00:0{n}.000 --> 00:0{n}.900\n{text}\n" for n, text in enumerate(["a dog", "a dog\nis here", "is here"])
)
PAGE = "<html><p>a <i>red</i>\n dog</p><img alt='b'><nav><a>C d</a> <a>E</a></nav></html>"


def lines(path: Path, lang: str = "en", **settings: str | None) -> list[str]:
    made = import_pairs(
        [str(path)], str(path.parent / "made"), Settings(Languages(lang, lang), is_single=True, **settings)
    )
    values = json.loads(made.report.read_text())
    found = made.source.read_text().splitlines()
    assert (made.source.name, values["pairs"]) == (f"made.{lang}", len(found))
    made.source.unlink()
    made.report.unlink()
    return found


@pytest.mark.parametrize(
    ("name", "content", "lang", "found"),
    [
        ("a.txt", "a dog\r\n\r\nb\r\n", "en", ["a dog", "b"]),
        ("a.po", PO, "en", ["a dog", "b"]),
        ("a.po", PO, "fr", ["un chien"]),
        ("a.xlf", XLIFF, "en", ["a dog", "b"]),
        ("a.xlf", XLIFF, "fr", ["un chien"]),
        ("a.tmx", TMX, "en", ["a dog"]),
        ("a.tmx", TMX, "fr", ["un chien", "c"]),
        ("a.html", PAGE, "en", ["a red dog", "b", "C d", "E"]),
        ("a.html", "<p>a dog</p><p lang=fr>un chien</p>", "en", ["a dog"]),
        ("a.srt", "1\n00:01,000 --> 00:02,000\na <i>dog</i>\nb\n", "en", ["a dog b"]),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\na &amp; b\n", "en", ["a & b"]),
        ("a.vtt", ROLLING, "en", ["a dog", "is here"]),
        ("a.csv", "english;french\na dog;un chien\nb;c\n", "fr", ["un chien", "c"]),
        ("a.tsv", "1\ta dog\n2\tb dog\n", "en", ["a dog", "b dog"]),
        ("a.jsonl", '{"text": "a dog", "id": "x"}\n{"text": 1}\n', "en", ["a dog"]),
        ("a.jsonl", '{"translation": {"en": "a dog", "fr": "un chien"}}\n', "fr", ["un chien"]),
    ],
)
def test_every_format_gives_the_text_in_one_language(tmp_path, name, content, lang, found):
    (tmp_path / name).write_text(content)
    assert lines(tmp_path / name, lang) == found
    (tmp_path / name).write_bytes(content.encode("utf-16"))
    assert lines(tmp_path / name, lang) == found
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    assert lines(tmp_path / f"{name}.gz", lang) == found


def test_a_column_of_a_spreadsheet_or_a_table_is_a_text(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Text"], ["a dog"], ["b cat"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert lines(tmp_path / "a.xlsx")[-2:] == ["a dog", "b cat"]
    (tmp_path / "a.tsv").write_text("a dog\tun chien\nb cat\tun chat\n")
    with pytest.raises(InputError, match=r"cannot tell which column is en\. .*: --columns 1; or --columns 2"):
        lines(tmp_path / "a.tsv")
    assert lines(tmp_path / "a.tsv", columns="2") == ["un chien", "un chat"]


def test_a_document_without_the_language_is_refused(tmp_path):
    (tmp_path / "a.xlf").write_text(XLIFF)
    with pytest.raises(InputError, match=r"a\.xlf:1: translates from en to fr, and has no text in de"):
        lines(tmp_path / "a.xlf", "de")
    (tmp_path / "a.tmx").write_text(TMX)
    with pytest.raises(
        InputError, match=r"a\.tmx: has no segment in de; the languages in it are en-GB \(1 units\), fr"
    ):
        lines(tmp_path / "a.tmx", "de")


@pytest.mark.parametrize("given", [("en", None, None), (None, None, None), ("en", "fr", "en"), (None, "fr", "en")])
def test_one_language_or_two_have_to_be_given(given):
    with pytest.raises(InputError, match="give --source-lang XX and --target-lang YY, or --lang XX"):
        languages_of(*given)
    assert languages_of(None, None, "en") == Languages("en", "en")


def test_a_directory_stands_for_the_files_in_it(tmp_path, capsys):
    folder = tmp_path / "all"
    (folder / "more").mkdir(parents=True)
    (folder / "more" / "a.en.txt").write_text("one dog\n")
    (folder / "more" / "a.fr.txt").write_text("un chien\n")
    (folder / "b.po").write_text(PO)
    (folder / "README.txt").write_text("All about dogs.\n")
    (folder / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (folder / ".hidden.po").write_text(PO.replace("a dog", "no"))
    made = import_pairs([str(folder)], str(tmp_path / "made"), Settings(Languages("en", "fr")))
    assert sorted(made.source.read_text().splitlines()) == ["a dog", "one dog"]
    said = capsys.readouterr().err
    assert "README.txt: is text in one language, and its path does not name en or fr" in said
    assert "c.png: is a picture" in said
    one = import_pairs([str(folder)], str(tmp_path / "one"), Settings(Languages("fr", "fr"), is_single=True))
    assert sorted(one.source.read_text().splitlines()) == ["All about dogs.", "un chien", "un chien"]
    for path in made:
        path.unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file in this directory can be imported"):
        imported(tmp_path / "empty")
