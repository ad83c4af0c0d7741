"""`nmt card`."""

from __future__ import annotations

from nmt_cli.commands.options import Checkpoint, DescribedDirs, OutputFile
from nmt_cli.data.output import is_stream, open_output
from nmt_cli.export import card as cards
from nmt_cli.system.console import log


def card(model: DescribedDirs = None, output: OutputFile = None, checkpoint: Checkpoint = "best") -> None:
    """Write a model card: languages, training data, size, scores, decoding defaults, limits.

    It is Markdown with the YAML front matter that model hubs read. The scores are from `nmt evaluate`. What the
    model directory does not know is said to be unknown. `data.licence` in the configuration names the licence of the
    training data. Several models give one card.

    Example: nmt card --model runs/demo -o README.md
    """
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting

    experiments = named_models(list(model or []))
    refuse_overwriting(output, [], experiments)
    text = cards.card(experiments, checkpoint)
    with open_output(output) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))
    if output is not None and not is_stream(output):
        log(f"model card -> {output}")
