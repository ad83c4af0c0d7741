"""Makes the model directory that is kept of this release: `python tests/models/make.py`.

Run once for each release; what is there is never made again. `format-1` was made in this way before the first release,
with a larger vocabulary.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from nmt_cli.demo import phrasebook
from nmt_cli.version import __version__

HERE = Path(__file__).parent
CONFIG = """
name: yesterday
model_dir: {here}/run
data:
  source_lang: en
  target_lang: fr
  train: [{{source: {here}/train.en, target: {here}/train.fr}}]
  dev: {{source: {here}/dev.en, target: {here}/dev.fr}}
tokenizer: {{vocab_size: 340, normalization: identity}}
model:
  embedding_size: 16
  encoder: {{hidden_size: 16}}
  decoder: {{hidden_size: 16}}
  attention: {{size: 16}}
  dropout: {{embedding: 0.0, recurrent: 0.0, annotation: 0.0, readout: 0.0}}
training:
  batch_size: 400
  learning_rate: 1.0e-2
  schedule: constant
  max_epochs: null
  max_steps: 400
  validation_freq: 200
  checkpoint_freq: 200
  keep_last: 2
  ema_decay: 0.9
  precision: fp32
  threads: 1
decoding: {{beam_size: 3, max_length_a: 1.0, max_length_b: 5}}
"""


def main() -> None:
    directory = HERE / f"release-{__version__}"
    if directory.exists():
        sys.exit(f"{directory}: is there already and is kept as it is")
    directory.mkdir()
    book = phrasebook.generate(seed=7, num_train=200, num_dev=5, num_test=10)
    phrasebook.write(book, directory)
    (directory / "test.en").rename(directory / "source.txt")
    config = directory / "config.yaml"
    config.write_text(CONFIG.format(here=directory), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "nmt_cli", "train", "--config", str(config)], check=True)
    with (directory / "expected.txt").open("wb") as out:
        command = ["translate", str(directory / "source.txt"), "--model", str(directory / "run")]
        subprocess.run([sys.executable, "-m", "nmt_cli", *command], stdout=out, check=True)
    written = directory / "run/config.yaml"
    written.write_text(written.read_text(encoding="utf-8").replace(str(directory), "@HERE@"), encoding="utf-8")
    for name in ("cache", "logs", ".lock"):
        path = directory / "run" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in directory.iterdir():
        if path.name not in ("run", "source.txt", "expected.txt", "train.en", "train.fr", "dev.en", "dev.fr"):
            path.unlink()


if __name__ == "__main__":
    main()
