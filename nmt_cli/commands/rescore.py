"""`nmt rescore`."""

from __future__ import annotations

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, OutputFile, SourceText, TargetText, Threads
from nmt_cli.data.output import open_output
from nmt_cli.translation.windows import windows_of_pairs


def rescore(
    source: SourceText,
    target: TargetText,
    model: ModelDirs = None,
    output: OutputFile = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Print how probable the model finds each given translation.

    A line has the natural logarithm of the probability, the end of the sentence included. It is not divided by the
    length.

    Example: nmt rescore source.txt target.txt --model runs/demo
    """
    from nmt_cli.assembly.inputs import refuse_standard_input_twice
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting
    from nmt_cli.assembly.translator import open_scorer

    refuse_standard_input_twice([source, target])
    experiments = named_models(list(model or []))
    refuse_overwriting(output, [source, target], experiments)
    directories = [experiment.directory for experiment in experiments]
    scorer = open_scorer(directories, checkpoint=checkpoint, device=device, threads=threads)
    with open_output(output) as out:
        for window in windows_of_pairs(source, target):
            for log_prob in scorer.log_probs([(pair.source, pair.target) for pair in window]):
                out.write(f"{log_prob:.6f}\n".encode())
            out.flush()
