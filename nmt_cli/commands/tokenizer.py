"""`nmt tokenizer`."""

from __future__ import annotations

from nmt_cli.commands.options import ConfigFile, Overrides


def tokenizer(config: ConfigFile, set_: Overrides = None) -> None:
    """Train the SentencePiece tokenizers. With training.init_from, take the tokenizers of that run if they fit.

    Example: nmt tokenizer --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.tokenizers import train_run_tokenizers

    train_run_tokenizers(config, set_ or ())
