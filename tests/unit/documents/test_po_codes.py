"""Placeholders of many languages in catalogues and in XLIFF: none is lost, and gettext takes the translations."""

from __future__ import annotations

import shutil
import subprocess
from html import escape

import polib
import pytest
from document_translators import SPLIT, backwards, translator, unchanged, upper

from nmt_cli.documents.document import translate_document

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
forgetful = translator(lambda _: ["DAS", "HUHN"])
OF_LANGUAGES = [
    ("c-format", "%s"),
    ("c-format", "%1$s"),
    ("lua-format", "%q"),
    ("javascript-format", "%j"),
    ("object-pascal-format", "%0:s"),
    ("gcc-internal-format", "%wd"),
    ("gcc-internal-format", "%qs"),
    ("gcc-internal-format", "%q+D"),
    ("gfc-internal-format", "%L"),
    ("boost-format", "%1%"),
    ("php-format", "%b"),
    ("php-format", "%1$b"),
    ("perl-format", "%vd"),
    ("perl-format", "%s"),
    ("smalltalk-format", "%1"),
    ("ycp-format", "%1"),
    ("kde-format", "%1"),
    ("kde-kuit-format", "%1"),
    ("qt-format", "%1"),
    ("scheme-format", "~a"),
    ("lisp-format", "~A"),
    ("lisp-format", "~10,'0D"),
    ("lisp-format", "~{~A~}"),
    ("lisp-format", "~[no~;one~]"),
    ("librep-format", "%S"),
    ("go-format", "%v"),
    ("go-format", "%[1]d"),
    ("tcl-format", "%d"),
    ("java-printf-format", "%tY"),
    ("java-printf-format", "%b"),
    ("java-printf-format", "%1$tY"),
    ("java-printf-format", "%,d"),
    ("python-format", "%(a)s"),
    ("objc-format", "%@"),
    ("csharp-format", "{0}"),
]


def message(text: str, flag: str, translate=upper) -> str:
    """Return the translation of a message; msgfmt, if it is there, takes the catalogue."""
    before = f'{HEADER}#, {flag}\nmsgid "{text}"\nmsgstr ""\n'
    done = translate_document("a.po", before.encode(), translate, SPLIT, target_lang=None).content.decode()
    if shutil.which("msgfmt"):
        command = ["msgfmt", "--check-format", "-o", "/dev/null", "-"]
        for catalogue in (before, done):
            subprocess.run(command, input=catalogue.encode(), check=True, capture_output=True)
    return polib.pofile(done)[0].msgstr


def target(text: str, translate=upper) -> str:
    """Return the translation of a unit of XLIFF."""
    before = f'<xliff version="1.2"><file><body><trans-unit><source>{text}</source></trans-unit></body></file></xliff>'
    done = translate_document("a.xlf", before.encode(), translate, SPLIT, target_lang=None).content.decode()
    return done.partition("<target>")[2].partition("</target>")[0]


@pytest.mark.parametrize(("flag", "code"), OF_LANGUAGES)
def test_no_placeholder_of_any_language_is_lost(flag: str, code: str):
    text = f"the hen saw {code} here"
    assert message(text, flag, forgetful).count(code) == 1
    assert message(text, flag, unchanged) == text
    assert message(text, flag) == f"THE HEN SAW {code} HERE"


@pytest.mark.parametrize(
    ("flag", "codes", "after"),
    [
        ("lisp-format", ("~A", "~D"), ("~A", "~D")),
        ("scheme-format", ("~a", "~s"), ("~a", "~s")),
        ("gcc-internal-format", ("%<", "%s", "%>", "%d"), ("%<", "%s", "%>", "%d")),
        ("object-pascal-format", ("%0:s", "%1:d"), ("%1:d", "%0:s")),
        ("java-printf-format", ("%b", "%d"), ("%b", "%d")),
        ("kde-kuit-format", ("%1", "%2"), ("%2", "%1")),
    ],
)
def test_only_placeholders_with_a_number_may_change_their_order(flag: str, codes: tuple, after: tuple):
    done = message("a " + " or ".join(codes) + " hen", flag, backwards)
    assert done == "HEN " + " OR ".join(after) + " A"


@pytest.mark.parametrize("flag", ["no-c-format", "csharp-format", "java-format", "rust-format"])
def test_a_sign_of_percent_is_text_where_no_printf_is(flag: str):
    assert message("100 % sure, 5 % quiet {0}", flag) == "100 % SURE, 5 % QUIET {0}"


@pytest.mark.parametrize("code", ["%1", "%2", "%1$s", "%1$@", "%10", "%1%", "%s"])
def test_no_placeholder_in_xliff_is_lost(code: str):
    assert target(f"the hen saw {code} here", forgetful).count(code) == 1
    assert target(f"the hen saw {code} here") == f"THE HEN SAW {code} HERE"


def test_numbered_placeholders_in_xliff_that_touch_are_two():
    assert target("the hen saw %1%2 and 100 % sure") == "THE HEN SAW %1%2 AND 100 % SURE"
    assert target("%1%2 hen", backwards) == "HEN %1%2"


@pytest.mark.parametrize("text", ["~{" * 20_000, "~[" * 20_000, "%" + "0" * 100_000 + "é", "~" + "1" * 100_000])
def test_text_made_to_be_slow_stays(text: str):
    before = f'{HEADER}#, lisp-format\nmsgid "hen {text}"\nmsgstr ""\n'
    done = translate_document("a.po", before.encode(), unchanged, SPLIT, target_lang=None).content.decode()
    assert polib.pofile(done)[0].msgstr == f"hen {text}"


REFERENCES = ["&amp;", "&laquo;", "&#8217;", "&#x2014;"]


@pytest.mark.parametrize("code", REFERENCES)
@pytest.mark.parametrize("flag", ["no-c-format", "c-format", "kde-format"])
def test_references_in_messages_for_pages_are_not_lost(flag: str, code: str):
    assert message(f"the hen {code} here", flag, forgetful).count(code) == 1
    assert message(f"the hen {code} here", flag) == f"THE HEN {code} HERE"
    assert message(f"the hen{code}house here", flag, forgetful).count(code) == 1


@pytest.mark.parametrize("code", REFERENCES)
def test_references_in_xliff_that_are_text_are_not_lost(code: str):
    code = escape(code)
    assert target(f"the hen {code} here", forgetful).count(code) == 1
    assert target(f"the hen {code} &lt; &#233; here") == f"THE HEN {code} &lt; É HERE"


@pytest.mark.parametrize("code", ["&nbsp;", "&#160;", "&#xA0;"])
def test_references_to_blanks_in_messages_are_blanks(code: str):
    # Seen to fail where they are placeholders: the source's word came back with a lost one.
    assert message(f"the hen{code}here", "c-format", forgetful) == "DAS HUHN"
    assert message(f"the hen{code}here", "c-format") == "THE HEN HERE"
    assert message(f"the hen{code}here", "c-format", unchanged) == f"the hen{code}here"
    assert target(f"the hen{escape(code)}here", unchanged) == f"the hen{escape(code)}here"


def test_signs_that_are_no_references_are_text():
    assert message("&File and R&D; or a & b;", "no-c-format") == "&FILE AND R&D; OR A & B;"
    assert target("&amp;File and R&amp;D; or a &amp; b;") == "&amp;FILE AND R&amp;D; OR A &amp; B;"
    page = translate_document("a.html", b"<p>write &amp;nbsp; here</p>", upper, SPLIT, target_lang=None)
    assert page.content == b"<p>WRITE &amp;NBSP; HERE</p>"
