"""`nmt plot attention`, `nmt plot curves`, `nmt plot lengths`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import Checkpoint, Device, InputFile, ModelDirs, Threads, output_file
from nmt_cli.data.lines import input_name
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import counted, log, warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass

plot = typer.Typer(help="Draw attention, learning curves, or scores by length.", no_args_is_help=True)
Picture = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="The file to write. Its ending chooses the kind.", metavar="OUT", parser=output_file
    ),
]


@plot.command()
def attention(
    file: InputFile = None,
    *,
    output: Picture,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Translations of the lines. Their attention is drawn, and nothing is translated.",
            metavar="FILE",
        ),
    ] = None,
    model: ModelDirs = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Draw where each target word looked in the source. An .html page shows the search too.

    Example: echo 'The red car is here.' | nmt plot attention --model runs/demo -o attention.html
    """
    from nmt_cli.assembly.inputs import read_parallel
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting
    from nmt_cli.assembly.pictures import MAX_SENTENCES, pictures_of
    from nmt_cli.assembly.translator import open_translator
    from nmt_cli.plots.attention import draw_attention
    from nmt_cli.plots.canvas import check_picture

    is_page = check_picture(output, draws_pages=False) == ".html"
    inputs = [file] if target is None else [file, target]
    experiments = named_models(list(model or []))
    refuse_overwriting(output, inputs, experiments)
    lines, *given = read_parallel(inputs)
    targets = given[0] if given else None
    if not any(line.strip() for line in lines):
        raise InputError(f"{input_name(file)}: has no line with text in it")
    if targets is not None and not any(a.strip() and b.strip() for a, b in zip(lines, targets, strict=True)):
        raise InputError(f"{' and '.join(map(input_name, inputs))}: have no line with text on both sides")
    if is_page and len(lines) > MAX_SENTENCES:
        warn(f"only the first {MAX_SENTENCES} of {len(lines):,} lines are drawn")
        lines = lines[:MAX_SENTENCES]
    directories = [experiment.directory for experiment in experiments]
    translator = open_translator(
        directories, checkpoint=checkpoint, device=device, threads=threads, with_alignment=True
    )
    if not translator.models.has_attention:
        without = translator.models.without_attention
        raise InputError(f"{without} (model.attention.type: none), so there is nothing to draw")
    untranslated: list[int] = []
    pictures = pictures_of(translator, lines, targets, untranslated)  # made as they are drawn: a figure takes only some
    num_drawn = draw_attention(pictures, output)
    if untranslated:
        lines_left = counted(len(untranslated), "line")
        warn(f"left out {lines_left} that the model translates as nothing; the first is line {untranslated[0]}")
    if translator.counts.cut:
        translator.report()
        if is_page:
            warn("the page leaves out the steps of the search for lines that were translated in parts")
    log(f"{counted(num_drawn, 'sentence')} -> {output}")


@plot.command()
def curves(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Model directories or metrics.jsonl files. Without them, nmt takes $NMT_MODEL, or else the "
            "newest finished run below runs/.",
            metavar="RUN...",
        ),
    ] = None,
    *,
    output: Picture,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="The same as RUN. May be repeated.", metavar="DIR")
    ] = None,
) -> None:
    """Draw loss, BLEU and chrF of one run or several by step, as .png, .svg or .html.

    Example: nmt plot curves runs/demo -o curves.png
    """
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting
    from nmt_cli.assembly.pictures import read_metrics, run_name
    from nmt_cli.plots.curves import draw_curves

    runs = [*(runs or []), *(model or [])] or [experiment.directory for experiment in named_models([])]
    names = [run_name(path) for path in runs]
    if len(set(names)) < len(names):  # the whole paths tell them apart
        names = [str(path) for path in runs]
    if twice := next((path for path in runs if runs.count(path) > 1), None):
        raise InputError(f"{twice}: is named twice. Name each run once")
    experiments = [Experiment(path if path.is_dir() else path.parent) for path in runs]
    refuse_overwriting(output, runs, [one for one in experiments if one.checkpoints.directory.is_dir()])
    draw_curves({name: list(read_metrics(path)) for name, path in zip(names, runs, strict=True)}, output)
    log(f"{counted(len(runs), 'run')} -> {output}")


@plot.command()
def lengths(
    *,
    source: Annotated[str, typer.Option("--source", help="The source text.", metavar="SRC")],
    reference: Annotated[str, typer.Option("--reference", help="Its reference translation.", metavar="REF")],
    hypothesis: Annotated[
        list[str], typer.Option("--hypothesis", help="Translations of a system. May be repeated.", metavar="[NAME=]HYP")
    ],
    output: Picture,
    edges: Annotated[
        str,
        typer.Option("--edges", help="The longest length of each group in source words, rising.", metavar="N,N,..."),
    ] = "10,20,30,40,50,60,70",
    tokenize: Annotated[str | None, typer.Option("--tokenize", help="As for nmt score.", metavar="T")] = None,
) -> None:
    """Draw BLEU by source length with 95 % bootstrap intervals, as .png, .svg or .html.

    Example: nmt plot lengths --source a.en --reference a.de --hypothesis search=b.de -o lengths.png
    """
    from nmt_cli.assembly.inputs import read_parallel
    from nmt_cli.assembly.overwriting import refuse_overwriting
    from nmt_cli.assembly.pictures import length_buckets
    from nmt_cli.plots.canvas import check_picture
    from nmt_cli.plots.curves import draw_lengths
    from nmt_cli.scoring import check_tokenizer

    check_picture(output)
    check_tokenizer(tokenize)
    try:
        limits = [int(edge) for edge in edges.split(",")]
    except ValueError:
        limits = []
    if not limits or limits != sorted(set(limits)) or limits[0] < 1:
        raise InputError(f"--edges {edges}: must be rising numbers with commas between them, such as 10,20,30")
    systems = {}
    for given in hypothesis:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():  # a file may have an equals sign in its path
            name, path = Path(given).stem, given
        if name in systems:
            raise InputError(f"--hypothesis {given}: a system is called {name!r} already; give NAME={path}")
        systems[name] = path
    inputs = [source, reference, *systems.values()]
    refuse_overwriting(output, inputs)
    sources, references, *translations = read_parallel(inputs)
    draw_lengths(
        {
            name: length_buckets(sources, hypotheses, references, limits, tokenize)
            for name, hypotheses in zip(systems, translations, strict=True)
        },
        output,
    )
    log(f"{counted(len(systems), 'system')} -> {output}")
