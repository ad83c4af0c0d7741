"""The file of the offline page, read as a file: what it may do, and what it holds."""

import base64
import hashlib
import json
import re
import zlib
from html import unescape

import numpy as np
import pytest
import torch
from unit.model.tiny_models import EVERY_OPTION, every_attention, name_of, tiny_model

from nmt_cli.export.page.description import model_record
from nmt_cli.export.page.html_file import PageModel, check_replaceable, render, write
from nmt_cli.export.page.packing import Packer
from nmt_cli.system.errors import InputError
from nmt_cli.translation.precision import Int8Product, convert_precision

MODELS = (
    PageModel(b"one model", "English → French", "# A card\n</pre><script>alert(1)</script> & more"),
    PageModel(b"another", "French → <b>English</b>", "# Another"),
)


@pytest.fixture(scope="module")
def page():
    return render(MODELS)


def test_only_its_own_scripts_and_style_may_run(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == ["'none'"]
    assert not {"connect-src", "frame-src", "child-src"} & set(rules)
    code = re.findall(r"<script(?: id=\"local-translation\")?>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert (len(code), len(styles)) == (5, 1)
    for directive, texts in (("script-src", code), ("style-src", styles)):
        hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}
        assert {rule for rule in rules[directive] if rule.startswith("'sha256")} == hashes
        assert not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(rules[directive])
    assert all("<!--" not in text and "<script" not in text for text in code)


def test_nothing_is_fetched_kept_or_sent(page):
    asks = (
        r"\bfetch\(|XMLHttpRequest|sendBeacon|WebSocket|EventSource|importScripts|localStorage|sessionStorage|indexedDB"
    )
    asks += r"|document\.cookie|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert re.findall(asks, page) == []
    assert re.findall(r"https?://|//[a-z]+\.[a-z]", re.sub(r"https://www\.w3\.org\S*", "", page)) == []
    assert re.findall(r'(?:src|href)="(?!data:)[^"]*"', page) == []
    assert re.findall(r"^\s*(?:import|export) ", page, re.MULTILINE) == []


def test_models_are_inert_and_have_checksums(page):
    found = re.findall(
        r'<script type="application/octet-stream" class="model" data-size="(\d+)" data-crc="(\d+)">(.*?)<', page
    )
    contents = [base64.b64decode(text) for _, _, text in found]
    assert contents == [model.packed for model in MODELS]
    assert [(int(size), int(crc)) for size, crc, _ in found] == [(len(one), zlib.crc32(one)) for one in contents]
    assert '<body data-models="2">' in page


def test_cards_and_names_are_text(page):
    cards = re.findall(
        r"<details class=\"about\"><summary>(.*?)</summary><p>[^<]*<code>nmt translate</code>[^<]*</p><pre>(.*?)</pre>",
        page,
        re.DOTALL,
    )
    assert [(unescape(title), unescape(card)) for title, card in cards] == [
        (f"About the model {model.title}", model.card) for model in MODELS
    ]
    assert "<b>" not in page
    assert "alert(1)</script>" not in page


def test_a_link_to_a_page_stays_one(tmp_path):
    write(MODELS[:1], tmp_path / "real.html")
    (tmp_path / "link.html").symlink_to("real.html")
    write(MODELS, tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert 'data-models="2"' in (tmp_path / "real.html").read_text(encoding="utf-8")


def test_a_strangers_file_and_a_link_to_nothing_are_not_replaced(tmp_path):
    path = tmp_path / "page.html"
    check_replaceable(path)
    path.write_text("<html><title>mine</title>")
    with pytest.raises(InputError, match="exists already and is not a page of nmt export, so it is not replaced"):
        check_replaceable(path)
    path.write_text(render(MODELS), encoding="utf-8")
    check_replaceable(path)
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be read"):
        check_replaceable(tmp_path / "link.html")


def numbers_of(packed):
    size = int.from_bytes(packed[:4], "little")
    return json.loads(packed[4 : 4 + size]), packed[4 + size :]


def test_a_matrix_is_that_of_int8_and_found_at_its_address():
    packer = Packer()
    packer.store_floats(torch.ones(3))
    weight_IO, bias_O = torch.randn(11, 5), torch.randn(5)
    record, numbers = numbers_of(packer.packed({"product": packer.store_product(weight_IO, bias_O)}))
    product = record["product"]
    assert (product["inputs"], product["outputs"], product["padded"]) == (11, 5, 16)
    weights = np.frombuffer(numbers, np.int8, 5 * 16, product["weights"]).reshape(5, 16)
    expected = Int8Product.of(weight_IO)
    np.testing.assert_array_equal(weights[:, :11], expected.weight_OI)
    assert not weights[:, 11:].any()
    np.testing.assert_array_equal(np.frombuffer(numbers, "<f4", 5, product["scales"]), expected.scale_O)
    np.testing.assert_array_equal(np.frombuffer(numbers, "<f4", 5, product["bias"]), bias_O)


def records_at(record, path):
    """The record of a module by its name in the model; in a layer of the encoder, that of each direction."""
    if not path:
        return [record]
    if isinstance(record, list) and not path[0].isdigit():
        return [found for direction in record for found in records_at(direction, path)]
    return records_at(record[int(path[0]) if path[0].isdigit() else path[0]], path[1:])


def matrix_of(product, numbers):
    """The matrix (outputs, inputs) of a product as the page uses it."""
    inputs, outputs, padded = product["inputs"], product["outputs"], product["padded"]
    kind = np.int8 if "scales" in product else np.float32
    matrix = np.frombuffer(numbers, kind, outputs * padded, product["weights"]).reshape(outputs, padded)[:, :inputs]
    scales = np.frombuffer(numbers, "<f4", outputs, product["scales"]) if "scales" in product else np.ones(outputs)
    return matrix * scales[:, np.newaxis]


def check_holds_every_parameter(kind, **options):
    model = tiny_model(kind, dtype=torch.float32, **options)
    packer = Packer()
    record, numbers = numbers_of(packer.packed(model_record(packer, model)))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        *path, own = name.split(".")
        values = parameter.detach().numpy()
        expectations = values if path[:2] == ["encoder", "layers"] else [values]  # there, one for each direction
        for module, expected in zip(records_at(record, path), expectations, strict=True):
            part = module.get("filters", module.get(own, module))
            if isinstance(part, int):
                found = np.frombuffer(numbers, "<f4", expected.size, part)
                np.testing.assert_array_equal(found, expected.flatten(), err_msg=name)
            else:
                found = matrix_of(part, numbers)
                # The model holds a matrix of its own as (inputs, outputs), a layer's as (outputs, inputs).
                found = found.T if part is not module and own in ("weight", "query") else found
                np.testing.assert_allclose(found, expected, atol=np.abs(values).max(initial=0) / 127, err_msg=name)


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_a_description_holds_every_parameter_under_its_name(kind):
    check_holds_every_parameter(kind, num_layers=2)


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_a_description_holds_every_parameter_with_every_option(name):
    recurrence = "luong" if name in ("no input feeding", "source reversed") else "conditional"
    check_holds_every_parameter((recurrence, "additive", "gru", False), **EVERY_OPTION[name])


def test_a_table_that_is_used_three_times_is_stored_once():
    kind = ("conditional", "additive", "gru", True)
    model = tiny_model(kind, dtype=torch.float32)
    table = torch.nn.Parameter(torch.randn(100, 64))
    model.source_embedding = model.target_embedding = model.output_weight = table
    record = model_record(Packer(), model)
    assert record["source_embedding"] == record["target_embedding"] == record["output_weight"]


def test_in_int8_an_embedding_is_what_its_int8_row_says():
    """So the page, which holds int8 rows alone, adds the same embeddings in the lexical model."""
    model = tiny_model(("conditional", "additive", "gru", True), dtype=torch.float32, lexical_model=True)
    before = torch.randn(100, 64)
    model.source_embedding = torch.nn.Parameter(before.clone())
    small = model.target_embedding.detach().clone()
    convert_precision(model, "int8")
    product = Int8Product.of(before.t())
    torch.testing.assert_close(model.source_embedding.detach(), product.weight_OI * product.scale_O[:, None])
    again = Int8Product.of(model.source_embedding.detach().t())
    assert torch.equal(again.weight_OI, product.weight_OI)
    assert torch.equal(model.target_embedding, small)  # a small table stays as it is


def test_an_attention_without_equations_is_refused_by_its_name():
    kind = ("conditional", "additive", "gru", True)
    model = tiny_model(kind, dtype=torch.float32)

    class Telepathy(torch.nn.Module):
        context_size = 8

    model.decoder.recurrence.attention = Telepathy()
    with pytest.raises(
        InputError, match="--format html: has no equations for the attention Telepathy; use nmt translate or nmt"
    ):
        model_record(Packer(), model)
