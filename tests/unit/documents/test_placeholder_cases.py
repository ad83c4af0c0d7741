"""Placeholders as people write them in catalogues, XLIFF and plain text: each comes through once."""

from __future__ import annotations

import re

import pytest
from document_translators import SPLIT, backwards, translator, unchanged, upper

from nmt_cli.documents.document import DocumentCounts, translate_document, translate_paragraphs
from nmt_cli.translation.results import Translation

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
forgetful = translator(lambda words: ["das", "schöne", "Huhn"][: len(words)])
reverse = translator(lambda words: words[::-1], lambda n: [*range(n)][::-1])
TRANSLATORS = (unchanged, upper, backwards, forgetful)


def catalogue(*texts: str, translate=upper) -> list[str]:
    """The translations of some messages."""
    before = HEADER + "\n".join(f'msgid "{text}"\nmsgstr ""\n' for text in texts)
    done = translate_document("a.po", before.encode(), translate, SPLIT, target_lang=None).content.decode()
    return re.findall(r'(?m)^msgstr "(.*)"$', done)[1:]


def unit(text: str, translate=upper) -> str:
    before = f'<xliff version="1.2"><file><body><trans-unit><source>{text}</source></trans-unit></body></file></xliff>'
    done = translate_document("a.xlf", before.encode(), translate, SPLIT, target_lang=None).content.decode()
    return done.partition("<target>")[2].partition("</target>")[0]


def texts(*lines: str, translate=upper) -> list[str]:
    """The translations of plain texts, as the server and --paragraphs give them."""
    return [found.text for found in translate_paragraphs(lines, translate, SPLIT, DocumentCounts())]


@pytest.mark.parametrize("translate", TRANSLATORS)
@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("The red car %id% of %count% is in the house for %hours% hours.", ["%id%", "%count%", "%hours%"]),
        ("The %name% and {{ width }} are red.", ["%name%", "{{ width }}"]),
        ("The %1$s of ${x} and #{y} is %@.", ["%1$s", "${x}", "#{y}", "%@"]),
        ("The [url]https://a.b/c[/url] is red.", ["[url]", "https://a.b/c", "[/url]"]),
        (
            "Type ``--house`` or see :py:meth:`~Car.get` or `car.open()`.",
            ["``--house``", ":py:meth:`~Car.get`", "`car.open()`"],
        ),
        ("It is https://example.org/a?b or joe@example.org now.", ["https://example.org/a?b", "joe@example.org"]),
        ("The house says [1]_ that |version| is $t(nav:home) old.", ["[1]_", "|version|", "$t(nav:home)"]),
    ],
)  # fmt: skip
def test_placeholders_come_through_once_each_everywhere(text, codes, translate):
    for found in (*catalogue(text, translate=translate), unit(text, translate), *texts(text, translate=translate)):
        assert {code: found.count(code) for code in codes} == dict.fromkeys(codes, 1)


def test_names_of_laravel_and_drupal_are_kept_where_the_file_has_several():
    laravel = "The car of :name is red, and :count keys are in the house."
    drupal = "The house of @user has %count trees and !link."
    assert catalogue(laravel, drupal) == [
        "THE CAR OF :name IS RED, AND :count KEYS ARE IN THE HOUSE.", "THE HOUSE OF @user HAS %count TREES AND !link.",
    ]  # fmt: skip
    assert texts(laravel, drupal)[1].count("@user") == 1
    assert texts("Note :this is a word.") == ["NOTE :THIS IS A WORD."]


def test_the_sign_of_a_key_goes_before_a_letter_and_never_before_a_placeholder():
    messages = ("&Open {name}", "Save &File %s", "Call &Anne foo_bar()")
    other = translator(lambda words: [*words[-1:], "x"], lambda n: [n - 1] * n)
    assert catalogue(*messages, translate=other) == ["{name} &x", "%s &x", "foo_bar() &x"]
    lost = translator(lambda words: words[-1:], lambda n: [n - 1] * n)
    assert catalogue(*messages, translate=lost) == ["{name}", "%s", "foo_bar()"]


def test_a_translation_that_is_only_an_unexpected_placeholder_leaves_the_text():
    messages = ("The house is red.", "A &house")
    assert catalogue(*messages, translate=translator(lambda words: ["%s"])) == list(messages)


def test_a_word_is_read_without_the_sign_of_its_key_which_comes_back():
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    messages = ("Where is the &red car?", "Where is the _red car?", "Where is the r&ed car?")
    assert catalogue(*messages, translate=translate) == [
        "WHERE IS THE &RED CAR?", "WHERE IS THE _RED CAR?", "WHERE IS THE &RED CAR?",
    ]  # fmt: skip
    assert set(lines) == {"Where is the red car?"}
    assert catalogue(*messages, translate=unchanged) == list(messages)
    assert catalogue("R&D and AT&T", "my_file and a_b") == ["R&D AND AT&T", "my_file AND a_b"]
    menu = catalogue("_Open", "_File", "E_xit", "Set max_size to a value that is not too large for this computer")
    assert menu == ["_OPEN", "_FILE", "_EXIT", "SET max_size TO A VALUE THAT IS NOT TOO LARGE FOR THIS COMPUTER"]


def test_the_sign_of_a_key_is_written_as_the_file_writes_it():
    """Fails if `&` is written into XML, where the model has read `amp;Open`."""
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    units = "".join(
        f"<trans-unit><source>{text}</source></trans-unit>" for text in ("&amp;Open the dog", "E&#38;xit the house")
    )
    before = f'<xliff version="1.2"><file><body>{units}</body></file></xliff>'
    done = translate_document("a.xlf", before.encode(), translate, SPLIT, target_lang=None).content.decode()
    assert re.findall("<target>(.*?)</target>", done) == ["&amp;OPEN THE DOG", "&#38;EXIT THE HOUSE"]
    assert lines == ["Open the dog", "Exit the house"]


@pytest.mark.parametrize("text", ["Marks&Spencer sells dogs.", "The fish&chips here.", "Press &Save now."])
def test_pages_and_subtitles_have_no_keys_and_names_of_two_words_are_none(text: str):
    page = "".join(f"<p>{text.replace('&', '&amp;')}</p>" for _ in range(3))
    assert translated("a.html", page) == page.upper().replace("<P>", "<p>").replace("</P>", "</p>").replace(
        "AMP", "amp"
    )
    cues = "".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{text}\n\n" for n in (1, 2, 3))
    assert translated("a.srt", cues).count(text.upper()) == 3
    if "Save" not in text:
        assert texts(text, text) == [text.upper()] * 2
        assert catalogue(f"a {text}", f"b {text}") == [f"A {text.upper()}", f"B {text.upper()}"]


def translated(name: str, text: str) -> str:
    return translate_document(name, text.encode(), upper, SPLIT, target_lang=None).content.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%{user} wrote to %{friend} dog", "dog %{friend} to wrote %{user}"),
        ("%1$s wrote to %2$s dog", "dog %2$s to wrote %1$s"),
        ("%s wrote to %d dog", "dog %s to wrote %d"),
        ("%lld wrote to %s dog", "dog %lld to wrote %s"),
        ("{name} wrote to {friend} dog", "dog {friend} to wrote {name}"),
        ("{} dogs cost {:.2f} here", "here {} cost dogs {:.2f}"),
    ],
)
def test_arguments_without_a_name_alone_keep_their_order(text: str, expected: str):
    assert catalogue(text, translate=reverse) == [expected]


def test_names_of_drupal_may_change_their_order():
    (found, _) = catalogue("%user wrote to %friend dog", "%count dogs and @name cats", translate=reverse)
    assert found == "dog %friend to wrote %user"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("欢迎%name%来。", "%name%"),
        ("打开%1文件。", "%1"),
        ("设置max_size的值。", "max_size"),
        ("请看[1]_的书。", "[1]_"),
        ("版本|version|的书。", "|version|"),
        ("号550e8400-e29b-41d4-a716-446655440000的书。", "550e8400-e29b-41d4-a716-446655440000"),
        ("见:ref:`index`的书。", ":ref:`index`"),
        ("%name%님 안녕", "%name%"),
        ("파일 %1을 열기", "%1"),
        ("`x`을 열기", "`x`"),
        ("بـmax_size الآن", "max_size"),
        ("ตั้งmax_sizeเดี๋ยวนี้", "max_size"),
    ],
)
def test_placeholders_beside_letters_of_other_scripts_are_kept(text: str, code: str):
    for translate in TRANSLATORS:
        assert catalogue(text, translate=translate)[0].count(code) == 1
        assert unit(text, translate).count(code) == 1
        assert texts(text, translate=translate)[0].count(code) == 1
    assert catalogue(text, translate=unchanged) == [text]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Set max_size now.", "现在设置max_size。"),
        ("Set max_size now.", "ตั้งmax_sizeเดี๋ยวนี้"),
        ("Set max_size now.", "max_size를 지금 설정"),
        ("Set max_size now.", "بـmax_size الآن"),
        ("Write to joe@example.org now.", "今すぐjoe@example.orgに書いて。"),
        ("Open https://example.org/a now.", "今すぐhttps://example.org/aを開く。"),
        ("Open %1 dog.", "打开%1狗。"),
        ("Open %name% dog.", "打开%name%狗。"),
        ("See [1]_ dog.", "看[1]_狗。"),
    ],
)
def test_a_placeholder_that_the_model_joins_to_a_letter_of_another_script_is_there(text: str, found: str):
    def translate(lines):
        return [Translation(found, 0.0, 0.0) for _ in lines]

    assert texts(text, translate=translate) == [found]
    assert catalogue(text, translate=translate) == [found]


@pytest.mark.parametrize(
    "text",
    ["See [[p]]https://e.org/a now", "Use `x` and __1__ dog", "Use $id and __1__ dog", "a max_size[[p]]max_size b"],
)
def test_placeholders_that_touch_or_look_like_those_of_the_program_are_not_mixed_up(text: str):
    assert texts(text, translate=unchanged) == catalogue(text, translate=unchanged) == [text]
    assert texts(text, translate=reverse) == catalogue(text, translate=reverse) == [" ".join(reversed(text.split()))]


@pytest.mark.parametrize(
    "text",
    [
        "dog " + "{a}" * 3_000,
        "dog " + "1{a}" * 3_000,
        "&dog " * 3_000,
        "dog " + "".join(f"<{{a{n}}}>" for n in range(3_000)),
    ],
)
def test_many_codes_that_touch_take_linear_time(text: str):
    """Seen to take the square of their number: minutes."""
    assert catalogue(text.strip(), "&cat", translate=unchanged) == [text.strip(), "&cat"]


def test_restructured_text_keeps_roles_targets_and_emphasis():
    assert catalogue("Where is the :ref:`red car <red-car>`?") == ["WHERE IS THE :ref:`RED CAR <red-car>`?"]
    text = "The **red** car is in the *big* house, as `our page <https://example.org/a>`_ says [1]_."
    assert catalogue(text) == [
        "THE **RED** CAR IS IN THE *BIG* HOUSE, AS `OUR PAGE <https://example.org/a>`_ SAYS [1]_."
    ]


def test_markdown_and_bbcode_keep_links_and_code():
    text = "The [red car](docs/car.md) is in the [big house](https://example.org/h), see `car.open()`."
    expected = "THE [RED CAR](docs/car.md) IS IN THE [BIG HOUSE](https://example.org/h), SEE `car.open()`."
    assert catalogue(text) == texts(text) == [expected]
    text = "Where is the [b]red[/b] car? It is [url=https://example.org/x]in the house[/url]."
    expected = "WHERE IS THE [b]RED[/b] CAR? IT IS [url=https://example.org/x]IN THE HOUSE[/url]."
    assert catalogue(text) == texts(text) == [expected]
    assert texts("It is <color=#F00>red</color> here.") == ["IT IS <color=#F00>RED</color> HERE."]


def test_a_line_end_of_two_characters_ends_a_sentence_and_an_escaped_quote_is_one():
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    text = r"Where is the red car?\nTheir doctor is rich.\n\nIt\'s %1$@ and %lld."
    assert unit(text, translate) == r"WHERE IS THE RED CAR?\nTHEIR DOCTOR IS RICH.\n\nIT\'S %1$@ AND %lld."
    assert lines == ["Where is the red car?", "Their doctor is rich.", "It's %1$@ and %lld."]


def test_a_line_end_in_plain_text_stays_whole():
    assert texts("Where is the red car?<br />Their doctor is rich.") == [
        "WHERE IS THE RED CAR?<br />THEIR DOCTOR IS RICH."
    ]
    assert texts("Where is<br />the red car?", translate=forgetful)[0].count("<br />") == 1
    assert texts("<i>Where is the red car?</i>") == ["<i>WHERE IS THE RED CAR?</i>"]


def test_what_is_put_back_is_counted():
    counts = DocumentCounts()
    translate_paragraphs(["The car of %s is red."], forgetful, SPLIT, counts)
    assert counts.num_repaired == 1
    assert "in 1 of 1 text the model lost a placeholder" in counts.warnings()[0]


def test_texts_without_codes_stay_as_the_model_says_them():
    said = translator(lambda words: [*words, "%", "{x}", "<b>"])
    assert texts("A red car.", translate=said) == ["A red car. % {x} <b>"]
