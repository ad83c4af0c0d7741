"""XLIFF: targets filled or added, inline elements kept, and what is refused."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from document_translators import SPLIT, backwards, translator, unchanged, upper

from nmt_cli.documents.document import translate_document
from nmt_cli.formats.encoded_text import document_of
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.xliff import Units
from nmt_cli.system.errors import InputError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\r\n<xliff version="1.2"><file source-language="en"{language}><body>\r\n'
    "<!-- é -->\r\n"
)
END = "</body></file></xliff>\n"


def units(text: str, translate=upper, overwrite: bool = False) -> str:
    data = (HEAD.format(language="") + text + END).encode()
    done = translate_document("a.xlf", data, translate, SPLIT, target_lang=None, overwrite=overwrite).content
    ElementTree.fromstring(done)
    return done.decode().removeprefix(HEAD.format(language="")).removesuffix(END)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "<trans-unit>\r\n  <source>a &amp; b</source>\r\n</trans-unit>",
            "<trans-unit>\r\n  <source>a &amp; b</source>\r\n  <target>A &amp; B</target>\r\n</trans-unit>",
        ),
        (
            '<trans-unit><source>a</source><target state="new" x="y"/></trans-unit>',
            '<trans-unit><source>a</source><target state="translated" x="y">A</target></trans-unit>',
        ),
        (
            '<trans-unit><source>a</source><target state="needs-translation">a</target></trans-unit>',
            '<trans-unit><source>a</source><target state="translated">A</target></trans-unit>',
        ),
        ("<trans-unit><source>a</source><target>b</target></trans-unit>", None),
        ("<trans-unit><source>a</source><target><![CDATA[b]]></target></trans-unit>", None),
        (
            "<trans-unit><source>a</source><target><![CDATA[]]></target></trans-unit>",
            "<trans-unit><source>a</source><target>A</target></trans-unit>",
        ),
        ('<trans-unit translate="no"><source>a</source></trans-unit>', None),
        ('<group translate="no"><trans-unit><source>a</source></trans-unit></group>', None),
        (
            '<trans-unit><source>a <g id="1">b</g> <x id="2"/></source><note>a</note></trans-unit>',
            (
                '<trans-unit><source>a <g id="1">b</g> <x id="2"/></source>'
                '<target>A <g id="1">B</g> <x id="2"/></target><note>a</note></trans-unit>'
            ),
        ),
        (
            '<trans-unit><source>a <bpt id="1">&lt;b></bpt>b<ept id="1">&lt;/b></ept> c</source></trans-unit>',
            (
                '<trans-unit><source>a <bpt id="1">&lt;b></bpt>b<ept id="1">&lt;/b></ept> c</source>'
                '<target>A <bpt id="1">&lt;b></bpt>B<ept id="1">&lt;/b></ept> C</target></trans-unit>'
            ),
        ),
        (
            "<trans-unit><source>{n, plural, =1 {a} other {b}} is &lt;b&gt;c&lt;/b&gt;</source></trans-unit>",
            (
                "<trans-unit><source>{n, plural, =1 {a} other {b}} is &lt;b&gt;c&lt;/b&gt;</source>"
                "<target>{n, plural, =1 {a} other {b}} IS &lt;b&gt;C&lt;/b&gt;</target></trans-unit>"
            ),
        ),
        (
            "<trans-unit><source>a <![CDATA[& b]]></source><alt-trans><source>q</source></alt-trans></trans-unit>",
            (
                "<trans-unit><source>a <![CDATA[& b]]></source><target>A &amp; B</target>"
                "<alt-trans><source>q</source></alt-trans></trans-unit>"
            ),
        ),
        (
            "<trans-unit><source><![CDATA[<p>a & b</p>]]></source><target/></trans-unit>",
            (
                "<trans-unit><source><![CDATA[<p>a & b</p>]]></source>"
                "<target>&lt;p&gt;A &amp; B&lt;/p&gt;</target></trans-unit>"
            ),
        ),
        (
            "<trans-unit><source><![CDATA[10 & 20]]></source><target/></trans-unit>",
            "<trans-unit><source><![CDATA[10 & 20]]></source><target>10 &amp; 20</target></trans-unit>",
        ),
        (
            '<trans-unit><source><g id="1"><![CDATA[a < <b>]]><![CDATA[c</b> &#49;]]></g> &lt; e</source></trans-unit>',
            (
                '<trans-unit><source><g id="1"><![CDATA[a < <b>]]><![CDATA[c</b> &#49;]]></g> &lt; e</source>'
                '<target><g id="1">A &lt; &lt;b&gt;C&lt;/b&gt; &amp;#49;</g> &lt; E</target></trans-unit>'
            ),
        ),
        (
            (
                '<trans-unit><source>a <mrk mtype="protected">b <g id="1">c</g></mrk>'
                ' <mrk mtype="term">d</mrk></source></trans-unit>'
            ),
            (
                '<trans-unit><source>a <mrk mtype="protected">b <g id="1">c</g></mrk>'
                ' <mrk mtype="term">d</mrk></source>'
                '<target>A <mrk mtype="protected">b <g id="1">c</g></mrk> <mrk mtype="term">D</mrk></target>'
                "</trans-unit>"
            ),
        ),
        (
            (
                '<trans-unit><source>a b</source><seg-source><mrk mtype="seg" mid="1">a</mrk> <mrk mtype="seg" mid="2">'
                '<g id="1">b</g></mrk></seg-source><target><mrk mtype="seg" mid="1"/></target></trans-unit>'
            ),
            (
                '<trans-unit><source>a b</source><seg-source><mrk mtype="seg" mid="1">a</mrk> <mrk mtype="seg" mid="2">'
                '<g id="1">b</g></mrk></seg-source><target><mrk mtype="seg" mid="1">A</mrk> <mrk mtype="seg" mid="2">'
                '<g id="1">B</g></mrk></target></trans-unit>'
            ),
        ),
        (
            "<trans-unit><source>a</source><target/><old><source>b</source><target>c</target></old></trans-unit>",
            (
                "<trans-unit><source>a</source><target>A</target>"
                "<old><source>b</source><target>c</target></old></trans-unit>"
            ),
        ),
        (
            "<unit><segment><source>a <mrk id='1' translate='no'>b</mrk></source></segment></unit>",
            (
                "<unit><segment><source>a <mrk id='1' translate='no'>b</mrk></source>"
                "<target>A <mrk id='1' translate='no'>b</mrk></target></segment></unit>"
            ),
        ),
        (
            "<unit><segment state='initial'><source>a</source></segment></unit>",
            "<unit><segment state='translated'><source>a</source><target>A</target></segment></unit>",
        ),
    ],
)
def test_targets_are_filled_or_added(before: str, after: str | None):
    assert units(before) == (before if after is None else after)


def marked(*texts: str | None) -> str:
    return " ".join(f'<mrk mtype="seg" mid="{i}">{text}</mrk>' for i, text in enumerate(texts) if text is not None)


@pytest.mark.parametrize(
    ("target", "filled"),
    [
        (marked("ä", "", "ü"), marked("ä", "B", "ü")),
        (f"<g>{marked('ä')} </g>{marked(None, '', '')}", f"<g>{marked('ä')} </g>{marked(None, 'B', 'C')}"),
        (marked("ä", "", "ü").replace("></mrk>", "/>"), marked("ä", "B", "ü")),
        (marked("ä"), marked("ä", "B", "C")),
        (marked("ä", None, "ü"), marked("ä", "B", "ü")),
        (marked("ä", "ö", "ü"), marked("ä", "ö", "ü")),
        (f"w {marked('ä', '')}", f"w {marked('ä', '')}"),
    ],
)
def test_the_empty_segments_of_a_unit_are_filled_and_the_others_stay(target: str, filled: str):
    unit = (
        f"<trans-unit><source>a b c</source><seg-source>{marked('a', 'b', 'c')}</seg-source>"
        "<target>{}</target></trans-unit>"
    )
    assert units(unit.format(target)) == unit.format(filled)
    if "w " not in target:
        assert units(unit.format(target), overwrite=True) == unit.format(filled.translate(str.maketrans("äöü", "ABC")))


def test_pairs_of_elements_stay_pairs_in_another_order():
    before = '<trans-unit><source><x id="START_B"/>a<x id="CLOSE_B"/> b</source></trans-unit>'
    assert '<target>B <x id="START_B"/>A<x id="CLOSE_B"/></target>' in units(before, backwards)


def test_translations_that_are_the_source_are_written_as_the_source():
    before = "<trans-unit><source>a &#38; b &quot;c&quot;</source><target>a &#38; b &quot;c&quot;</target></trans-unit>"
    assert units(before, unchanged, overwrite=True) == before


@pytest.mark.parametrize(
    "code",
    [
        '<x id="LINE_BREAK" ctype="lb" equiv-text="&lt;br/>"/>',
        '<x id="LINE_BREAK_1"/>',
        '<ph id="1">&lt;br /></ph>',
        '<ph id="1" equiv="&lt;br>"/>',
    ],
)
def test_no_sentence_goes_across_a_line_break(code: str):
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return upper(lines)

    assert f"<target>DEAR{code}THEY COME</target>" in units(
        f"<trans-unit><source>dear{code}they come</source></trans-unit>", translate
    )
    assert seen == ["dear", "they come"]


def test_an_empty_translation_is_not_called_translated():
    unit = '<trans-unit><source>a</source><target state="new"></target></trans-unit>'
    assert units(unit, translator(lambda _: [])) == unit
    assert 'state="translated">A<' in units(unit)


def test_the_language_of_a_target_is_set():
    unit = '<trans-unit><source>a</source><target xml:lang="fr">b</target></trans-unit>'
    data = (HEAD.format(language="") + unit + END).encode()
    done = translate_document("a.xlf", data, upper, SPLIT, target_lang="de_AT", overwrite=True).content.decode()
    assert '<target xml:lang="de-AT">A</target>' in done


@pytest.mark.parametrize("language", ["", ' target-language="fr"'])
def test_the_target_language_is_set(language: str):
    data = (HEAD.format(language=language) + END).encode()
    done = translate_document("a.xlf", data, upper, SPLIT, target_lang="de_AT").content
    assert ElementTree.fromstring(done)[0].attrib == {"source-language": "en", "target-language": "de-AT"}


@pytest.mark.parametrize(("declared", "after"), [("de-CH", "de-CH"), ("DE_at", "DE_at"), ("den", "de"), ("de-", "de")])
def test_a_file_keeps_its_region_where_the_model_names_none(declared: str, after: str):
    data = (HEAD.format(language=f' target-language="{declared}"') + END).encode()
    done = translate_document("a.xlf", data, upper, SPLIT, target_lang="de").content
    assert ElementTree.fromstring(done)[0].attrib["target-language"] == after


TRANSLATED = "<trans-unit><source>a</source><target>b</target></trans-unit>"


def test_translations_in_another_language_are_replaced_or_the_file_is_refused():
    data = (HEAD.format(language=' target-language="fr"') + TRANSLATED + END).encode()
    with pytest.raises(InputError) as refusal:
        translate_document("a.xlf", data, upper, SPLIT, target_lang="de_AT")
    assert str(refusal.value) == (
        "a.xlf:2: its target-language is fr and it has translations, but the model translates into de_AT. Two "
        "languages would stand in one file. Correct target-language if it is wrong, take the translations out, or "
        "replace them with nmt translate --overwrite"
    )
    done = translate_document("a.xlf", data, upper, SPLIT, target_lang="de_AT", overwrite=True).content
    assert b'target-language="de-AT"' in done
    assert b"<target>A</target>" in done


def test_translations_in_another_language_are_refused_in_xliff_2():
    unit = "<unit><segment><source>a</source><target>b</target></segment></unit>"
    data = f'<xliff version="2.0" srcLang="en" trgLang="fr"><file id="1">{unit}</file></xliff>'.encode()
    with pytest.raises(InputError, match=r"^a\.xlf:1: its trgLang is fr and it has translations"):
        translate_document("a.xlf", data, upper, SPLIT, target_lang="de")


@pytest.mark.parametrize("language", ["", ' target-language=""', ' target-language="de"', ' target-language="de-CH"'])
def test_a_file_in_the_same_language_or_in_none_keeps_its_translations(language: str):
    """The first file of the two is in another language, and has no translation yet."""
    unit = "<trans-unit><source>a</source></trans-unit>"
    other = f'<file source-language="en" target-language="fr"><body>{unit}</body></file>'
    data = (HEAD.format(language=language) + TRANSLATED + END).replace("<file", f"{other}<file", 1).encode()
    done = translate_document("a.xlf", data, upper, SPLIT, target_lang="de_AT").content.decode()
    assert done.count(' target-language="de-AT"') == 2
    assert done.count("<target>A</target>") == done.count("<target>b</target>") == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<xliff>\n<file>", "a.xlf:2: is not well-formed XML: no element found; the file is damaged or cut off"),
        (b"<xliff>\n<file></xliff>", "a.xlf:2: is not well-formed XML: mismatched tag; the file is damaged or cut off"),
        (b"<tmx/>", "a.xlf:1: is a TMX file, but a document in text is expected here"),
        (b"<other/>", "a.xlf:1: has no element <xliff>, so it is not XLIFF"),
        (b'<!DOCTYPE x [\n<!ENTITY a "b">]><xliff/>', "a.xlf:2: declares the entity a; take the declaration out"),
        (b"<xliff>" + b"\n<g>" * 1001, "a.xlf:1001: elements are nested more than 1,000 deep; nest them less"),
    ],
)
def test_bad_files_are_refused_with_their_line(data: bytes, message: str):
    with pytest.raises(InputError) as refusal:
        translate_document("a.xlf", data, upper, SPLIT, target_lang=None)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("declared", "written"),
    [("utf-16", "utf-8"), ("UTF-16LE", "utf-16-le"), ("utf-16", "utf-16-le"), ("UTF-8", "utf-8")],
)
def test_the_encoding_is_that_of_the_bytes_whatever_a_document_declares(declared, written):
    """Programs on .NET declare UTF-16 in files that they write in UTF-8."""
    text = f'<?xml version="1.0" encoding="{declared}"?>\n<a>é</a>'
    assert document_of("a.xlf", text.encode(written), Units.charset, Languages("en", "de")).text == text
