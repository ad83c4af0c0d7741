"""Describes a model for the offline page: the tree of its modules, and the addresses of their parameters.

The record of a module holds its class, its settings (public attributes), and by their names in `model/` its parameters
and the records of the modules in it. Attributes that are None in the model are left out. The JavaScript of the page
builds the same parts from it (model.mjs, decoder.mjs, attention.mjs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nmt_cli.data.tokenizer import BOS, EOS
from nmt_cli.export.page.packing import Packer, Record
from nmt_cli.model.encoder import EncoderLayer
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.ops.loop_product import LoopModule
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import english_name, is_turkic, primary_language
from nmt_cli.translation.precision import is_large

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment

FORMAT_VERSION = 2
"""The version of the format of descriptions. The page reads only this version."""
SUPPORTED_CLASSES = {
    *("Seq2Seq", "LexicalModel", "Encoder", "EncoderLayer", "RecurrentCell", "InputProjection", "GateNorm"),
    *("Decoder", "BahdanauRecurrence", "ConditionalRecurrence", "LuongRecurrence", "UpperLayers"),
    *("DeepReadout", "InitialState", "AdditiveScore", "DotScore", "GeneralScore"),
    *("GlobalAttention", "LocalAttention", "LocationAttention", "CoverageAttention", "MultiheadAttention"),
    "NoAttention",
}
"""Names of the classes of `model/` that the JavaScript of the page implements."""


def pack_model(experiment: Experiment, model: Seq2Seq, profiles: Sequence[TextProfile | None] = ()) -> bytes:
    """Return a model with its tokenizers and settings as bytes that the offline page reads (format: packing.py).

    `profiles` holds for each direction the profile of its training text, or None if lines are read as they are written.

    Raises:
        InputError: the page cannot compute the model.
    """
    packer = Packer()
    with torch.inference_mode():
        try:
            parts = model_record(packer, model)
        except InputError as error:
            raise InputError(f"{experiment.directory}: {error}") from error
    tokenizers: dict[str, Record] = {}
    for side, tokenizer in zip(("source", "target"), experiment.tokenizers, strict=True):
        same = next(
            (known for known in tokenizers.values() if experiment.tokenizers[0].has_same_model(tokenizer)), None
        )
        tokenizers[side] = same or {"at": packer.store_bytes(tokenizer.model), "size": len(tokenizer.model)}
    profiles = profiles or [None] * len(experiment.of_each_direction())
    directions = [_direction(packer, *one) for one in zip(experiment.of_each_direction(), profiles, strict=True)]
    head = _head(experiment) | directions[0] | {"directions": directions}
    return packer.packed(head | {"tokenizers": tokenizers, "model": parts})


def profile_record(
    packer: Packer, profile: TextProfile, languages: tuple[str, str], symbols: Sequence[str], *, knows_words: bool
) -> Record:
    """Store the words of a training text, and return a record of their address and of how the text is written.

    normalization.mjs reads the record. Only the usual form of each word, such as `Berlin`, is stored; the page derives
    the form in small letters, by which it finds the word.
    """
    words = f"{' '.join(profile.forms.values())}\n{' '.join(profile.other_forms or ())}".encode()
    source, target = ({"turkic": is_turkic(one), "greek": primary_language(one) == "el"} for one in languages)
    return {
        "at": packer.store_bytes(words),
        "size": len(words),
        "hasCase": profile.has_case,
        "beginsWithCapital": profile.begins_with_capital,
        "endsWithStop": profile.ends_with_stop,
        "knowsOtherForms": profile.other_forms is not None,
        "knowsWords": knows_words,
        "symbols": list(symbols),
        "source": source,
        "target": target,
    }


def model_record(packer: Packer, model: Seq2Seq) -> Record:
    """Store a model's parameters, and return the record of its module tree with their addresses.

    Raises:
        InputError: the page has no equations for a part of the model.
    """
    record: Record = _module(packer, "model", model)
    return record


def _direction(packer: Packer, experiment: Experiment, profile: TextProfile | None) -> Record:
    """Return the record of one direction: its languages, the tags with which its sources begin, and its profile, if
    any."""
    data, tokenizer = experiment.config.data, experiment.tokenizers[0]
    source, target = data.direction
    names = {"sourceName": english_name(source), "targetName": english_name(target)}
    record: Record = {"source": source, "target": target, **names, "tags": list(tokenizer.tags)}
    if profile is not None:
        symbols = sorted(tokenizer.symbols())
        record["profile"] = profile_record(packer, profile, data.direction, symbols, knows_words=data.word_pairs)
    return record


def _head(experiment: Experiment) -> Record:
    config, target = experiment.config, experiment.tokenizers[1]
    decoding = config.decoding
    return {
        "format": FORMAT_VERSION,
        "name": config.name,
        "search": {
            "bos": BOS,
            "eos": EOS,
            "banned": target.banned_ids(),
            "lengthPenalty": decoding.length_penalty,
            "maxSourcePieces": decoding.max_source_pieces,
            "maxLengthA": decoding.max_length_a,
            "maxLengthB": decoding.max_length_b,
            "noRepeatNgram": decoding.no_repeat_ngram,
        },
    }


def _module(packer: Packer, name: str, module: nn.Module, direction: int | None = None) -> Any:
    """Store the parameters of a module, and return its record, or a list of records for a list of modules.

    A layer of the encoder has a list with a record for each of its directions; `direction` is the index of one.
    """
    if isinstance(module, nn.ModuleList):
        return [_module(packer, name, one) for one in module]
    if isinstance(module, nn.Linear):
        return packer.store_linear(module)
    if isinstance(module, nn.Conv1d):
        return {"filters": packer.store_floats(module.weight[:, 0]), "width": module.kernel_size[0]}
    kind = type(module).__name__
    if kind not in SUPPORTED_CLASSES:
        raise InputError(f"--format html: has no equations for the {name} {kind}; use nmt translate or nmt serve")
    if isinstance(module, EncoderLayer) and direction is None:
        return [_module(packer, name, module, each) for each in range(module.directions)]
    record: Record = {"class": kind}
    for key, value in vars(module).items():
        if isinstance(value, (bool, int, float, str)) and not key.startswith("_") and key != "training":
            record[key] = value
    for key, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
        record[key] = _parameter(packer, module, key, parameter if direction is None else parameter[direction])
    return record | {key: _module(packer, key, child, direction) for key, child in module.named_children()}


def _parameter(packer: Packer, module: nn.Module, name: str, parameter: Tensor) -> Record | int:
    """Store a parameter; return the record of a matrix or an embedding table, or the address of any other parameter."""
    if isinstance(module, LoopModule) and name == module.matrix_name:
        return packer.store_product(parameter)
    if not isinstance(module, Seq2Seq) or name == "output_bias":
        return packer.store_floats(parameter)
    if name == "output_weight" or is_large(parameter):
        return packer.store_table(parameter)
    # A small embedding that is also the output's is stored twice: nmt uses it in float32 here and in int8 there.
    return packer.store_float_product(parameter.t())
