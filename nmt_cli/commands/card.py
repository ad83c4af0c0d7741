"""`nmt card`."""

from __future__ import annotations

from nmt_cli.commands.options import Checkpoint, DescribedDirs, OutputFile


def card(model: DescribedDirs = None, output: OutputFile = None, checkpoint: Checkpoint = "best") -> None:
    """Write a model card: languages, training data, size, scores, decoding defaults, limits.

    It is Markdown with the YAML front matter that model hubs read. The scores are from `nmt evaluate`. What the
    model directory does not know is said to be unknown. `data.licence` in the configuration names the licence of the
    training data. Several models give one card.

    Example: nmt card --model runs/demo -o README.md
    """
    from nmt_cli.assembly.exports import write_card

    write_card(model or (), output, checkpoint)
