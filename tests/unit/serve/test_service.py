"""The reading of a request, and how its texts are asked for, with an engine of the test's own."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
from starlette.requests import Request

from nmt_cli.data.language_profile import LanguageProfile
from nmt_cli.documents.sentences import splitter
from nmt_cli.serve.directions import Directions
from nmt_cli.serve.engine_interface import Cancellation, Counts
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.requests import FIELDS, Fields, File, RequestRefused, fields_of
from nmt_cli.serve.service import Service
from nmt_cli.serve.texts import Direction
from nmt_cli.system.errors import InputError
from nmt_cli.translation.pool import TaskCancelled
from nmt_cli.translation.results import TranslatedLine, Translation
from nmt_cli.translation.sentence_tasks import Capabilities


class Upper:
    """An engine that writes capitals, and remembers what it was asked together."""

    capabilities = Capabilities(alignment=False, confidence=False)

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def translate(self, sentences, wanted, cancellation=None):
        del wanted, cancellation
        self.asked += [list(sentences)] if sentences else []
        return [TranslatedLine(text, (Translation(text.upper(), 0.0, 0.0),)) for text in sentences]

    def counts(self) -> Counts:
        return Counts()


def service(*pairs: str, **limits: int) -> Service:
    directions = [Direction(*pair.split("-", 1), Upper(), splitter("en")) for pair in pairs]
    return Service(Directions(directions, {}), Limits(**limits), Metrics(), lambda: None, needs_key=False)


def ask(served: Service, **fields: object) -> object:
    return served.translate(served.task(Fields(fields, {}), Cancellation()), Cancellation())["translatedText"]


@pytest.mark.parametrize(
    ("served", "asked", "found"),
    [
        (("en_GB-fr", "fr-en"), ("en", "fr"), ("en_GB", "fr")),
        (("en_GB-fr", "fr-en"), ("fr", "en-GB"), ("fr", "en")),
        (("en_GB-fr", "fr-en"), ("EN_us", "fr"), ("en_GB", "fr")),
        (("en-fr", "en_GB-fr"), ("en-gb", "fr"), ("en_GB", "fr")),
        (("en-fr", "en_GB-fr"), ("en-US", "fr"), ("en", "fr")),
        (("en-fr_CA", "en-fr"), ("en", "fr-FR"), ("en", "fr_CA")),
    ],
)
def test_the_variant_of_a_language_is_the_one_that_is_served(served, asked, found):
    given = service(*served)
    source, target = asked
    task = given.task(Fields({"q": "a", "source": source, "target": target}, {}), Cancellation())
    assert (task.sources, task.target) == ([found[0]], found[1])


@pytest.mark.parametrize(("pair", "code"), [("zh-Hans-zh-Hant", "zh-Hans"), ("en-GB-en-US", "en-GB")])
def test_a_text_stays_as_it_is_in_its_own_variant(pair, code):
    half = (len(pair) - 1) // 2
    directions = Directions([Direction(pair[:half], pair[half + 1 :], Upper(), splitter("en"))], {})
    served = Service(directions, Limits(), Metrics(), lambda: None, needs_key=False)
    assert ask(served, q="a dog", source=code, target=code) == "a dog"
    assert ask(served, q="a dog", source=code, target=pair[half + 1 :]) == "A DOG"


@pytest.mark.parametrize("source", ["de", "auto", "AUTO"])
def test_a_text_in_a_language_that_is_not_translated_into_the_target_is_refused(source):
    texts = {"en": ["where is the red car", "the house is small"], "de": ["wo ist das rote auto", "das haus ist klein"]}
    profiles = {language: LanguageProfile.of(lines * 20) for language, lines in texts.items()}
    directions = Directions([Direction("de", "fr", Upper(), splitter("de")), *service("en-de").directions], profiles)
    served = Service(directions, Limits(), Metrics(), lambda: None, needs_key=False)
    with pytest.raises(RequestRefused, match="en is not available as a target language from de"):
        ask(served, q="wo ist das rote auto", source=source, target="en")
    assert ask(served, q="where is the red car", source="auto", target="en") == "where is the red car"


def test_a_direction_that_is_not_served_is_refused():
    with pytest.raises(RequestRefused, match="fr is not available as a target language from de"):
        service("en-fr", "de-en").task(Fields({"q": "a", "source": "de", "target": "fr"}, {}), Cancellation())


@pytest.mark.parametrize("name", ["source", "target"])
def test_the_code_of_a_language_is_not_as_long_as_a_body(name):
    with pytest.raises(RequestRefused, match=r"^-{40} is not supported$"):
        ask(service("en-fr"), q="a", **{"source": "en", "target": "fr", name: "-" * 10_000_000})


@pytest.mark.parametrize(("most", "has_weights"), [(12, True), (11, False)])
def test_an_answer_has_so_many_weights_or_links_alone(monkeypatch, most, has_weights):
    weights = np.full((2, 3), 0.5)
    found = Translation("A B", 0.0, 0.0, weights_with_end=np.hstack([weights, weights[:, :1]]))
    monkeypatch.setattr(
        Upper, "translate", lambda self, sentences, *_: [TranslatedLine(text, (found,)) for text in sentences]
    )
    served = service("en-fr", weights=most)
    task = served.task(
        Fields({"q": ["a b c", "c b a"], "source": "en", "target": "fr", "alignment": True}, {}), Cancellation()
    )
    (first,), (second,) = served.translate(task, Cancellation())["alignment"]
    for one in (first, second):
        assert (one["weights"] is not None) == has_weights
        assert len(one["links"]) == 2


@pytest.mark.parametrize("field", [{}, {"alternatives": 1}, {"alignment": True}])
def test_the_limit_of_the_operator_holds_for_every_request(field):
    with pytest.raises(RequestRefused, match=r"request \(101\) exceeds text limit \(100\)"):
        ask(service("en-fr", characters=100), q="a" * 101, source="en", target="fr", **field)


def test_the_pieces_of_html_in_a_list_are_searched_together():
    served = service("en-fr")
    pieces = ["<p>one dog</p><p>a <b>cat</b></p>", "<p>one dog</p>", "<p title='tip'>12</p>"]
    found = ask(served, q=pieces, source="en", target="fr", format="html")
    assert found == ["<p>ONE DOG</p><p>A <b>CAT</b></p>", "<p>ONE DOG</p>", "<p title='TIP'>12</p>"]
    assert next(iter(served.directions)).engine.asked == [["one dog", "a cat", "tip"]]


@pytest.mark.parametrize("source", ["en", "auto"])
@pytest.mark.parametrize("field", [{}, {"alignment": True}])
def test_an_error_in_a_piece_of_html_names_the_piece(source, field):
    profiles = {code: LanguageProfile.of(["one dog"] * 20) for code in ("en", "fr")}
    served = Service(Directions(list(service("en-fr").directions), profiles), Limits(), Metrics(), lambda: None,
                     needs_key=False)  # fmt: skip
    with pytest.raises(
        InputError, match=r"^q\[2\] \(counted from 0\):2: the page ends within a tag or a comment; it is cut"
    ):
        ask(
            served,
            q=["<p>one</p>", " ", "two\n<a href='x", "three"],
            source=source,
            target="fr",
            format="html",
            **field,
        )
    with pytest.raises(InputError, match=r"^q:1: the page ends within <script>; it is cut off"):
        ask(served, q="<script>a", source=source, target="fr", format="html", **field)


def test_a_zero_byte_in_html_is_dropped():
    """Its paragraph was not translated."""
    assert ask(service("en-fr"), q="<p>a\0 dog</p>", source="en", target="fr", format="html") == "<p>A DOG</p>"


def test_a_prefix_for_a_text_without_letters_is_refused():
    with pytest.raises(InputError, match="prefix goes with a text that has letters; this one is not translated"):
        ask(service("en-fr"), q="2024", source="en", target="fr", prefix="En ")


def test_characters_that_no_model_reads_are_not_counted():
    served = Service(Directions([Direction("zh-Hans", "zh-Hant", Upper(), splitter("zh"))], {}), Limits(), Metrics(),
                     lambda: None, needs_key=False)  # fmt: skip
    assert ask(served, q="a dog", source="zh-Hant", target="zh-Hant") == "a dog"
    assert "\nnmt_characters_total 0\n" in served.metrics.text([])
    assert ask(served, q=["a dog", "cats"], source="zh-Hans", target="zh-Hant") == ["A DOG", "CATS"]
    assert "\nnmt_characters_total 9\n" in served.metrics.text([])


@pytest.mark.parametrize(
    ("name", "found"), [("a.PDF", "ending .pdf"), ("a" * 80, "file name without an ending"), ("a.tar.", None)]
)
def test_a_file_of_another_format_is_told_the_endings(name, found):
    fields = Fields({"source": "en", "target": "fr"}, {"file": File(name, b"a")})
    message = f"^Invalid request: file format not supported: {found or '.*'}; use one of .txt, .*.po"
    with pytest.raises(RequestRefused, match=message):
        service("en-fr").file_task(fields, Cancellation())


def test_a_catalogue_in_another_language_gets_advice_that_a_client_can_follow():
    file = File("a.po", b'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr "b"\n')
    served = service("en-fr")
    task = served.file_task(Fields({"source": "en", "target": "fr"}, {"file": file}), Cancellation())
    with pytest.raises(InputError, match=r"take the translations out, or replace them with nmt translate --overwrite$"):
        served.translate_file(task, Cancellation())


@pytest.mark.parametrize("when", ["split", "translated"])
@pytest.mark.parametrize("name", ["a.html", "a.txt"])
def test_work_on_a_document_ends_when_its_client_has_left(when, name):
    """Sentences were found and put back to the end of the document."""
    cancellation, splits = Cancellation(), []

    class Left(Upper):
        def translate(self, sentences, wanted, cancellation=None):
            assert when == "translated"
            cancellation.set()
            return super().translate(sentences, wanted)

    def split(text):
        splits.append(text)
        if when == "split":
            cancellation.set()
        return [text]

    served = Service(
        Directions([Direction("en", "fr", Left(), split)], {}), Limits(), Metrics(), lambda: None, needs_key=False
    )
    values = {"source": "en", "target": "fr"}
    file = File(name, b"<p>one dog</p>\n<p>two cats</p>\n<p>three birds</p>\n")
    task = served.file_task(Fields(values, {"file": file}), cancellation)
    with pytest.raises(TaskCancelled):
        served.translate_file(task, cancellation)
    assert len(splits) == (1 if when == "split" else 3)


def test_texts_of_white_space_come_back_as_they_are_and_are_not_asked_for():
    served = service("en-fr")
    given = ["", "a dog", "  ", "\n", "\r\n \u3000"]
    assert ask(served, q=given, source="en", target="fr") == ["", "A DOG", *given[2:]]
    assert ask(served, q=" \t", source="en", target="fr", format="html") == " \t"
    (direction,) = served.directions
    assert direction.engine.asked == [["a dog"]]


def test_line_ends_of_a_text_are_kept_as_they_came():
    fields = Fields({"q": "a dog\r\na cat\nb\r\n", "source": "en", "target": "fr"}, {})
    served = service("en-fr")
    found = served.translate(served.task(fields, Cancellation()), Cancellation())
    assert found["translatedText"] == "A DOG\r\nA CAT\nB\r\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"q":\n "a" "b"}', "line 2, column 6: Expecting ',' delimiter"),
        (b"{'q': 1}", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"q": "é"}'.encode("latin-1"), "the body is not UTF-8 (byte 8)"),
        (b" \n", "the body is empty"),
        (b"", "the body is empty"),
        (b'{"q": ' + b"1" * 5_000 + b"}", "a number is too long"),
        (b'{"q": ' + b"[" * 50_000, "its values are nested too deeply"),
        (b"[]", "the body must be an object"),
    ],
)
def test_json_that_is_wrong_is_refused_with_its_place(body, message):
    with pytest.raises(RequestRefused) as refusal:
        read(body, "application/json")
    assert str(refusal.value) == f"Invalid JSON format: {message}"


@pytest.mark.parametrize(("value", "number"), [("2.0", 2), ("-1.0", 0), ("2", 2), ('"2"', 2), ("true", 1)])
def test_a_whole_number_may_be_written_with_a_point(value, number):
    assert read(b'{"n": %s}' % value.encode(), "application/json").number("n", most=10) == number


@pytest.mark.parametrize("value", ["2.5", "1e400", "-1e400", "NaN", '"2.0"'])
def test_a_number_that_is_not_whole_is_refused(value):
    with pytest.raises(RequestRefused, match="n parameter is not a number"):
        read(b'{"n": %s}' % value.encode(), "application/json").number("n", most=10)


# Forms ----------------------------------------------------------------------------------------------------------------


def read_form(*parts: tuple[str, bytes]) -> Fields:
    """Return the fields of a form of parts (parameters and headers after `form-data; `, content)."""
    body = b"".join(
        b"--x\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    return read(body + b"--x--\r\n", "multipart/form-data; boundary=x")


def read(body: bytes, kind: str) -> Fields:
    scope = {"type": "http", "headers": [(b"content-type", kind.encode())], "query_string": b""}
    return fields_of(Request(scope), body, Limits())


@pytest.mark.parametrize("text", ["Привет".encode("cp1251"), "Où est l’été ".encode() + b"\xff"])
def test_a_text_of_a_form_that_is_not_utf_8_is_refused(text):
    """It became text in Latin letters."""
    with pytest.raises(RequestRefused, match="Invalid request: q parameter is not UTF-8"):
        read_form(('name="q"', text))
    with pytest.raises(RequestRefused, match="not UTF-8"):
        read_form(('name="q"\r\nContent-Type: text/plain; charset=utf-8', text))
    assert read_form(('name="q"', "Où est l’été".encode())).text("q") == "Où est l’été"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("filename=\"=?utf-8?B?w6l0w6kuc3J0?=\"; filename*=utf-8''%C3%A9t%C3%A9.srt", "été.srt"),
        ("filename*=utf-8''%C3%A9t%C3%A9%22.txt", "été_.txt"),
        ("filename*=UTF-8''a.txt; filename=b.txt", "a.txt"),
        ('filename="=?utf-8?B?w6l0w6kuc3J0?="', "été.srt"),
        ('filename="=?utf-8?Q?=FF?= =?x?Q?=E9?=.txt"', "=?utf-8?Q?=FF?= =?x?Q?=E9?=.txt"),
        ('filename="été.txt"', "été.txt"),
    ],
)
def test_the_name_of_a_file_is_read_as_clients_write_it(given, name):
    assert read_form((f'name="file"; {given}', b"a")).files == {"file": File(name, b"a")}


def test_a_part_of_a_form_in_base64_is_refused():
    """Its letters were translated."""
    with pytest.raises(RequestRefused, match=r"encoded \(base64\); send its bytes as they are"):
        read_form(('name="q"\r\nContent-Transfer-Encoding: BASE64', b"YSBkb2c="))
    assert read_form(('name="q"\r\nContent-Transfer-Encoding: 8bit', b"a dog")).text("q") == "a dog"


def test_a_field_that_is_given_twice_is_refused_by_its_name():
    message = "Invalid request: source parameter is given twice; send it once"
    with pytest.raises(RequestRefused, match=message):
        read_form(('name="source"', b"en"), ('name="source"', b"fr"))
    with pytest.raises(RequestRefused, match=message):
        read(b"source=en&q=a&source=fr", "application/x-www-form-urlencoded")
    assert read(b"x=1&x=2&q=a", "application/x-www-form-urlencoded").text("q") == "a"


def test_the_known_fields_are_those_of_the_description():
    spec = json.loads(resources.files("nmt_cli").joinpath("serve/spec.json").read_text(encoding="utf-8"))
    posts = [path["post"] for path in spec["paths"].values() if "post" in path]
    assert {one["name"] for post in posts for one in post["parameters"]} == FIELDS | {"file"}
