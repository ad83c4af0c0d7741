"""`nmt demo`: every stage once, as a user goes through them, on the built-in corpus."""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.console import log
from nmt_cli.errors import NmtError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.phrasebook import PhraseBook, PhrasePair
    from nmt_cli.translation.translator import Translator

NUM_SAMPLES = 5


def demo(
    directory: Annotated[
        Path, typer.Option("--dir", help="Where everything is made; a model directory.", metavar="DIR")
    ] = Path("runs/demo"),
) -> None:
    """Go through every stage on the built-in phrase book: data, training, translation, scores, attention.

    Example: nmt demo
    """
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.commands.train import run_training
    from nmt_cli.config.loader import with_absolute_paths
    from nmt_cli.data import phrasebook
    from nmt_cli.distributed import World
    from nmt_cli.experiment import Experiment

    began = time.monotonic()
    book = phrasebook.generate(seed=1)
    config = _config(directory)
    log(f"1. data: {len(book.train):,} English-French pairs -> {directory / 'data'}")
    phrasebook.write(book, directory / "data")
    log(f"2. tokenizer and training: nmt train --config {directory / 'config.yaml'}")
    run_training(Experiment(directory.absolute()), with_absolute_paths(config), World())
    log(f"3. translation: nmt translate {directory / 'data/test.en'} --model {directory}")
    translator = open_translator([directory], with_alignment=True)
    hypotheses = [found.translations[0].text for found in translator.translate([p.source for p in book.test])]
    log(f"4. scores: nmt score HYPOTHESES --reference {directory / 'data/test.fr'}")
    _print_scores(hypotheses, [pair.target for pair in book.test])
    log("5. a few translations of the test set")
    for pair, hypothesis in list(zip(book.test, hypotheses, strict=True))[:NUM_SAMPLES]:
        mark = "=" if hypothesis == pair.target else f"(reference: {pair.target})"
        print(f"  {pair.source}\n    {hypothesis}  {mark}")
    log("6. attention")
    _draw(translator, book, directory)
    log(f"done in {time.monotonic() - began:.0f} s. Next:")
    log(f"  echo 'Where is the red car?' | nmt translate --model {directory} --alignment hard")
    log(f"  echo 'Where is the red car?' | nmt plot attention --model {directory} -o attention.html")
    log(f"  nmt inspect {directory}")
    log("  nmt init --source YOUR.en --target YOUR.fr --source-lang en --target-lang fr -o config.yaml")


def _config(directory: Path) -> Config:
    """The demo's configuration with its files below `directory`."""
    from nmt_cli.config.loader import parse_yaml, validate

    text = (resources.files("nmt_cli") / "demo.yaml").read_text(encoding="utf-8")
    # Quoted anew as JSON strings are, so that a directory of any name stays one value.
    values = parse_yaml(text, "demo.yaml")

    def moved(value: object) -> object:
        if isinstance(value, dict):
            return {key: moved(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [moved(inner) for inner in value]
        is_path = isinstance(value, str) and value.startswith("runs/demo")
        return str(directory) + str(value).removeprefix("runs/demo") if is_path else value

    changed = moved(values)
    assert isinstance(changed, dict)
    return validate(changed, "demo.yaml")


def _print_scores(hypotheses: list[str], references: list[str]) -> None:
    from nmt_cli.scoring import score_corpus

    for score in score_corpus(hypotheses, [references], metrics=("bleu", "chrf")):
        print(f"{score.label} = {score.score:.1f}", flush=True)
        log(f"   {score.signature}")


def _draw(translator: Translator, book: PhraseBook, directory: Path) -> None:
    """The attention of a few test sentences whose words cross: a page to explore, and a figure."""
    from nmt_cli.commands.plot import picture_of
    from nmt_cli.plots import draw_attention

    crossing = [pair for pair in book.test if 5 <= len(pair.source.split()) <= 9 and _crosses(pair)][:4]
    pictures = [picture for pair in crossing if (picture := picture_of(translator, pair.source)) is not None]
    for ending in ("html", "png"):
        try:
            draw_attention(pictures, directory / f"attention.{ending}")
            log(f"   {directory / f'attention.{ending}'}")
        except NmtError as error:  # the figure needs matplotlib, the page nothing
            log(f"   {error}")


def _crosses(pair: PhrasePair) -> bool:
    """True if two words change places, as an adjective and its noun do."""
    return any(a < c and b > d for a, b in pair.links for c, d in pair.links)
