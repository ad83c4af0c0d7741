"""XLIFF, HTML and text: what is odd costs its segment, and the encoding is found as for an import."""

from __future__ import annotations

import pytest
from importing_here import imported
from test_one_reader import translated

UNIT = "<trans-unit id='{0}'><source>{1}</source>{2}</trans-unit>"


def xliff(*units: str, declared: str = "UTF-8") -> str:
    body = "\n".join(units)
    return (
        f'<?xml version="1.0" encoding="{declared}"?>\n<xliff version="1.2"><file source-language="en" '
        f'target-language="fr"><body>\n{body}\n</body></file></xliff>\n'
    )


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        ("\x0b", "has U+000B, which XML does not allow"),
        ("&#x1F;", "has U+001F, which XML does not allow"),
        ("\ufffe", "has U+FFFE, which XML does not allow"),
        ("fish & chips", "has &, which is not a reference that is known here; & is written &amp; in XML"),
        ("&what;", "has &what;, which is not a reference that is known here; & is written &amp; in XML"),
    ],
)
def test_an_odd_character_costs_its_unit_and_is_named(tmp_path, odd, what):
    before = xliff(UNIT.format(1, "a café", ""), UNIT.format(2, f"odd {odd}.", ""), UNIT.format(3, "a dog", ""))
    done = translated(before.encode(), "m.xlf")
    after = before.replace("a café</source>", "a café</source><target>A CAFÉ</target>")
    assert done.content.decode() == after.replace("a dog</source>", "a dog</source><target>A DOG</target>")
    assert done.counts.notes == [f"line 4, left as it is: the unit {what}"]
    path = tmp_path / "m.xlf"
    path.write_bytes(before.replace("</source>", "</source><target>é</target>").encode())
    made = imported(path)
    assert made.pairs == [("a café", "é"), ("a dog", "é")]
    assert made.report["skipped_places"] == {f"the unit {what}": [f"{path}:4"]}


def test_a_reference_by_a_name_of_html_is_known_without_a_declaration(tmp_path):
    before = xliff(UNIT.format(1, "&nbsp;a dog &lt; <![CDATA[& <!-- ]]><!-- & -->", ""))
    assert "<target>&nbsp;A DOG &lt; &amp; &lt;!-- " in translated(before.encode(), "m.xlf").content.decode()


@pytest.mark.parametrize("sign", ["\x0b", "&#x1f;", "&#31;", "\udce9"])
def test_an_odd_character_of_a_memory_costs_its_unit(tmp_path, sign):
    unit = "<tu><tuv xml:lang='en'><seg>{}</seg></tuv><tuv xml:lang='fr'><seg>bé</seg></tuv></tu>\n"
    text = (
        "<tmx version='1.4'><body>\n"
        + unit.format("a")
        + unit.format(f"c{sign}d")
        + unit.format("é") * 3
        + "</body></tmx>"
    )
    path = tmp_path / "m.tmx"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    made = imported(path)
    assert made.pairs == [("a", "bé"), *[("é", "bé")] * 3]
    reason = "a character that XML does not allow, a byte that is not valid, or an & of no reference"
    assert made.report["skipped_places"] == {reason: [f"{path}:3"]}


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("a.html", '<meta charset="{}"><p>{}</p>\n'),
        ("a.xlf", xliff(UNIT.format(1, "{1}", "<target>{1}</target>"), declared="{0}")),
    ],
)
def test_bytes_that_are_valid_utf_8_are_read_so_and_the_declaration_is_mended(name, template):
    done = translated(template.format("windows-1251", "a café").encode(), name, overwrite=True)
    assert done.content.decode().replace(">a café</source>", "></source>") == template.format(
        "UTF-8", "A CAFÉ"
    ).replace(">A CAFÉ</source>", "></source>")
    assert done.counts.notes == ["declares the encoding windows-1251, but is in UTF-8 and is read as such"]


@pytest.mark.parametrize("name", ["a.html", "a.srt", "a.txt"])
def test_a_document_that_declares_nothing_is_guessed_and_becomes_utf_8(name):
    text = {"a.html": "<p>a café</p>\n", "a.srt": "1\n00:01,000 --> 00:02,000\na café\n", "a.txt": "a café\n\n"}[name]
    done = translated(text.encode("cp1252"), name)
    assert done.content.decode() == text.replace("a café", "A CAFÉ")
    assert done.counts.notes == ["is not valid UTF-8; it is read as cp1252; the output is in UTF-8"]


@pytest.mark.parametrize("odd", [b"\xe9", b"\0"])
@pytest.mark.parametrize("name", ["a.html", "a.txt"])
def test_a_byte_that_is_not_valid_costs_its_segment(name, odd):
    text = "<p>a café</p>\n<p>odd @ dog</p>\n<p>naïve</p>\n" if name == "a.html" else "a café\nodd @ dog\r\nnaïve"
    done = translated(text.encode().replace(b"@", odd), name)
    new = text.replace("a café", "A CAFÉ").replace("naïve", "NAÏVE")
    assert done.content == new.encode().replace(b"@", odd)
    (note,) = done.counts.notes
    assert note.startswith("line 2, left as it is: has a ")


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        ('<!-- <meta charset="windows-1251"> --><meta charset="windows-1252"><p>{}</p>', "cp1252"),
        ('<!--><meta charset="windows-1251"> --><p>{}</p>', "cp1251"),
        ("<p title='<meta charset=windows-1251>'><meta charset=\"cp1252\">{}</p>", "cp1252"),
        ("<meta name=x content='text/html; charset=windows-1251'><meta charset=cp1252><p>{}</p>", "cp1252"),
        ("<META content='text/html; charset=windows-1252' HTTP-EQUIV = Content-Type><p>{}</p>", "cp1252"),
        ('<?xml version="1.0" encoding="windows-1252"?><p>{}</p>', "cp1252"),
    ],
)
def test_the_encoding_of_a_page_is_searched_for_as_browsers_do(page, encoding):
    text = "un café" if encoding == "cp1252" else "кафе"
    done = translated(page.format(text).encode(encoding), "a.html", source_lang="fr")
    assert done.content.decode(encoding) == page.format(text.upper())
    assert done.counts.notes == []


@pytest.mark.parametrize("codec", ["utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("name", ["a.srt", "a.txt", "a.html"])
def test_a_document_in_unicode_keeps_its_encoding(name, codec):
    texts = {
        "a.html": "<p>a café, a dog</p>\n",
        "a.srt": "1\n00:01,000 --> 00:02,000\na café\n",
        "a.txt": "a café, a dog\n",
    }
    done = translated(texts[name].encode(codec), name)
    assert done.content == texts[name].replace("a café", "A CAFÉ").replace("a dog", "A DOG").encode(codec)
    assert done.counts.notes == []


@pytest.mark.parametrize("charset", ["<meta charset=iso-2022-jp>", ""])
def test_a_page_in_iso_2022_is_read_so_and_keeps_it_if_it_declares_it(charset):
    page = f"{charset}<p>a red car</p><p>3台の車</p>"
    done = translated(page.encode("iso2022_jp"), "a.html")
    encoding, notes = ("iso2022_jp", []) if charset else ("utf-8", ["is read as ISO-2022-JP; the output is in UTF-8"])
    assert done.content.decode(encoding) == page.replace("a red car", "A RED CAR")
    assert done.counts.notes == notes


def test_an_import_tells_of_an_encoding_that_is_not_the_declared_one(tmp_path, capsys):
    path = tmp_path / "m.xlf"
    path.write_bytes(xliff(UNIT.format(1, "a café", "<target>é</target>"), declared="windows-1251").encode())
    assert imported(path).pairs == [("a café", "é")]
    assert "m.xlf: declares the encoding windows-1251, but is in UTF-8 and is read as such" in capsys.readouterr().err


@pytest.mark.parametrize(
    "unit",
    [
        "<trans-unit id='1' mq:status='PartiallyEdited'>{}</trans-unit>",
        "<trans-unit id='1'>{}<sdl:seg-defs><sdl:seg id='1' conf='Draft'/></sdl:seg-defs></trans-unit>",
    ],
)
def test_states_of_other_programs_are_unfinished_too(tmp_path, unit):
    sides = "<source>a café</source><target>é</target>"
    path = tmp_path / "m.xlf"
    path.write_text(xliff(unit.format(sides), UNIT.format(2, "a dog", "<target>b</target>")))
    made = imported(path)
    assert made.pairs == [("a dog", "b")]
    assert [reason.startswith("unfinished (state ") for reason in made.report["skipped"]] == [True]
    assert len(imported(path, with_unfinished=True).pairs) == 2
