"""The steps of `nmt demo`, from the data to an exported page, on the built-in corpus.

Training, translation, drawing and the export are commands of their own; they are passed as functions.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from nmt_cli.config.loader import validate, with_absolute_paths
from nmt_cli.config.schema import Config
from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.demo import phrasebook
from nmt_cli.demo.grammar import PhrasePair
from nmt_cli.plots.attention_page import AttentionPicture
from nmt_cli.plots.attention_plot import draw_attention
from nmt_cli.scoring import score_corpus
from nmt_cli.system.console import log
from nmt_cli.system.errors import NmtError, is_refusal
from nmt_cli.system.files import remove_paths
from nmt_cli.translation.translator import Translator

NUM_SAMPLES = 5
PICTURES = ("attention.html", "attention.png")
PAGE = "translator.html"


def run_steps(
    directory: Path,
    *,
    check: Callable[[Config], None],
    train: Callable[[Config], None],
    open_translator: Callable[[], Translator],
    picture_of: Callable[[Translator, str], AttentionPicture | None],
    write_page: Callable[[Path], None],
) -> None:
    """Run all steps of the demo in a directory, which becomes a model directory.

    Args:
        directory: for the corpus, the model, the pictures and the page.
        check: refuses the directory, given the configuration, by raising an error.
        train: trains the model of a configuration, or resumes its training.
        open_translator: returns a translator with the trained model.
        picture_of: returns the picture of the attention for a source sentence, or None if there is none.
        write_page: writes the page that translates offline to a path.
    """
    began = time.monotonic()
    run = shlex.quote(str(directory))
    config = with_absolute_paths(configuration(directory))
    check(config)
    book = phrasebook.generate(seed=1)
    made = phrasebook.write(book, directory / "data")
    log(f"1. data: {len(book.train):,} English-French pairs -> {directory / 'data'}")
    log(f"2. tokenizer and training: nmt train --config {run}/config.yaml")
    try:
        train(config)
    except NmtError as error:
        if is_refusal(error):
            remove_paths(made)
        raise
    log(f"3. translation: nmt translate {run}/data/test.en --model {run}")
    translator = open_translator()
    hypotheses = [found.translations[0].text for found in translator.translate([p.source for p in book.test])]
    log(f"4. scores: nmt score HYPOTHESES --reference {run}/data/test.fr")
    for score in score_corpus(hypotheses, [[pair.target for pair in book.test]], metrics=("bleu", "chrf")):
        print(f"{score.label} = {score.score:.1f}", flush=True)
        log(f"   {score.signature}")
    log("5. a few translations of the test set")
    for pair, hypothesis in list(zip(book.test, hypotheses, strict=True))[:NUM_SAMPLES]:
        mark = "=" if hypothesis == pair.target else f"(reference: {pair.target})"
        print(f"  {pair.source}\n    {hypothesis}  {mark}")
    log("6. attention")
    crossing = [pair for pair in book.test if 5 <= len(pair.source.split()) <= 9 and _crosses(pair)][:4]
    _draw([picture for pair in crossing if (picture := picture_of(translator, pair.source)) is not None], directory)
    log(f"7. a page that translates offline: nmt export --model {run} -o {run}/{PAGE}")
    write_page(directory / PAGE)
    log(f"done in {time.monotonic() - began:.0f} s. Next:")
    log(f"  open {directory / PAGE} in a browser, and type")
    log(f"  echo 'Where is the red car?' | nmt translate --model {run} --alignment hard")
    log(f"  echo 'Where is the red car?' | nmt plot attention --model {run} -o attention.html")
    log(f"  nmt inspect {run}")
    log("  nmt init --source YOUR.en --target YOUR.fr --source-lang en --target-lang fr -o config.yaml")


def configuration(directory: Path) -> Config:
    """Return the demo's configuration, with all its paths changed from `runs/demo` to `directory`."""
    text = resources.files("nmt_cli.demo").joinpath("demo.yaml").read_text(encoding="utf-8")

    def relocate(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: relocate(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [relocate(inner) for inner in value]
        is_path = isinstance(value, str) and value.startswith("runs/demo")
        return f"{directory}{value.removeprefix('runs/demo')}" if is_path else value

    # Moved as values, not as text, so that a directory of any name stays one value.
    return validate(relocate(parse_yaml(text, "demo.yaml")), "demo.yaml")


def _draw(pictures: list[AttentionPicture], directory: Path) -> None:
    """Write attention pictures as the files `PICTURES`, a page and a figure; log an error if one cannot be written."""
    for name in PICTURES:
        try:
            draw_attention(pictures, directory / name)
            log(f"   {directory / name}")
        except NmtError as error:  # the figure needs matplotlib, the page nothing
            log(f"   {error}")


def _crosses(pair: PhrasePair) -> bool:
    """Return whether any two word links of a pair cross, as in `red car`, `voiture rouge`."""
    return any(a < c and b > d for a, b in pair.links for c, d in pair.links)
