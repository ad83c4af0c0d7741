"""`nmt serve` on a real socket: the interface of LibreTranslate, its clients, and what the server refuses."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import run_here, start_nmt
from serving import running_server

TEXT = "The car is red. Where is the house?\n\n  The cat sees the dog.\nThe sun"
HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy")


@pytest.fixture(scope="module")
def server(model):
    with running_server("--model", model, "--max-characters", "20000") as running:
        yield running


@pytest.fixture(scope="module")
def paragraphs(model, tmp_path_factory):
    """Return the output of `nmt translate --paragraphs` for a text."""

    def translate(text, *options):
        path = tmp_path_factory.mktemp("text") / "text"
        path.write_bytes(text.encode() + b"\n")
        result = run_here("translate", str(path), "--model", str(model), "--paragraphs", "--threads", "1", *options)
        assert result.code == 0, result.err
        return result.out.decode().removesuffix("\n")

    return translate


# Translation ----------------------------------------------------------------------------------------------------------


def test_a_text_is_translated_as_paragraphs_are(server, paragraphs):
    assert server.translate(TEXT) == {"translatedText": paragraphs(TEXT)}


@pytest.mark.parametrize("blank", ["", " \t", "\u00a0", "\u0085", "\u2028", "\x0b", "\r"])
def test_a_line_of_white_space_is_empty_as_with_paragraphs(server, paragraphs, blank):
    text = f"The car\n{blank}\nThe cat"
    answer = server.translate(text, confidence=True)
    assert answer["translatedText"] == paragraphs(text)
    assert answer["translatedText"].split("\n")[1] == ""
    assert len(answer["word_confidence"]) == len(answer["translatedText"].split())
    assert server.translate([blank + " ", "The car"])["translatedText"][0] == blank + " "


def test_the_answer_is_the_same_whoever_else_is_asking(server, paragraphs, corpus):
    lines = (corpus / "test.en").read_text().splitlines()
    texts = ["\n".join(lines[start : start + 5]) for start in range(0, 30, 3)]
    with ThreadPoolExecutor(len(texts)) as pool:
        found = [answer["translatedText"] for answer in pool.map(server.translate, texts)]
    assert found == [paragraphs(text) for text in texts]


def test_a_list_gives_a_list(server, paragraphs):
    texts = ["The car is red.", "", TEXT]
    assert server.translate(texts)["translatedText"] == [paragraphs(text) if text else "" for text in texts]


def test_form_json_address_and_multipart_ask_the_same(server):
    text = "Où est l'été & <b>?"
    as_form = f"q={quote(text)}&source=en&target=fr".encode()
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {"q": text, "source": "en", "target": "fr", "strange": "ignored"}.items()
    )
    answers = [
        server.ask("/translate", data=as_form),
        server.ask(f"/translate?{as_form.decode()}&strange=ignored", data=b""),
        server.ask("/translate", {"q": text, "source": "en", "target": "fr", "strange": {"a": 1}}),
        server.ask("/translate", data=(parts + "--x--\r\n").encode(), Content_Type="multipart/form-data; boundary=x"),
    ]
    assert [answer.status for answer in answers] == [200] * 4
    assert len({answer.json["translatedText"] for answer in answers}) == 1


@pytest.mark.parametrize("path", ["//translate", "/translate/", "//translate//"])
def test_an_address_that_a_client_has_joined_itself_translates_too(server, path):
    fields = {"q": "The car", "source": "en", "target": "fr"}
    assert server.ask(path, fields).json == server.ask("/translate", fields).json


def test_html_keeps_its_tags(server):
    found = server.translate('<p class="a">The car is <b>red</b>.</p><!-- note -->', format="html")["translatedText"]
    assert found.startswith('<p class="a">')
    assert found.count("<b>") == found.count("</b>") == 1
    assert found.endswith("</p><!-- note -->")


@pytest.mark.parametrize(
    "head", ["<meta charset='iso-8859-1'>", "<meta charset='nonsense'>", "<?xml version='1.0' encoding='utf-16'?>"]
)
def test_an_encoding_that_html_declares_means_nothing_in_a_request(server, head):
    body = "<p>The car is red – 😀.</p>"
    alone = server.translate(body, format="html")["translatedText"]
    assert server.translate(head + body, format="html")["translatedText"] == head + alone


def test_the_language_is_detected_where_that_is_asked(server):
    found = server.translate("Where is the red car, and the house of the cat?", source="auto")
    assert found["detectedLanguage"]["language"] == "en"
    assert 50 < found["detectedLanguage"]["confidence"] <= 100
    text = "Où est la voiture rouge, et la maison du chat ?"
    assert server.translate([text], source="auto")["translatedText"] == [text]  # it is in the target language already
    assert server.ask("/detect", {"q": text}).json[0]["language"] == "fr"
    assert server.ask("/detect", data=b"q=%E4%B8%AD%E6%96%87").json[0]["confidence"] < 30
    page = '<div class="container main-content"><span class="the-quick-brown">la voiture du chat</span></div>'
    assert server.translate(page, source="auto", format="html")["translatedText"] == page


def test_a_short_text_of_a_list_keeps_the_language_that_it_clearly_is_in(server):
    """It took the language of the longest text, and stayed as it was."""
    english = "Where is the red house?"
    french = "Où est la voiture rouge, et la maison du chat, et le chien, et les fleurs de la maison ?"
    found = server.translate([english, french], source="auto")
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "fr"]
    assert found["translatedText"] == [server.translate(english)["translatedText"], french]


def test_alternatives_differ_from_the_translation_and_from_each_other(server, paragraphs):
    found = server.translate("The car is red.", alternatives=2)
    assert found["translatedText"] == paragraphs("The car is red.")
    texts = [found["translatedText"], *found["alternatives"]]
    assert 1 < len(texts) == len(set(texts)) <= 3
    assert server.translate(["The car", "The cat"], alternatives="1")["alternatives"][1] != []


def test_a_translation_begins_with_its_prefix(server, model, tmp_path):
    for name, text in (("source", "The car is red.\n"), ("prefix", "Les\n")):
        (tmp_path / name).write_text(text)
    expected = run_here("translate", str(tmp_path / "source"), "--prefix", str(tmp_path / "prefix"),
                        "--model", str(model), "--threads", "1").out.decode()  # fmt: skip
    assert server.translate("The car is red.", prefix="Les")["translatedText"] == expected.removesuffix("\n")
    odd = "Les <b>50%</b> {x}  https://a.org/%s, v"
    assert server.translate("The car is red.", prefix=odd)["translatedText"].startswith(odd)
    answer = server.ask("/translate", {"q": "The car. The cat.", "source": "en", "target": "fr", "prefix": "Les"})
    assert (answer.status, answer.json["error"]) == (400, "Invalid request: prefix goes with a text of one sentence")


def test_placeholders_and_tags_of_plain_text_come_through_once(server):
    text = "The car of {name} is red.<br />The %s of <i>the cat</i> is `x.y()`."
    of_one, of_two = server.translate(text)["translatedText"], server.translate([text, "A %1$s."])["translatedText"]
    for found in (of_one, of_two[0]):
        assert all(found.count(code) == 1 for code in ("{name}", "<br />", "%s", "<i>", "</i>", "`x.y()`"))
    assert of_two[1].count("%1$s") == 1


def test_alignments_have_a_row_for_each_word(server):
    found = server.translate("The car is red. The cat sees the dog.", alignment=True)
    assert [one["source"] for one in found["alignment"]] == ["The car is red.", "The cat sees the dog."]
    for one in found["alignment"]:
        assert len(one["weights"]) == len(one["target"].split())
        assert {len(row) for row in one["weights"]} == {len(one["source"].split())}


def test_each_word_has_the_confidence_that_translate_gives(server, model):
    found = server.translate(TEXT, confidence=True)
    assert len(found["word_confidence"]) == len(found["translatedText"].split())
    sentences = ("The car is red.", "Where is the house?", "The cat sees the dog.", "The sun")
    result = run_here("translate", "--model", str(model), "--confidence", "--format", "jsonl", "--threads", "1",
                      stdin="\n".join(sentences).encode())  # fmt: skip
    records = [json.loads(line) for line in result.lines]
    expected = [value for record in records for value in record["word_confidence"]]
    assert found["word_confidence"] == pytest.approx(expected, abs=1e-4)
    product = math.prod(record["confidence"] for record in records)
    assert found["confidence"] == pytest.approx(product, abs=1e-4)


def test_a_list_gives_a_list_of_confidences(server):
    texts = ["The car is red.", "", "The car is red. The sun."]
    found = server.translate(texts, confidence=True, alternatives=1)
    assert [len(words) for words in found["word_confidence"]] == [len(text.split()) for text in found["translatedText"]]
    assert found["confidence"][1] == 1.0
    assert found["word_confidence"][0] == pytest.approx(found["word_confidence"][2][: len(found["word_confidence"][0])])
    unchanged = server.translate("La voiture", source="fr", confidence=True)
    assert unchanged == {"translatedText": "La voiture", "confidence": 1.0, "word_confidence": [1.0, 1.0]}


def test_sentences_with_their_alignment_have_their_confidence(server):
    found = server.translate("The car is red. The sun.", confidence=True, alignment=True)
    for sentence in found["alignment"]:
        assert len(sentence["word_confidence"]) == len(sentence["target"].split())
    assert "word_confidence" not in server.translate("The sun.", alignment=True)["alignment"][0]
    assert set(server.translate("The sun.")) == {"translatedText"}


@pytest.mark.slow
def test_a_model_without_calibration_says_so_and_the_page_knows_it(server, model, tmp_path):
    assert server.ask("/frontend/settings").json["confidence"] == [{"source": "en", "target": "fr"}]
    shutil.copytree(model, tmp_path / "run")
    (tmp_path / "run/confidence.json").unlink()
    with running_server("--model", tmp_path / "run") as without:
        answer = without.ask("/translate", {"q": "a", "source": "en", "target": "fr", "confidence": True})
        assert answer.status == 400
        assert answer.json["error"].startswith("Invalid request: the model from en to fr cannot tell its confidence; ")
        assert without.ask("/frontend/settings").json["confidence"] == []
        assert without.translate("The sun.")["translatedText"]


@pytest.mark.parametrize("form", ["lines", "object"])
def test_terms_of_a_glossary_are_said(server, paragraphs, tmp_path, form):
    terms = {"car": "bagnole", "The sun": "astre"}
    lines = "# a comment\n" + "".join(f"{term}\t{own}\n" for term, own in terms.items())
    (tmp_path / "glossary.tsv").write_text(lines)
    sentences = "The car is red.\nThe sun sees the car.\nWhere is the house?"
    expected = paragraphs(sentences, "--glossary", str(tmp_path / "glossary.tsv"))
    assert server.translate(sentences, glossary=lines if form == "lines" else terms)["translatedText"] == expected
    assert "bagnole" in expected.split("\n")[0]
    assert "bagnole" not in server.translate("The car is red.")["translatedText"]


def test_a_glossary_goes_with_a_form_with_html_and_with_files(server):
    data = f"q=The+car&source=en&target=fr&glossary={quote('car' + chr(9) + 'bagnole')}".encode()
    assert "bagnole" in server.ask("/translate", data=data).json["translatedText"]
    found = server.translate("<p>The <b>car</b> is red.</p>", format="html", glossary={"car": "bagnole"})
    assert "bagnole" in found["translatedText"]
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
        for name, more, value in (("source", "", "en"), ("target", "", "fr"), ("glossary", "", "car\tbagnole"),
                                  ("file", '; filename="a.txt"', "The car is red."))
    )  # fmt: skip
    answer = server.ask("/translate_file", data=(parts + "--x--\r\n").encode(),
                        Content_Type="multipart/form-data; boundary=x")  # fmt: skip
    path = answer.json["translatedFileUrl"].removeprefix(server.address)
    assert "bagnole" in server.ask(path).body.decode()


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"q": "", "source": "en", "target": "fr"}, 400, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "fr"}, 400, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, 400, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "en", "target": "tlh"}, 400, "tlh is not supported"),
        ({"q": "a", "source": "fr", "target": "en"}, 400, "en is not available as a target language from fr"),
        ({"q": "a", "source": "en", "target": "fr", "format": "pdf"}, 400, "pdf format is not supported"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": "x"}, 400,
         "Invalid request: alternatives parameter is not a number"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": 99}, 400,
         "Invalid request: alternatives parameter must be <= 10"),
        ({"q": {"a": 1}, "source": "en", "target": "fr"}, 400, "Invalid request: q parameter is not a string"),
        ({"q": "a", "source": "en", "target": "fr", "glossary": {"car": "voiture", "house": ["maison"]}}, 400,
         "Invalid request: glossary:2: the term 'house' or a translation of it is empty, or is not a string"),
        ({"q": "a", "source": "en", "target": "fr", "glossary": ["car"]}, 400,
         "Invalid request: glossary parameter must be lines of term, tab and translation, or terms"),
        ({"q": "a", "source": "en", "target": "fr", "prefix": "x" * 1_001}, 413,
         "Invalid request: prefix (1001) exceeds its limit (1000)"),
        ({"q": "a", "source": "en", "target": "fr", "prefix": "x\ny"}, 400,
         "Invalid request: prefix has a line end; it must be one line"),
        ({"q": "a", "source": "en", "target": "fr", "glossary": "x" * 100_001}, 413,
         "Invalid request: glossary (100001) exceeds its limit (100000)"),
        ({"q": "a", "source": "en", "target": "fr", "confidence": "maybe"}, 400,
         "Invalid request: confidence parameter must be true or false"),
        ({"q": "a", "source": "en", "target": "fr", "confidence": True, "format": "html"}, 400,
         "Invalid request: confidence goes with the format text"),
        ({"q": "a " * 10_001, "source": "en", "target": "fr"}, 413,
         "Invalid request: request (20002) exceeds text limit (20000)"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_told_what_is_wrong(server, fields, status, message):
    answer = server.ask("/translate", fields)
    assert (answer.status, answer.json) == (status, {"error": message})


@pytest.mark.parametrize(
    ("glossary", "message"),
    [
        (
            "car\tvoiture\nhouse",
            "Invalid request: glossary:2: has 1 column instead of 2 or 3. A line is a source term, ",
        ),
        (
            {"car": "voiture", "Car": "auto"},
            "Invalid request: glossary:2: 'Car' has another translation than in line 1.",
        ),
    ],
)
def test_a_glossary_with_an_error_is_refused_with_its_line(server, glossary, message):
    answer = server.ask("/translate", {"q": "a", "source": "en", "target": "fr", "glossary": glossary})
    assert answer.status == 400
    assert answer.json["error"].startswith(message)


def test_a_form_that_is_not_utf_8_is_refused(server):
    answer = server.ask("/translate", data=b"q=caf%E9&source=en&target=fr")
    assert (answer.status, answer.json) == (400, {"error": "Invalid request: the fields are not UTF-8"})


def test_a_second_text_of_a_form_is_not_lost_without_a_word(server):
    message = {"error": "Invalid request: q parameter is given twice; send a list of texts as JSON"}
    kind = "application/x-www-form-urlencoded"
    answer = server.ask("/translate", data=b"q=the+cat&q=the+dog&source=en&target=fr", Content_Type=kind)
    assert (answer.status, answer.json) == (400, message)
    part = '--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nthe cat\r\n'
    answer = server.ask(
        "/translate?source=en&target=fr",
        data=f"{part * 2}--x--\r\n".encode(),
        Content_Type="multipart/form-data; boundary=x",
    )
    assert (answer.status, answer.json) == (400, message)


def test_json_that_comes_as_a_form_is_told_its_header(server):
    answer = server.ask("/translate", data=b'{"q": "The car", "source": "en", "target": "fr"}')
    message = "Invalid request: JSON needs the header Content-Type: application/json"
    assert (answer.status, answer.json) == (400, {"error": message})


def test_a_host_that_is_none_is_no_failure(server):
    assert server.ask("/spec", Host="[::1").status in (200, 400)  # as the version of Starlette takes it
    data = json.dumps({"q": "The car", "source": "en", "target": "fr"}).encode()
    assert server.ask("/translate", data=data, Content_Type="application/json", Host="[::1").status == 200


def test_what_is_no_request_gets_an_error_in_json_too(server):
    for path, data, status in (("/nothing", None, 404), ("/translate", None, 405), ("/languages", b"", 405)):
        answer = server.ask(path, data=data)
        assert (answer.status, list(answer.json)) == (status, ["error"])
    answer = server.ask("/translate", data=b"{", Content_Type="application/json")
    message = "Invalid JSON format: line 1, column 2: Expecting property name enclosed in double quotes"
    assert (answer.status, answer.json) == (400, {"error": message})


# About the server -----------------------------------------------------------------------------------------------------


def test_it_says_what_it_can(server):
    assert server.ask("/languages").json == [
        {"code": "en", "name": "English", "targets": ["fr"]}, {"code": "fr", "name": "French", "targets": []},
    ]  # fmt: skip
    settings = server.ask("/frontend/settings").json
    assert (settings["charLimit"], settings["keyRequired"]) == (20000, False)
    assert ".html" in settings["supportedFilesFormat"]
    assert settings["language"]["target"] == {"code": "fr", "name": "French"}
    assert server.ask("/health").json == {"status": "ok"}
    paths = server.ask("/spec").json["paths"]
    assert {"/translate", "/detect", "/languages", "/translate_file", "/frontend/settings"} <= set(paths)


def test_metrics_count_requests_and_sentences(server):
    def value(name):
        lines = server.ask("/metrics").body.decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    before = value('nmt_sentences_total{source="en",target="fr"}')
    server.translate("The car is red. The sun.")
    assert value('nmt_sentences_total{source="en",target="fr"}') == before + 2
    assert value('nmt_requests_total{path="/translate",status="200"}') > 0
    assert value("nmt_waiting_sentences") == 0


def test_every_answer_has_the_headers_of_the_page(server):
    for path in ("/", "/page.js", "/languages", "/nothing"):
        headers = server.ask(path).headers
        assert all(headers[name] for name in HEADERS)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["access-control-allow-origin"] is None
        assert headers["server"] is None


def test_a_file_is_translated_and_fetched(server, paragraphs):
    def send(name, content, source=b"en"):
        data = (
            f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
            + (content if isinstance(content, bytes) else content.encode())
            + b'\r\n--x\r\nContent-Disposition: form-data; name="source"\r\n\r\n'
            + source
            + b"\r\n"
            b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nfr\r\n--x--\r\n'
        )
        return server.ask("/translate_file", data=data, Content_Type="multipart/form-data; boundary=x")

    wide = send("wide.txt", TEXT.encode("utf-16")).json["translatedFileUrl"]
    assert server.ask(wide.removeprefix(server.address)).body == paragraphs(TEXT).encode("utf-16")
    told = send("wide.txt", TEXT.encode("utf-16"), b"auto").json["translatedFileUrl"]
    assert server.ask(told.removeprefix(server.address)).body == paragraphs(TEXT).encode("utf-16")
    styled = f"<style>{'.the-house { color: red } ' * 200}</style><p>Où est la voiture rouge, et la maison ?</p>"
    as_it_was = send("页.html", styled, b"auto").json["translatedFileUrl"]  # it is in the target language already
    fetched = server.ask(as_it_was.removeprefix(server.address))
    assert fetched.body.decode() == styled
    assert fetched.headers["content-disposition"] == (
        "attachment; filename=\"__fr.html\"; filename*=UTF-8''%E9%A1%B5_fr.html"
    )
    guessed = send("a.txt", b"The caf\xe9 is red.").json
    assert guessed["warnings"] == ["is not valid UTF-8; it is read as cp1252; the output is in UTF-8"]
    assert server.ask(guessed["translatedFileUrl"].removeprefix(server.address)).body.decode() == paragraphs(
        "The café is red."
    )
    address = send("../my file.txt", TEXT).json["translatedFileUrl"]
    assert address.startswith(f"{server.address}/download_file/")
    fetched = server.ask(address.removeprefix(server.address))
    assert fetched.body.decode() == paragraphs(TEXT)
    assert fetched.headers["content-disposition"] == 'attachment; filename="my_file_fr.txt"'
    subtitles = send("a.srt", "1\n00:00:01,000 --> 00:00:03,000\nThe car is red.\n").json["translatedFileUrl"]
    assert b"00:00:01,000 --> 00:00:03,000" in server.ask(subtitles.removeprefix(server.address)).body
    lines = send("lines.txt", "The car\r\n \t\r\nThe cat\r\n").json["translatedFileUrl"]
    fetched = server.ask(lines.removeprefix(server.address)).body.decode()
    assert fetched == paragraphs("The car\n\nThe cat\n").replace("\n\n", "\n \t\n").replace("\n", "\r\n")
    german = send("a.html", '<html lang="de"><p>The car is red.</p></html>').json
    assert german.pop("warnings") == ["says that its text is in de, but it was translated from en"]
    assert list(german) == list(send("a.html", "<p>The car is red.</p>").json) == ["translatedFileUrl"]
    lost = send("b.html", "<p>The __URL__ is red and {{NAME}} and %s is here.</p>").json
    assert lost["warnings"] == ["in 1 of 1 text the model lost a placeholder; it was put back in the most likely place"]
    message = "Invalid request: file format not supported: ending .exe; use one of .txt, "
    assert send("a.exe", "x").json["error"].startswith(message)
    assert server.ask("/download_file/../../etc/passwd").status == 404


def test_no_text_of_users_is_logged(server):
    server.translate("unspeakable")
    server.ask("/unspeakable?q=unspeakable")
    server.ask("/translate?q=unspeakable&source=unspeakable&target=fr", data=b"")
    assert "unspeakable" not in "".join(server.lines)


# Clients of others ----------------------------------------------------------------------------------------------------


def test_libretranslatepy(server, paragraphs):
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(server.address)
    assert client.translate("The car is red.", "en", "fr") == paragraphs("The car is red.")
    assert client.languages()[0]["code"] == "en"
    assert client.detect("Where is the house?")[0]["language"] == "en"


@pytest.mark.filterwarnings("ignore")
def test_deep_translator(server, paragraphs, monkeypatch):
    from deep_translator import LibreTranslator

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    client = LibreTranslator(source="en", target="fr", api_key="any", custom_url=f"{server.address}/")
    assert client.translate("The car is red.") == paragraphs("The car is red.")
    assert client.translate_batch(["The car is red."]) == [paragraphs("The car is red.")]


def test_curl(server, paragraphs):
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", f"{server.address}/translate", "-F", "q=The car is red.", "-F", "source=en",
         "-F", "target=fr"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"translatedText": paragraphs("The car is red.")}


@pytest.mark.slow
def test_translate_of_npm(server, paragraphs, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    installed = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "translate@3.0.1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    script = tmp_path / "ask.mjs"
    script.write_text(
        "import translate from 'translate';\n"
        f"translate.engine = 'libre'; translate.url = '{server.address}/translate'; translate.key = 'any';\n"
        "console.log(await translate('The car is red.', {from: 'en', to: 'fr'}));\n"
    )
    done = subprocess.run(["node", str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == paragraphs("The car is red."), done.stderr


# Trust ----------------------------------------------------------------------------------------------------------------


def test_another_address_needs_keys_or_a_word(nmt, model, tmp_path):
    result = nmt("serve", "--model", model, "--host", "0.0.0.0")
    assert (result.code, result.err) == (2, (
        "nmt: --host 0.0.0.0: others can reach this address; give --api-key-file FILE, or --public if anybody may "
        "translate here\n"
    ))  # fmt: skip
    result = nmt("serve", "--model", model, "--host", "999.1.1.1")
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith("nmt: --host 999.1.1.1: there is no such address: ")
    result = nmt("serve", "--model", model, "--api-key-file", tmp_path / "none")
    assert (result.code, result.err) == (2, f"nmt: {tmp_path / 'none'}: cannot be read: no such file or directory\n")


@pytest.mark.parametrize("origin", ["example.org", "localhost:3000", "https://example.org/page", "https://[", ""])
def test_a_site_that_no_browser_names_so_is_refused(nmt, tmp_path, origin):
    result = nmt("serve", "--model", tmp_path / "none", "--cors", origin)
    message = f"nmt: --cors {origin}: must be the scheme and the host of a site, such as https://example.org\n"
    assert (result.code, result.err) == (2, message)


@pytest.mark.parametrize(
    ("option", "given", "told"),
    [
        ("--trust-proxy", "proxy", "must be an address or a network, such as 172.16.0.0/12 ("),
        ("--trust-proxy", "172.16.0.1/12", "must be an address or a network, such as 172.16.0.0/12 ("),
        ("--root-path", "https://example.org/mt", "must be the beginning of a path, such as /mt"),
        ("--root-path", "/mt/../a", "must be the beginning of a path, such as /mt"),
        ("--root-path", "/a b", "must be the beginning of a path, such as /mt"),
    ],
)
def test_a_proxy_that_cannot_be_is_refused(nmt, tmp_path, option, given, told):
    result = nmt("serve", "--model", tmp_path / "none", option, given)
    assert result.code == 2
    assert result.err.startswith(f"nmt: {option} {given}: {told}")


@pytest.mark.slow
def test_a_port_in_use_and_two_models_of_one_direction_are_refused(nmt, model, server):
    result = nmt("serve", "--model", model, "--port", server.port)
    assert result.code == 2
    assert f"nmt: 127.0.0.1:{server.port}: cannot listen there: address already in use; choose" in result.err
    result = nmt("serve", "--model", model, "--model", model, "--port", "0")
    assert (result.code, result.err.splitlines()[-1]) == (
        2, "nmt: two models translate from en to fr; serve one of them"
    )  # fmt: skip


def test_what_is_no_model_is_refused_by_its_name(nmt, tmp_path):
    result = nmt("serve", "--model", tmp_path / "none")
    assert (result.code, result.err) == (2, f"nmt: {tmp_path / 'none'}: there is no such model directory\n")
    result = nmt("serve", "--model", tmp_path)
    assert (result.code, result.err) == (2, f"nmt: {tmp_path}: is not a model directory (it has no config.yaml)\n")


def test_keys_rates_origins_and_the_end(model, tmp_path):
    keys = tmp_path / "keys"
    # Windows puts a mark before the first.
    keys.write_bytes("\ufeffsecret-1\n# of Anna\n\nsecret-2\nschlüssel\n".encode())
    sites = ("--cors", "https://example.org", "--cors", "HTTP://Example.net:80/")
    with running_server("--model", model, "--api-key-file", keys, "--requests-per-minute", "3", *sites) as server:
        fields = {"q": "The car", "source": "en", "target": "fr"}
        without, wrong = server.ask("/translate", fields), server.ask("/translate", fields | {"api_key": "secret-3"})
        assert (without.status, without.json["error"]) == (400, "Please contact the server operator to get an API key")
        assert (wrong.status, wrong.json["error"]) == (403, "Invalid API key")
        assert server.ask("/metrics").status == 403
        for guess in range(4, 6):  # the three above were counted, so that nobody tries key after key
            assert server.ask("/translate", fields | {"api_key": f"secret-{guess}"}).status == 429
        assert server.ask("/metrics", Authorization="Bearer secret-1").status == 200
        assert server.ask("/metrics", Authorization="Bearer schlüssel".encode()).status == 200
        asked = [server.ask("/translate", fields | {"api_key": "secret-2"}) for _ in range(4)]
        assert [answer.status for answer in asked] == [200, 200, 200, 429]
        assert 1 <= int(asked[3].headers["retry-after"]) <= 20
        assert server.ask("/translate", fields, Authorization="Bearer secret-1").status == 200
        for origin in ("https://example.org", "http://example.net", "https://example.com"):
            allowed = server.ask("/languages", Origin=origin).headers["access-control-allow-origin"]
            assert allowed == (None if origin == "https://example.com" else origin)
        assert "secret" not in "".join(server.lines)
        # A request that is being answered when the signal comes is finished.
        with ThreadPoolExecutor(1) as pool:
            with socket.create_connection(("127.0.0.1", server.port)) as slow:
                body = json.dumps(fields | {"api_key": "secret-1"}).encode()
                slow.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                             b"Content-Length: %d\r\n\r\n%s" % (len(body), body[:20]))  # fmt: skip
                while server.ask("/health").status != 200:
                    pass
                server.process.send_signal(signal.SIGTERM)
                ended = pool.submit(server.process.wait, 60)
                slow.sendall(body[20:])
                assert slow.recv(15) == b"HTTP/1.1 200 OK"
            assert ended.result() == 0
    assert server.lines[-1] == "stopped; all requests were answered\n"


@pytest.mark.slow
def test_a_new_checkpoint_is_loaded_and_a_damaged_one_leaves_the_old_serving(model, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(model, run, ignore=shutil.ignore_patterns("cache"))
    index = run / "checkpoints/index.json"
    steps = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    best = json.loads(index.read_text())["best"][0]["step"]
    other = next(name for name in steps if int(name.removeprefix("step-")) != best)
    text = "Where is the red car, and the house of the cat?"
    with running_server("--model", run, "--watch") as server:
        before = server.translate(text)

        def replace_best(content):
            for path in sorted((run / "checkpoints").glob("step-*")):
                if int(path.name.removeprefix("step-")) == best:
                    (path / "model.safetensors").write_bytes(content)

        def wait_for(words):
            while not any(words in line for line in server.lines):
                assert "translatedText" in server.translate(text)  # a young checkpoint may say nothing

        replace_best(b"damaged")
        wait_for("cannot be loaded; the old checkpoint stays in use")
        assert server.translate(text) == before
        replace_best((model / "checkpoints" / other / "model.safetensors").read_bytes())
        wait_for("en-fr: loaded ")
        expected = run_here("translate", "--model", str(model), "--checkpoint", other, "--paragraphs", "--threads", "1",
                            stdin=text.encode())  # fmt: skip
        assert server.translate(text)["translatedText"] == expected.out.decode().removesuffix("\n")
        assert 'nmt_reloads_total{result="failed"} 1' in server.ask("/metrics").body.decode()
        config = run / "config.yaml"
        config.write_text(config.read_text().replace("target_lang: fr", "target_lang: de"))
        replace_best((model / "checkpoints" / f"step-{best:08}" / "model.safetensors").read_bytes())
        wait_for(f"{run}: translates from en to de now; restart the server to serve it")
        assert server.translate(text)["translatedText"] == expected.out.decode().removesuffix("\n")


def test_a_profile_is_kept_with_the_model(model):
    kept = json.loads((Path(model) / "languages.json").read_text())
    assert set(kept) == {"en", "fr"}
    assert kept["en"]["total"] > 0


@pytest.mark.slow
def test_a_server_opens_more_files_than_it_began_with(model):
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, most))
    with running_server("--model", model) as server, ExitStack() as clients:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        for _ in range(300):
            clients.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert server.ask("/health").status == 200
        assert "Too many open files" not in "".join(server.lines)


def test_clients_that_leave_while_they_are_refused_stop_nobody(model):
    """One such client stopped the server for ever: all later requests hung, and SIGTERM did not end it."""
    body = json.dumps({"q": [f"a {number}" for number in range(60)], "source": "en", "target": "fr"}).encode()
    request = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with running_server("--model", model, "--max-sentences", "50") as server:
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(request + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert server.translate("The car is red.")
        assert server.ask("/health").json == {"status": "ok"}
        assert server.end() == 0
    assert "error" not in "".join(server.lines)


@pytest.mark.slow
def test_a_search_that_does_not_answer_is_told_by_health(model):
    with running_server("--model", model) as server:
        (worker,) = server.workers
        os.kill(worker, signal.SIGSTOP)
        answer = server.ask("/health")
        assert answer.status == 503
        assert answer.json["error"] == "translation has stopped working: it has not answered for 5 seconds"
        assert server.ask("/metrics").status == 200
        os.kill(worker, signal.SIGCONT)
        assert server.ask("/health").status == 200


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_request(model):
    """The server ended, and all requests in work failed."""
    text = "The car is red. " * 300
    with running_server("--model", model) as server, ThreadPoolExecutor(1) as pool:
        expected = server.translate(text)
        for _ in range(2):
            answer = pool.submit(server.translate, text)
            time.sleep(0.1)
            for worker in server.workers:
                os.kill(worker, signal.SIGKILL)
            assert answer.result(60) == expected
        assert server.ask("/health").status == 200
    assert "Traceback" not in "".join(server.lines)


@pytest.mark.slow
def test_where_no_worker_can_be_started_the_server_ends_and_says_so(model, tmp_path):
    """The process that has loaded the models is gone, and so are the models."""
    run = shutil.copytree(model, tmp_path / "run")
    with running_server("--model", run) as server:
        shutil.rmtree(run)
        for pid in server.pids[1:]:
            os.kill(pid, signal.SIGKILL)
        assert server.process.wait(60) == 1
    told = "".join(server.lines)
    assert "so the server ends" in told
    assert "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 0)]
)
def test_a_signal_to_all_its_processes_ends_the_server_in_order(model, number, code):
    """As Ctrl-C and systemd send it. Seen to end the search with a traceback."""
    with running_server("--model", model) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.translate, "The car is red. " * 300)
        time.sleep(0.2)
        for pid in server.pids:
            os.kill(pid, number)
        assert answer.result(60)
        assert server.process.wait(60) == code
    told = "".join(server.lines)
    assert "stopped; all requests were answered" in told
    assert "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_a_signal_while_models_are_loaded_ends_both_processes(model, seconds):
    process = start_nmt("serve", "--model", str(model), "--port", "0", stderr=subprocess.PIPE)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1].decode()  # which ends when no process is left that could say something
    assert process.returncode == 130
    assert "Traceback" not in told


@pytest.mark.slow
def test_the_search_does_not_outlive_the_server(model):
    with running_server("--model", model) as server:
        begun = [Path(f"/proc/{pid}") for pid in server.pids[1:]]
        assert len(begun) == 2
        server.process.kill()
        server.process.wait(30)
        until = time.monotonic() + 30
        while any(pid.exists() for pid in begun) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(pid.exists() for pid in begun)
