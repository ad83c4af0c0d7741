"""The directory of an ONNX export: graphs, tokenizers, defaults, a program, and pages that explain them."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.export.card import escape_markdown
from nmt_cli.export.new_directory import new_directory
from nmt_cli.system.errors import InputError
from nmt_cli.version import __version__

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.seq2seq import Seq2Seq

FORMAT_VERSION = 1
"""The version of the keys in `defaults.json` and of the names of the graphs' inputs and outputs."""
PRECISIONS = ("fp32", "int8")
PROGRAM = "translate.py"
"""The program that is copied into an export and runs there without nmt. It imports nothing of this package."""
DECODING = ("beam_size", "length_penalty", "max_source_pieces", "max_length_a", "max_length_b", "no_repeat_ngram")
"""Names of the decoding settings that `defaults.json` passes to the program."""
ALIGNMENT = "- `--alignment hard`: append ` ||| ` and the pairs `source-target` of words, counted from 0.\n"
README = """# {name}: {languages}, as ONNX

A recurrent encoder-decoder {attention}, exported by nmt {version} in {precision}. It translates without nmt.

## Translate

    pip install onnxruntime numpy 'sentencepiece>=0.2.3'
    echo 'A sentence.' | python translate.py

The program reads lines from standard input and writes as many lines, in order. Its options:

- `--beam-size N`: the width of the search, {beam_size} by default. 1 is greedy and the fastest.
- `--n-best N`: N translations of each line, on N lines. Empty lines fill up where fewer are found.
- `--length-penalty ALPHA`: a score is divided by ((5 + pieces) / 6)^ALPHA; {length_penalty:g} by default.
{alignment}- `--threads N`: processor threads. The default is all cores.

A window of lines is translated as soon as it has been read, so a program that writes a line and waits gets its answer.

Lines are read as they are written. The program does not adapt them to the training text, as nmt does with
`decoding.normalize_input`. If that text is in small letters, write small letters.

## Files

| file | holds |
|---|---|
| `encoder.onnx`, `decoder.onnx` | the model, ONNX operators of version {opset} |
| {tokenizers} | SentencePiece: text to pieces and back |
| `defaults.json` | special pieces, limits and defaults of the search |
| `translate.py` | the program |
| `MODEL_CARD.md` | languages, training data, scores, limits |

## The graphs

Sizes in words are known only when a graph runs. A row is an unfinished translation. The rows of a source follow one
another, and there are equally many of each source.

{graphs}

A search runs the encoder once. It then runs the decoder once for each target piece, with all `memory.*` and with
`state.*` from the encoder or from the `next.*` of the step before. `piece` holds the last piece of each row, at first
<s> (piece {bos}). `parent` holds the row of the step before that each row continues, at first the number of its source.
`count` says how many pieces to return in `best_pieces`. The log-probability of pieces that no translation may hold is
minus infinity. A source ends with </s> (piece {eos}), which `lengths` counts.
"""


def check_request(precision: str) -> None:
    """Raise `InputError` if ONNX export does not have this precision, or if the library `onnx` is missing."""
    from nmt_cli.export.onnx.graph import import_onnx

    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision}: must be one of {', '.join(PRECISIONS)} with --format onnx")
    import_onnx()


def export(experiment: Experiment, model: Seq2Seq, directory: Path, *, precision: str, card: str) -> dict[str, int]:
    """Write a model to a new directory, whole or not at all, and return the size in bytes of each file by name.

    Raises:
        InputError: the directory exists and is not empty; ONNX cannot express the model.
        NmtError: a graph is too large for one file; the disk is full.
    """
    from nmt_cli.export.onnx.graphs import Graphs

    config, tokenizers = experiment.config, experiment.tokenizers
    graphs = Graphs(
        model,
        banned_ids=tokenizers[1].banned_ids(),
        quantised=precision == "int8",
        description=f"{config.name}, {config.data.direction.source} -> {config.data.direction.target}",
    )
    files = {"encoder.onnx": graphs.encoder(), "decoder.onnx": graphs.decoder()}
    sides = ["joint"] if tokenizers[0].has_same_model(tokenizers[1]) else ["source", "target"]
    files |= {f"{side}.model": tokenizer.model for side, tokenizer in zip(sides, tokenizers, strict=False)}
    defaults = _defaults(experiment, sides, precision, has_attention=model.has_attention)
    readme = _readme(defaults, sides, [(name, files[name]) for name in ("encoder.onnx", "decoder.onnx")])
    texts = {"defaults.json": json.dumps(defaults, indent=2, ensure_ascii=False) + "\n"}
    texts |= {"README.md": readme, "MODEL_CARD.md": card}
    texts[PROGRAM] = resources.files("nmt_cli").joinpath("export", "onnx", PROGRAM).read_text(encoding="utf-8")
    files |= {name: text.encode(errors="backslashreplace") for name, text in texts.items()}
    with new_directory(directory) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
    return {name: len(content) for name, content in files.items()}


def _defaults(experiment: Experiment, sides: list[str], precision: str, *, has_attention: bool) -> dict[str, Any]:
    from nmt_cli.data.tokenizer import BOS, EOS
    from nmt_cli.export.onnx.graph import OPSET

    config, target = experiment.config, experiment.tokenizers[1]
    decoding = config.decoding.model_dump()
    return {
        "format": FORMAT_VERSION,
        "nmt": __version__,
        "name": config.name,
        "source_lang": config.data.direction.source,
        "target_lang": config.data.direction.target,
        "precision": precision,
        "opset": OPSET,
        "tokenizers": {"source": f"{sides[0]}.model", "target": f"{sides[-1]}.model"},
        "target_vocab_size": target.vocab_size,
        "bos": BOS,
        "eos": EOS,
        "has_attention": has_attention,
        **({"tags": list(experiment.tokenizers[0].tags)} if experiment.tokenizers[0].tags else {}),
        **{name: decoding[name] for name in DECODING},
    }


def _readme(defaults: dict[str, Any], sides: list[str], graphs: list[tuple[str, bytes]]) -> str:
    from nmt_cli.export.onnx.graph import graph_interface

    tables = []
    for name, file in graphs:
        rows = [f"| {kind} | `{tensor}` | {dtype} | {axes} |" for kind, tensor, dtype, axes in graph_interface(file)]
        tables.append("\n".join([f"`{name}`:\n", "| | name | type | axes |", "|---|---|---|---|", *rows]))
    return README.format(
        languages=f"{escape_markdown(defaults['source_lang'])} to {escape_markdown(defaults['target_lang'])}",
        attention="with attention" if defaults["has_attention"] else "without attention",
        alignment=ALIGNMENT if defaults["has_attention"] else "",
        version=defaults["nmt"],
        graphs="\n\n".join(tables),
        # In a table and a heading, a name is text and nothing else.
        **{
            key: escape_markdown(value) if isinstance(value, str) else value
            for key, value in defaults.items()
            if key
            in (
                "name",
                "precision",
                "opset",
                "beam_size",
                "length_penalty",
                "bos",
                "eos",
            )
        },
        tokenizers=", ".join(f"`{side}.model`" for side in sides),
    )
