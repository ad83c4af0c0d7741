"""Catalogues: what is filled, how it is written, and what stays."""

from __future__ import annotations

import gettext
import re
import shutil
import subprocess

import polib
import pytest
from document_translators import SPLIT, backwards, translator, unchanged, upper

from nmt_cli.documents.document import translate_document
from nmt_cli.system.errors import InputError

HEADER = """# A catalogue
msgid ""
msgstr ""
"Language: en\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=n != 1;\\n"

"""


def catalogue(text: str, translate=upper, **options) -> str:
    options = {"target_lang": None, **options}
    done = translate_document("a.po", (HEADER + text).encode(), translate, SPLIT, **options)
    return done.content.decode().removeprefix(HEADER)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('msgid "a dog"\nmsgstr ""\n', 'msgid "a dog"\nmsgstr "A DOG"\n'),
        ('msgid "a dog"\r\nmsgstr ""\r\n', 'msgid "a dog"\r\nmsgstr "A DOG"\r\n'),
        ('msgid "a \\"dog\\"\\tC:\\\\x"\nmsgstr ""', 'msgid "a \\"dog\\"\\tC:\\\\x"\nmsgstr "A \\"DOG\\"\\tC:\\\\X"'),
        ('msgid "a dog"\nmsgstr "ein Hund"\n', None),
        ('msgid "  -h  a dog\\tand %d"\nmsgstr ""', 'msgid "  -h  a dog\\tand %d"\nmsgstr "  -H  A DOG\\tAND %d"'),
        (
            'msgid "click <a href=\\"x\\"  class=\\"big one\\">here</a> now"\nmsgstr ""',
            (
                'msgid "click <a href=\\"x\\"  class=\\"big one\\">here</a> now"\n'
                'msgstr "CLICK <a href=\\"x\\"  class=\\"big one\\">HERE</a> NOW"'
            ),
        ),
        (
            'msgid "{n, plural,  one {# file}  other {# files}} were found"\nmsgstr ""',
            (
                'msgid "{n, plural,  one {# file}  other {# files}} were found"\n'
                'msgstr "{n, plural,  one {# file}  other {# files}} WERE FOUND"'
            ),
        ),
        (
            '#, python-format\nmsgid "use %(user  name)s here"\nmsgstr ""',
            '#, python-format\nmsgid "use %(user  name)s here"\nmsgstr "USE %(user  name)s HERE"',
        ),
        ('#, fuzzy\nmsgid "a dog"\nmsgstr "ein Hund"\n', None),
        ('#~ msgid "a dog"\n#~ msgstr ""\n', None),
        (
            '#, fuzzy\n#~ msgid "a"\n#~ msgstr "b"\n\n#, c-format\nmsgid "a dog"\nmsgstr ""\n',
            '#, fuzzy\n#~ msgid "a"\n#~ msgstr "b"\n\n#, c-format\nmsgid "a dog"\nmsgstr "A DOG"\n',
        ),
        ('msgid "now\\ra \\a dog"\nmsgstr ""\n', 'msgid "now\\ra \\a dog"\nmsgstr "NOW\\rA \\a DOG"\n'),
        ('msgctxt "x"\nmsgid "%d%%"\nmsgstr ""\n', 'msgctxt "x"\nmsgid "%d%%"\nmsgstr "%d%%"\n'),
        (
            '#, c-format\nmsgid ""\n"a dog\\n"\n"  and %s\\n"\nmsgstr ""\n',
            '#, c-format\nmsgid ""\n"a dog\\n"\n"  and %s\\n"\nmsgstr ""\n"A DOG\\n"\n"  AND %s\\n"\n',
        ),
    ],
)
def test_messages_without_a_translation_are_filled(before: str, after: str | None):
    assert catalogue(before) == (before if after is None else after)


@pytest.mark.parametrize("flag", ["qt-format", "kde-format", "qt-plural-format"])
def test_numbered_arguments_of_qt_and_kde_stay_in_any_order(flag: str):
    message = f'#, {flag}\nmsgid "open %1 and %L2, 5% or %n"\nmsgstr ""\n'
    assert catalogue(message).splitlines()[-1] == 'msgstr "OPEN %1 AND %L2, 5% OR %n"'
    assert catalogue(message, backwards).splitlines()[-1] == 'msgstr "%n OR 5% %L2, AND %1 OPEN"'


def test_what_a_message_was_goes_with_the_fuzzy_mark():
    former = '#| msgid "an old"\n#| "dog"\n'
    before = f'# of me\n#: a.c:1\n#, fuzzy\n{former}msgid "a dog"\nmsgstr "x"\n'
    assert catalogue(before, overwrite=True) == '# of me\n#: a.c:1\nmsgid "a dog"\nmsgstr "A DOG"\n'
    kept = f'{former}msgid "a cat"\nmsgstr ""\n'
    assert catalogue(kept) == f'{former}msgid "a cat"\nmsgstr "A CAT"\n'


@pytest.mark.parametrize("number", ["1000000000", "9" * 5_000])
def test_a_number_of_plural_forms_that_no_language_has_is_not_believed(number):
    header = HEADER.replace("nplurals=2", f"nplurals={number}")
    entry = 'msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    new = translate_document("a.po", (header + entry).encode(), upper, SPLIT, target_lang=None).content.decode()
    assert new.removeprefix(header) == 'msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] "A DOG"\nmsgstr[1] "DOGS"\n'


@pytest.mark.parametrize(
    "text",
    [
        f"msgid {' ' * 200_000}x",
        f"{' ' * 200_000}x",
        'msgid ""\nmsgstr ""\n' + '"Content-Type:x"\n' * 50_000 + "x",
    ],
)
def test_a_long_damaged_line_is_refused_without_long_thought(text):
    with pytest.raises(InputError, match="is not a line of a PO file"):
        translate_document("a.po", text.encode(), upper, SPLIT, target_lang=None)


def test_the_charset_may_stand_in_the_next_line():
    header = (
        'msgid ""\nmsgstr ""\n"X-Charset: charset=latin-5\\n"\n"Content-Type: text/plain;"\n" charset=latin-1\\n"\n'
    )
    entry = '\nmsgid "é"\nmsgstr ""\n'
    new = translate_document("a.po", (header + entry).encode("latin-1"), upper, SPLIT, target_lang=None).content
    assert new.decode("latin-1") == f'{header}\nmsgid "é"\nmsgstr "É"\n'


def test_overwriting_takes_the_fuzzy_mark_away():
    before = '#, fuzzy, c-format\nmsgid "a %s"\nmsgstr "x"\n\n#, fuzzy\nmsgid "b"\nmsgstr "y"\n'
    assert catalogue(before, overwrite=True) == '#, c-format\nmsgid "a %s"\nmsgstr "A %s"\n\nmsgid "b"\nmsgstr "B"\n'


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("1; plural=0", ["%d DOGS"]),
        ("2; plural=n != 1", ["ONE DOG", "%d DOGS"]),
        ("2; plural=(n > 1)", ["ONE DOG", "%d DOGS"]),
        ("2; plural=n%10!=1 || n%100==11", ["%d DOGS"] * 2),
        ("3; plural=n==1 ? 0 : n<5 ? 1 : 2", ["ONE DOG", "%d DOGS", "%d DOGS"]),
        ("3; plural=n%10==1 ? 0 : n<5 ? 1 : 2", ["%d DOGS"] * 3),
    ],
)
def test_plural_forms_are_as_many_as_the_header_says(rule: str, expected: list[str]):
    header = HEADER.replace("nplurals=2; plural=n != 1", f"nplurals={rule}")
    text = header + '#, c-format\nmsgid "one dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    if rule.startswith("1"):
        text = text.replace('msgstr[1] ""\n', "")
    done = translate_document("a.po", text.encode(), upper, SPLIT, target_lang=None).content.decode()
    assert list(polib.pofile(done)[0].msgstr_plural.values()) == expected


@pytest.mark.parametrize("language", ['"Language: en\\n"\n', '"Language: \\n"\n', ""])
def test_the_language_is_set(language: str):
    data = HEADER.replace('"Language: en\\n"\n', language).encode()
    done = translate_document("a.po", data, unchanged, SPLIT, target_lang="pt-BR").content.decode()
    assert polib.pofile(done).metadata["Language"] == "pt_BR"
    assert polib.pofile(done).metadata["Plural-Forms"] == "nplurals=2; plural=n != 1;"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"A: b\\nLanguage: fr\\nC: d\\n"', '"A: b\\nLanguage: pt_BR\\nC: d\\n"'),
        ('"A: b\\nX-Language: fr\\n"', '"A: b\\nX-Language: fr\\n"\n"Language: pt_BR\\n"'),
        ('""\n"A: b\\n"\n"Language: fr"', '""\n"A: b\\n"\n"Language: pt_BR"'),
        ('""\n"A: b"', '""\n"A: b\\n"\n"Language: pt_BR\\n"'),
        ('""\r\n"A: b\\n"', '""\r\n"A: b\\n"\r\n"Language: pt_BR\\n"'),
        ('""', '""\n"Language: pt_BR\\n"'),
    ],
)
def test_the_language_is_a_field_of_its_own_on_any_lines(before: str, after: str):
    start = 'msgid ""\nmsgstr '
    done = translate_document("a.po", (start + before).encode(), unchanged, SPLIT, target_lang="pt-BR").content.decode()
    assert done == start + after
    assert polib.pofile(done + "\n").metadata["Language"] == "pt_BR"


@pytest.mark.parametrize(
    "header",
    [
        '"A: b\\nContent-Type: text/plain; charset=ISO-8859-1\\nC: \\"d\\"\\n"',
        '""\n"A: \\"b\\"\\n"\n"Content-Type: text/plain; charset=ISO-8859-1"',
        '""\r\n"Content-Type: text/plain; "\r\n"charset=ISO-8859-1\\n"',
    ],
)
def test_the_charset_is_found_on_any_line_of_the_header(header: str):
    start = f'msgid ""\nmsgstr {header}\n\n'
    done = translate_document(
        "a.po", (start + 'msgid "é"\nmsgstr ""\n').encode("latin-1"), upper, SPLIT, target_lang=None
    )
    assert done.content.decode("latin-1") == start + 'msgid "é"\nmsgstr "É"\n'


def test_lines_may_end_with_a_carriage_return_alone():
    header = 'msgid ""\rmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\r\r'
    text = header + 'msgid ""\r"The café. "\r"Is red."\rmsgstr ""\r'
    done = translate_document("a.po", text.encode("latin-1"), upper, SPLIT, target_lang="de").content.decode("latin-1")
    assert '\rmsgstr ""\r"THE CAFÉ. IS RED."\r' in done
    assert (done.count("\n"), '\r"Language: de' in done) == (0, True)


def test_a_charset_in_a_message_is_text():
    text = 'msgid ""\nmsgstr ""\n"A: b\\n"\n\nmsgid "é\\nContent-Type: x; charset=ISO-8859-1"\nmsgstr ""\n'
    done = translate_document("a.po", text.encode(), upper, SPLIT, target_lang=None)
    assert 'msgstr "É\\n' in done.content.decode()


TEMPLATE = """# SOME DESCRIPTIVE TITLE.
#, fuzzy
msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
{plurals}
#, fuzzy
msgid "a dog"
msgstr "x"

msgid "a cat"
msgstr ""
"""
INTEGER = '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n'


@pytest.mark.parametrize("plurals", ["", INTEGER])
def test_a_template_becomes_a_catalogue(plurals: str):
    data = TEMPLATE.format(plurals=plurals)
    done = translate_document("a.pot", data.encode(), translator(lambda _: ["ä"]), SPLIT, target_lang="pt-BR")
    filled = data.replace("#, fuzzy\n", "", 1).replace("CHARSET", "UTF-8").replace("Language: ", "Language: pt_BR")
    assert done.content.decode() == filled.replace('"a cat"\nmsgstr ""', '"a cat"\nmsgstr "ä"')
    advice = (
        "Plural-Forms in the header belongs to a template, so gettext cannot load the translated file. Make a "
        "catalogue of the template with msginit -l pt_BR, and translate that"
    )
    assert (advice in done.counts.notes) == (plurals != "")


def test_a_catalogue_that_msginit_makes_of_a_template_can_be_loaded(tmp_path):
    if shutil.which("msginit") is None:
        pytest.skip("needs gettext")
    template, source, compiled = tmp_path / "a.pot", tmp_path / "a.po", tmp_path / "a.mo"
    template.write_text(TEMPLATE.format(plurals=INTEGER))
    subprocess.run(
        ["msginit", "--no-translator", "-l", "pl", "-i", template, "-o", source], check=True, capture_output=True
    )
    done = translate_document("a.po", source.read_bytes(), translator(lambda _: ["ż"]), SPLIT, target_lang="pl")
    subprocess.run(["msgfmt", "-o", compiled, "-"], input=done.content, check=True)
    with compiled.open("rb") as file:
        assert gettext.GNUTranslations(file).gettext("a cat") == "ż"


MESSAGES = (
    """
%d of %s files|%(n)d %(b)s|{a} and {b.c[0]:>4}|{n, plural, one {# dog} other {# dogs}} here|<0>one</0> <1/> two
a % b|100%% of %5.2f|%1$s %2$s done|$HOME and ${dir}|<b>x</b> %s <br/> y|mail me@example.org or http://a.b/c?d=%20e.
{{ name }} is {% x %} here|%-10ld|__URL__ see|the %s, %s and %s dogs
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
GARBLED = translator(lambda words: ["%", "d", "{", "%s", "%s%s", "<b>", "__URL__", "}", "100%", "50", "% d"])
NOTHING = translator(lambda _: [])


@pytest.mark.parametrize("flag", ["c-format", "python-format", ""])
@pytest.mark.parametrize(
    "translate", [upper, backwards, GARBLED, NOTHING], ids=["upper", "backwards", "garbled", "nothing"]
)
@pytest.mark.parametrize("message", MESSAGES)
def test_placeholders_are_never_lost_doubled_or_changed(message: str, translate, flag: str):
    """Counted by regular expressions of their own, and by msgfmt where it knows the format."""
    text = f'{"#, " + flag + chr(10) if flag else ""}msgid "{message}"\nmsgstr ""\n'
    new = polib.pofile(HEADER + catalogue(text, translate))[0].msgstr
    for code in re.findall(
        r"%\(?[\w$.]*\)?[sdf]|\$?\{[\w.\[\]:>]+\}|\{n, .*\}\}|</?\w+/?>|%%|__\w+?__|\$HOME|http\S+e", message
    ):
        assert new.count(code) == message.count(code)
    if flag and shutil.which("msgfmt"):
        both = [HEADER + f'#, {flag}\nmsgid "{message}"\nmsgstr "{written}"\n' for written in (message, new)]
        before, after = (
            subprocess.run(["msgfmt", "--check", "-o", "/dev/null", "-"], input=po.encode(), capture_output=True)
            for po in both
        )
        assert after.returncode == before.returncode, after.stderr.decode()


@pytest.mark.parametrize(("flag", "written"), [("", "30 % DES"), ("#, c-format\n", "30 DES")])
def test_a_sign_of_percent_may_come_in_where_it_begins_no_directive(flag: str, written: str):
    percent = translator(lambda _: ["30", "%", "DES"])
    assert catalogue(f'{flag}msgid "thirty percent"\nmsgstr ""\n', percent).endswith(f'msgstr "{written}"\n')


@pytest.mark.parametrize("tag", ["<br/>", "<br />", "<BR>", "<hr/>"])
def test_no_sentence_goes_across_a_line_break(tag: str):
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return upper(lines)

    text = f'msgid "dear friends{tag}they come"\nmsgstr ""\n'
    assert catalogue(text, translate).endswith(f'msgstr "DEAR FRIENDS{tag}THEY COME"\n')
    assert seen == ["dear friends", "they come"]


@pytest.mark.parametrize(
    ("text", "address", "read"),
    [
        ("联系人邮箱是support@example.com请发邮件给我们。", "support@example.com", "support@example.com"),
        ("请访问https://www.example.com/获取", "https://www.example.com/", "https://www.example.com/"),
        ("$name是名字", "$name", "__1__"),
    ],
)
def test_addresses_beside_scripts_without_spaces_are_placeholders(text: str, address: str, read: str):
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return translator(lambda _: ["OLD", "NEW"])(lines)

    new = catalogue(f'msgid "{text}"\nmsgstr ""\n', translate)
    assert seen == [text.replace(address, read)]
    assert new.rpartition("msgstr")[2].count(address) == 1


def test_a_lost_placeholder_is_counted():
    text = HEADER + 'msgid "a %s dog"\nmsgstr ""\n\nmsgid "a %d cat"\nmsgstr ""\n\nmsgid "a bird"\nmsgstr ""\n'
    lose = translator(lambda words: ["x" if "%s" in word else word for word in words])
    counts = translate_document("a.po", text.encode(), lose, SPLIT, target_lang=None).counts
    assert (counts.segments, counts.num_repaired, counts.num_untranslated) == (3, 1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a', "a.po:8: is not a line of a PO file"),
        ('msgid "a"\n', "a.po:8: the entry has no msgid with a msgstr; the catalogue is damaged or cut off"),
        ('msgid "a"\nmsgid "b"\n', "a.po:9: msgid is given twice in an entry; fix it"),
        ('msgid "a"\nmsgstr ""\nmsgstr "b"\n', "a.po:10: msgstr is given twice in an entry; fix it"),
        ('# c\n"a"\n', "a.po:9: a text in quotes belongs to no msgid or msgstr; fix it"),
        ("hello\n", "a.po:8: is not a line of a PO file"),
    ],
)
def test_bad_catalogues_are_refused_with_their_line(text: str, message: str):
    with pytest.raises(InputError) as refusal:
        catalogue(text)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("text", ['msgid "a"\nmsgstr "b"\n', '#, fuzzy\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\n'])
def test_translations_in_another_language_are_replaced_or_the_catalogue_is_refused(text: str):
    with pytest.raises(InputError) as refusal:
        catalogue(text, target_lang="pt-BR")
    assert str(refusal.value) == (
        "a.po:4: its Language is en and it has translations, but the model translates into pt-BR. Two languages would "
        "stand in one file. Correct Language if it is wrong, take the translations out, or replace them with "
        "nmt translate --overwrite"
    )
    assert '"Language: pt_BR\\n"' in catalogue(text, target_lang="pt-BR", overwrite=True)


@pytest.mark.parametrize("language", ["", "pt", "PT_PT", "pt@latin", "Portuguese"])
def test_a_catalogue_in_the_same_language_or_in_none_keeps_its_translations(language: str):
    text = 'msgid "a"\nmsgstr "b"\n'
    data = (HEADER + text).replace("Language: en", f"Language: {language}").encode()
    done = translate_document("a.po", data, upper, SPLIT, target_lang="pt-BR").content.decode()
    assert done == HEADER.replace("Language: en", "Language: pt_BR") + text


@pytest.mark.parametrize("language", ["pt_BR", "pt-br", "pt@latin", "pt_BR.UTF-8"])
def test_a_catalogue_keeps_its_region_where_the_model_names_none(language: str):
    header = HEADER.replace("Language: en", f"Language: {language}")
    done = translate_document("a.po", (header + 'msgid "a"\nmsgstr ""\n').encode(), upper, SPLIT, target_lang="pt")
    assert done.content.decode() == header + 'msgid "a"\nmsgstr "A"\n'


def test_a_catalogue_whose_encoding_lacks_a_character_becomes_utf_8():
    data = (HEADER.replace("UTF-8", "ISO-8859-1") + '# é\nmsgid "a"\nmsgstr ""\n').encode("latin-1")
    done = translate_document("a.po", data, translator(lambda _: ["€"]), SPLIT, target_lang=None)
    assert done.content.decode() == HEADER + '# é\nmsgid "a"\nmsgstr "€"\n'
    assert done.counts.notes == [
        "its encoding, iso8859-1, lacks characters of the translation, so the output is in UTF-8"
    ]


@pytest.mark.parametrize(
    ("rule", "sources"),
    [
        ("nplurals=2; plural=n != 1;", "one many"),
        ("nplurals=2; plural=(n > 1);", "one many"),
        ("nplurals=1; plural=0;", "many"),
        ("nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);", "many many many many"),
        (
            "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
            "many one many many many many",
        ),
        ("nplurals=2; plural=n != 0;", "many many"),
        ("nplurals=2; plural=n/0;", "many many"),
    ],
)
def test_the_form_for_one_comes_from_the_singular(rule: str, sources: str):
    header = HEADER.replace("nplurals=2; plural=n != 1;", rule)
    text = header + 'msgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    done = translate_document("a.po", text.encode(), upper, SPLIT, target_lang=None).content.decode()
    forms = polib.pofile(done)[0].msgstr_plural
    assert [forms[number] for number in sorted(forms)] == [
        {"one": "A FILE", "many": "%d FILES"}[source] for source in sources.split()
    ]


PLURAL = 'msgid "one"\nmsgid_plural "many"\n'
EMPTY = 'msgstr[0] ""\nmsgstr[1] ""\n'


@pytest.mark.parametrize(
    ("lost", "forms"), [("many", ("ONE", "many")), ("one", ("one", "MANY")), ("", ("ONE", "MANY"))]
)
def test_all_plural_forms_are_written_or_none(lost: str, forms: tuple[str, str]):
    without = translator(lambda words: [word.upper() for word in words if word != lost])
    assert catalogue(PLURAL + EMPTY, without) == PLURAL + 'msgstr[0] "{}"\nmsgstr[1] "{}"\n'.format(*forms)


def test_a_plural_whose_forms_have_no_translation_stays_empty():
    assert catalogue(PLURAL + EMPTY, translator(lambda _: [])) == PLURAL + EMPTY


@pytest.mark.parametrize("rest", ['msgstr[1] ""\n', ""])
def test_a_plural_with_one_empty_form_is_completed(rest: str):
    assert catalogue(f'{PLURAL}msgstr[0] "un"\n{rest}') == f'{PLURAL}msgstr[0] "un"\nmsgstr[1] "MANY"\n'


@pytest.mark.parametrize("message", ['no \\"%(query)s\\" found', 'no \\"<em>%(query)s</em>\\" found', 'to \\"${x}\\"?'])
def test_quotes_around_a_placeholder_that_comes_back_are_escaped(message: str):
    text = f'#, python-format\nmsgid "{message}"\nmsgstr ""\n'
    new = polib.pofile(HEADER + catalogue(text, translator(lambda _: ["WORD"])))[0].msgstr
    assert new.count('"') in (0, 2)
    assert all(new.count(code) == message.count(code) for code in ("%(query)s", "${x}", "<em>", "</em>"))
