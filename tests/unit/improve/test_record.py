"""The record of an improvement."""

from __future__ import annotations

import json

import pytest

from nmt_cli.improve.record import Provenance


@pytest.mark.parametrize("several", [False, True], ids=["one dev set", "a dev set for each direction"])
def test_the_dev_sets_are_no_texts_to_learn_from(tmp_path, several):
    dev = {"source": "/d/dev.en", "target": "/d/dev.fr", "source_lang": "en"}
    inputs = {"/d/mono.fr": "ab" * 32, "/d/dev.en": "cd" * 32, "/d/dev.fr": "ef" * 32}
    record = {
        "format": 1,
        "config": {"data": {"dev": [dev, {"source": "/d/dev.en"}] if several else dev}},
        "inputs": inputs,
        "stages": [{"lines": {"/d/mono.fr": 7}}],
    }
    (tmp_path / "improve.json").write_text(json.dumps(record))
    assert Provenance(tmp_path / "improve.json").texts() == [("/d/mono.fr", "ab" * 32, 7)]
