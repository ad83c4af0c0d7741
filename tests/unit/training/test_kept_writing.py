"""The profile of a training text, as it is kept with a model."""

from __future__ import annotations

import json

from nmt_cli.assembly.normalization import write_text_profile
from nmt_cli.config.loader import load_config
from nmt_cli.experiment import Experiment


def test_digits_of_symbols_are_no_numbers_of_the_text(tmp_path):
    """Seen to fail: the 2 of the tag never stands in the target, so every 2 was left to the model."""
    sources = [f"<2de> We have {number} dogs ." for number in (2, 2, 2, 4, 5, 6, 7, 8, 9, 3, 10, 11, 12, 13, 14, 15)]
    (tmp_path / "a").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    targets = [line.replace("<2de> We have", "Wir haben").replace("dogs", "Hunde") for line in sources]
    (tmp_path / "b").write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")
    path = tmp_path / "c.yaml"
    path.write_text(
        f"name: x\nmodel_dir: {tmp_path}/run\ntokenizer: {{symbols: [<2de>]}}\n"
        f"data: {{source_lang: en, target_lang: de, train: [{{source: {tmp_path}/a, target: {tmp_path}/b}}]}}\n",
        encoding="utf-8",
    )
    (tmp_path / "run").mkdir()
    experiment = Experiment(tmp_path / "run")
    write_text_profile(experiment, load_config(path, ()))
    text = json.loads(experiment.profile_path.read_text(encoding="utf-8"))
    assert "2" in text["kept_numbers"]
    assert text["rewritten_numbers"] == []
