"""Files that were made to be slow are read in linear time. Each case was seen to take the square of its length."""

from __future__ import annotations

import pytest

from nmt_cli.documents.document import translate_document
from nmt_cli.documents.sentences import splitter
from nmt_cli.formats import encoding, recognise, report, subtitle_pairs
from nmt_cli.formats.opening import Input
from nmt_cli.formats.subtitle_pairs import Cue
from nmt_cli.system.errors import InputError
from nmt_cli.translation.results import Translation

pytestmark = pytest.mark.timeout(60)
PLURAL = (
    'msgid ""\nmsgstr "Language: ru\\nPlural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && '
    'n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\\n"\n\nmsgid "{0}"\nmsgid_plural "{0}s"\nmsgstr[0] ""\n'
)


def unchanged(lines):
    return [Translation(line, 0.0, 0.0) for line in lines]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.xlf", "<xliff>" + "<?" * 500_000),
        ("a.xlf", "<xliff>" + "<!--" * 500_000),
        ("a.xlf", "<xliff>" + "<![CDATA[" * 200_000),
        ("a.html", "<p>dog</p>" + "<!--" * 500_000),
        ("a.html", "<p>dog</p>" + "<!" * 500_000),
        ("a.po", PLURAL.format("%" + "0" * 100_000 + "!")),
        ("a.po", '#, lisp-format\nmsgid "dog ' + "~'" * 100_000 + '"\nmsgstr ""\n'),
    ],
)
def test_documents_are_read_or_refused_soon(name: str, text: str):
    try:
        translate_document(name, text.encode(), unchanged, splitter("en"), target_lang="ru")
    except InputError as error:
        assert name in str(error)  # noqa: PT017 (some are refused, others are read)


def test_a_declaration_of_blanks_and_an_attribution_of_blanks_are_read_soon():
    assert recognise.xml_format("<!DOCTYPE" + " " * 1_000_000) is None
    assert recognise.xml_format('<!DOCTYPE tmx SYSTEM "a" [ <!ENTITY a "b"> ] >\n<tmx version="1.4">') == "TMX"
    blanks = "CC-BY 2.0" + " " * 200_000
    assert report._CONTRIBUTOR.findall(f"{blanks}#1 (Tom) & #2 (Ann)") == ["Tom", "Ann"]
    assert report._CONTRIBUTOR.findall(blanks) == []


def test_cues_without_an_end_are_left_out_soon():
    def cue(begin: float, end: float) -> Cue:
        return Cue(1, begin, end, "a")

    endless = [cue(n, 360_000.0) for n in range(20_000)]
    short = [cue(n, float(n)) for n in range(20_000)]
    found = report.ImportReport()
    assert len(subtitle_pairs._drop_long_cues(endless, short, "a.srt", found)) <= subtitle_pairs.MAX_GROUP


def test_a_very_long_line_is_looked_at_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("é".encode() * 8_000_000 + b"\xff")
    num_valid, sample = encoding._invalid_lines(Input(str(path)))
    assert num_valid < 50
    assert sample.endswith(b"\xff\n")
