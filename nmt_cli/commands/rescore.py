"""`nmt rescore`."""

from __future__ import annotations

from nmt_cli.commands.options import (
    Checkpoint,
    Device,
    ModelDirs,
    OutputFile,
    SourceLang,
    SourceText,
    TargetLang,
    TargetText,
    Threads,
    ZeroShot,
)


def rescore(
    source: SourceText,
    target: TargetText,
    model: ModelDirs = None,
    output: OutputFile = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:
    """Print how probable the model finds each given translation.

    Each output line is the natural logarithm of the probability of that translation with its end of sentence. It is not
    divided by the length.

    Example: nmt rescore source.txt target.txt --model runs/demo
    """
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.pair_scorer import write_log_probs

    write_log_probs(
        source,
        target,
        output,
        ModelOptions(
            model or (),
            checkpoint,
            device,
            threads,
            source_lang=source_lang,
            target_lang=target_lang,
            zero_shot=zero_shot,
        ),
    )
