"""`nmt translate` of documents and paragraphs, with the real command line and a small model."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command_line import Result

PAGE = b"""<!DOCTYPE html>
<html lang="en">\r
<head><title>The red car</title><script>if (a < b) { "<p>the dog</p>" }</script></head>
<body><!-- the dog -->
<p class="the dog">The <b>dog</b> sleeps &amp; eats. They have <code>the_keys()</code>.</p>
<img src="dog.png" alt="the dog"><p translate="no">the dog</p>
</body></html>
"""
CATALOGUE = b"""msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

#, c-format
msgid "the %d dogs have %s"
msgstr ""

#, python-format
msgid "%(n)d dog"
msgid_plural "%(n)d dogs of {name}"
msgstr[0] ""
msgstr[1] ""

msgid "the cat"
msgstr "le chat"
"""
CUES = b"1\n00:00:01,000 --> 00:00:03,000\nThe red dog\n\n2\n00:00:03,000 --> 00:00:05,000\nis in the\n<i>garden</i>.\n"
UNITS = b"""<?xml version="1.0"?>
<xliff version="1.2"><file source-language="en"><body>
<trans-unit id="1"><source>The <g id="1">dog</g> has {n, plural, one {# key} other {# keys}}.</source></trans-unit>
</body></file></xliff>
"""


def test_a_page_is_translated_in_place(nmt, model: Path, tmp_path: Path):
    page, out = tmp_path / "page.html", tmp_path / "page.fr.html"
    page.write_bytes(PAGE)
    result: Result = nmt("translate", page, "-o", out, "--model", model, "--beam-size", "2", "--precision", "int8")
    assert result.code == 0, result.err
    assert result.out == b""
    text = re.compile(rb"<title>.*?</title>|<p class.*?</p>|alt=\".*?\"| lang=\"..\"", re.S)
    assert text.sub(b"", out.read_bytes()) == text.sub(b"", PAGE)
    assert b'<html lang="fr">\r\n' in out.read_bytes()
    assert out.read_bytes().count(b"<code>the_keys()</code>") == out.read_bytes().count(b"<b>") == 1
    assert "page.html: 3 texts, 4 sentences" in result.err
    assert page.read_bytes() == PAGE


def test_a_compressed_document_is_unpacked_and_its_translation_packed(nmt, model: Path, tmp_path: Path):
    (tmp_path / "a.html").write_bytes(PAGE)
    (tmp_path / "b.html.gz").write_bytes(gzip.compress(PAGE))
    assert nmt("translate", tmp_path / "a.html", "--model", model, "-o", tmp_path / "c.html").code == 0
    result = nmt("translate", tmp_path / "b.html.gz", "--model", model, "-o", tmp_path / "d.html.gz")
    assert result.code == 0, result.err
    assert gzip.decompress((tmp_path / "d.html.gz").read_bytes()) == (tmp_path / "c.html").read_bytes()


def test_a_catalogue_passes_msgfmt_and_keeps_what_is_translated(nmt, model: Path, tmp_path: Path):
    source, out = tmp_path / "a.po", tmp_path / "fr.po"
    source.write_bytes(CATALOGUE)
    assert nmt("translate", source, "-o", out, "--model", model).code == 0
    written = out.read_bytes()
    assert b'"Language: fr\\n"' in written
    assert b'msgstr "le chat"' in written
    for code, times in ((b"%d", 2), (b"%s", 2), (b"%(n)d", 4), (b"{name}", 2), (b"fuzzy", 0), (b'msgstr ""', 1)):
        assert written.count(code) == times
    if shutil.which("msgfmt"):
        subprocess.run(["msgfmt", "--check", "-o", "/dev/null", out], check=True)
    again = tmp_path / "again.po"
    assert nmt("translate", out, "-o", again, "--model", model).code == 0
    assert again.read_bytes() == written
    assert nmt("translate", out, "-o", again, "--model", model, "--overwrite").code == 0
    assert b'msgstr "le chat"' not in again.read_bytes()


def test_subtitles_and_xliff_are_translated_in_place(nmt, model: Path, tmp_path: Path):
    cues, units = tmp_path / "a.srt", tmp_path / "a.xlf"
    cues.write_bytes(CUES)
    units.write_bytes(UNITS)
    assert nmt("translate", cues, "-o", tmp_path / "b.srt", "--model", model).code == 0
    new = (tmp_path / "b.srt").read_bytes().split(b"\n")
    assert [line for line in new if b"-->" in line or line.isdigit()] == [
        line for line in CUES.split(b"\n") if b"-->" in line or line.isdigit()
    ]
    result = nmt("translate", units, "-o", "-", "--model", model)
    assert result.code == 0, result.err
    target = re.findall(rb"</source>\n?<target>(.*)</target></trans-unit>", result.out)[0]
    assert target.count(b'<g id="1">') == target.count(b"{n, plural, one {# key} other {# keys}}") == 1
    assert b'target-language="fr"' in result.out


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.xlf", b'source-language="en"', b'source-language="fr-CA"'),
        ("a.html", b'<html lang="en">', b'<html lang="fr-CA">'),
        ("b.html", b'<html lang="en">', b"<html xml:lang=fr-CA>"),
    ],
)
def test_a_document_in_another_language_is_told(nmt, model: Path, tmp_path: Path, name, before, after):
    document, out = tmp_path / name, tmp_path / "out"
    content = UNITS if name.endswith("xlf") else PAGE
    for declared in (before, before.replace(b"en", b"en-GB"), before.replace(b"en", b"English")):
        document.write_bytes(content.replace(before, declared))
        result = nmt("translate", document, "-o", out, "--model", model)
        assert result.code == 0, result.err
        assert "says that its text" not in result.err
    document.write_bytes(content.replace(before, after))
    result = nmt("translate", document, "-o", out, "--model", model)
    assert result.code == 0, result.err
    assert (
        f"warning: {document}: says that its text is in fr-CA, but the model translates from en; if that is right, use "
        "a model that translates from fr-CA\n"
    ) in result.err


def test_paragraphs_are_translated_sentence_by_sentence(nmt, model: Path):
    sentences = ["The red dog sleeps.", "They have his flowers.", "Is she here?"]
    alone = nmt("translate", "--model", model, stdin="\n".join(sentences).encode()).lines
    text = f"{sentences[0]}  {sentences[1]}\n\n \t{sentences[2]} {sentences[0]}\xff".encode("latin-1")
    result = nmt("translate", "--paragraphs", "--model", model, stdin=text)
    assert result.lines[:2] == [f"{alone[0]}  {alone[1]}", ""]
    assert result.lines[2].startswith(f" \t{alone[2]} ")
    assert "1 line is not valid UTF-8; invalid bytes are read as U+FFFD" in result.err


def test_a_paragraph_of_white_space_becomes_an_empty_line(nmt, model: Path):
    result = nmt("translate", "--paragraphs", "--model", model, stdin="  \t\nThe car.\n\u3000\n\n".encode())
    assert result.code == 0
    assert [bool(line) for line in result.lines] == [False, True, False, False]


@pytest.mark.parametrize("name", ["a.html", None])
def test_options_that_change_nothing_in_a_document_or_in_paragraphs_are_told(nmt, model: Path, tmp_path: Path, name):
    (tmp_path / "a.html").write_bytes(PAGE)
    words = ("--paragraphs",) if name is None else (tmp_path / name, "-o", tmp_path / "out")
    result = nmt("translate", *words, "--model", model, "--temperature", "2", stdin=b"The car\n")
    assert result.code == 0, result.err
    assert "warning: --temperature does nothing without --sample\n" in result.err


def test_addresses_and_tags_in_paragraphs_are_kept_and_a_term_may_bring_signs_in(nmt, model: Path, tmp_path: Path):
    sentences = [
        "The red dog, see https://a.org/x?y=1",
        "Mail joe@a.org a hat",
        "<b>The dog</b> sleeps",
        "20%d of $USD {x}",
    ]
    source, terms = tmp_path / "source", tmp_path / "terms.tsv"
    source.write_text("\n".join(sentences) + "\n")
    terms.write_bytes(b"\xef\xbb\xbfdog\thttps://b.org/%s\n")
    for more in ((), ("--glossary", terms)):
        result = nmt("translate", source, "--paragraphs", "--model", model, *more)
        assert "untranslated" not in result.err
        for line, codes in zip(
            result.lines, (["https://a.org/x?y=1"], ["joe@a.org"], ["<b>", "</b>"], ["%d", "{x}"]), strict=True
        ):
            assert all(line.count(code) == 1 for code in codes)
    assert "https://b.org/%s" in result.lines[0]
    page, out = tmp_path / "page.html", tmp_path / "page.fr.html"
    page.write_bytes(PAGE)
    assert nmt("translate", page, "-o", out, "--model", model, "--glossary", terms).code == 0
    assert b"https://b.org/%s" in re.search(rb"<p class.*?</p>", out.read_bytes())[0]


def test_a_document_without_an_output_is_lines_as_before(nmt, model: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_bytes(PAGE)
    result = nmt("translate", page, "--model", model)
    assert len(result.lines) == PAGE.count(b"\n")
    assert f"warning: {page}: is read as plain lines; give -o FILE to translate it as a document" in result.err
    part = nmt("translate", page, "--model", model, "--shard", "1/2")
    assert [err.count("warning: ") for err in (result.err, part.err)] == [1, 1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("a.html", "-o", "a.html"), "a.html: cannot be both input and output"),
        (
            ("a.html", "-o", "b", "--n-best", "2", "--format", "jsonl"),
            "--n-best, --format: a.html is translated as a do",
        ),
        (
            ("a.html", "-o", "b", "--alignment", "hard"),
            "--alignment: a.html is translated as a document, which gives on",
        ),
        (("a.html", "-o", "b", "--paragraphs"), "--paragraphs: a.html is translated as a document"),
        (("a.html", "-o", "b", "--overwrite"), "--overwrite: goes with a PO or XLIFF file as FILE and with -o OUT"),
        (("a.po", "--overwrite"), "--overwrite: goes with a PO or XLIFF file as FILE and with -o OUT"),
        (("a.html", "--paragraphs", "--shard", "1/2"), "--shard: --paragraphs gives one text; take the option away"),
        (("none.po", "-o", "b"), "none.po: there is no such file"),
        (("a.po.gz", "-o", "b"), "a.po.gz: there is no such file"),
        (("cut.po.gz", "-o", "b"), "cut.po.gz: the compressed data is damaged or cut off"),
        (("two.po", "-o", "b"), "two.po: is an archive; unpack it, and give a document in it"),
        (("cut.html", "-o", "b"), "cut.html:2: the page ends within a tag or a comment; it is cut off"),
        (("cut.po", "-o", "b"), "cut.po:4: is not a line of a PO file"),
        (("cut.xlf", "-o", "b"), "cut.xlf:2: is not well-formed XML: unclosed token; the file is damaged or cut off"),
        (
            ("de.po", "-o", "b"),
            "de.po:3: its Language is de and it has translations, but the model translates into fr.",
        ),
        (("cut.srt", "-o", "b"), "cut.srt:1: a cue with times such as"),
    ],
)
def test_mistakes_are_refused_and_leave_nothing(nmt, model: Path, tmp_path: Path, monkeypatch, args, message: str):
    monkeypatch.chdir(tmp_path)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.po", CATALOGUE)
    contents = {
        "a.html": PAGE, "a.po": CATALOGUE, "de.po": CATALOGUE.replace(b"Language: ", b"Language: de"),
        "cut.html": b"<p>a</p>\n<a href=", "cut.xlf": UNITS[:50],
        "cut.srt": b"1\n00:00:0",
        "cut.po.gz": gzip.compress(CATALOGUE)[:-12], "two.po": archive.getvalue(),
        "cut.po": b'msgid ""\nmsgstr ""\n\nmsgid "a',
    }  # fmt: skip
    for name, content in contents.items():
        Path(name).write_bytes(content)
    result = nmt("translate", *args, "--model", model)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents


def test_a_missing_extra_is_named(model: Path, tmp_path: Path):
    (tmp_path / "a.po").write_bytes(CATALOGUE)
    code = "import sys; sys.modules['sentencex'] = None; from nmt_cli.cli import main; main()"
    command = [sys.executable, "-c", code, "translate", "a.po", "-o", "b.po", "--model", str(model)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.endswith(
        "documents and --paragraphs need sentencex, which finds sentences: pip install 'nmt-cli[documents]'\n"
    )


def test_an_output_that_cannot_be_opened_is_refused_before_the_work(nmt, model: Path, tmp_path: Path):
    """Neither is a mistake in the document found before."""
    catalogue = tmp_path / "catalogue.po"
    catalogue.write_bytes(CATALOGUE + b'msgid "')
    out = tmp_path / "nowhere/catalogue.po"
    result = nmt("translate", catalogue, "-o", out, "--model", model)
    assert result.code == 2
    assert result.err.endswith(f"nmt: {out}: cannot be written: no such file or directory\n")
