"""Describes a model to the page: its parts, named as in `model/`, and the places of their numbers.

The JavaScript of the page builds the same parts from it (model.mjs, decoder.mjs, attention.mjs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from nmt_cli.data.tokenizer import BOS, EOS
from nmt_cli.export.page.packing import Packer, Record
from nmt_cli.model.attention import (
    AdditiveScore,
    Attention,
    CoverageAttention,
    DotScore,
    GeneralScore,
    GlobalAttention,
    LocalAttention,
    LocationAttention,
    MultiheadAttention,
    NoAttention,
    Score,
)
from nmt_cli.model.cells import GateNorm, InputProjection, RecurrentCell
from nmt_cli.model.decoder import (
    BahdanauRecurrence,
    ConditionalRecurrence,
    DeepReadout,
    InitialState,
    LuongRecurrence,
    Recurrence,
    UpperLayers,
)
from nmt_cli.model.encoder import EncoderLayer
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import english_name
from nmt_cli.translation.precision import is_large

if TYPE_CHECKING:
    from nmt_cli.config.model import ModelConfig
    from nmt_cli.experiment import Experiment

FORMAT = 1
"""The version of descriptions; the page reads this one only."""


def packed_model(experiment: Experiment, model: Seq2Seq) -> bytes:
    """Return a model with its tokenizers as bytes for the page.

    Raises:
        InputError: the page cannot compute the model.
    """
    packer = Packer()
    with torch.inference_mode():
        try:
            parts = model_record(packer, experiment.config.model, model)
        except InputError as error:
            raise InputError(f"{experiment.directory}: {error}") from error
    tokenizers: dict[str, Record] = {}
    for side, tokenizer in zip(("source", "target"), experiment.tokenizers, strict=True):
        same = next((known for known in tokenizers.values() if experiment.tokenizers[0] is tokenizer), None)
        tokenizers[side] = same or {"at": packer.raw(tokenizer.model), "size": len(tokenizer.model)}
    return packer.packed(_head(experiment) | {"tokenizers": tokenizers, "model": parts})


def model_record(packer: Packer, config: ModelConfig, model: Seq2Seq) -> Record:
    """Store a model's numbers, and return what the page needs to compute with them.

    Raises:
        InputError: the page has no equations for a part of it.
    """
    return _Parts(packer, config).of(model)


def _head(experiment: Experiment) -> Record:
    config, target = experiment.config, experiment.tokenizers[1]
    data, decoding = config.data, config.decoding
    return {
        "format": FORMAT,
        "name": config.name,
        "source": data.source_lang,
        "target": data.target_lang,
        "sourceName": english_name(data.source_lang),
        "targetName": english_name(data.target_lang),
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


class _Parts:
    """Descriptions of the parts of one model."""

    def __init__(self, packer: Packer, config: ModelConfig) -> None:
        self._packer, self._config = packer, config

    def of(self, model: Seq2Seq) -> Record:
        """Return the whole model."""
        store = self._packer
        output = store.table(model.output_weight)
        return {
            "sourceEmbedding": self._embedding(model.source_embedding),
            "targetEmbedding": self._embedding(model.target_embedding),
            "output": output | {"bias": store.floats(model.output_bias)},
            "lexical": None if model.lexical is None else store.linear(model.lexical.hidden),
            "encoder": self._encoder(model),
            "decoder": self._decoder(model),
        }

    def _embedding(self, table_ve: Tensor) -> Record:
        # A small table that is also the output's is stored twice: nmt uses it in float32 here and in int8 there.
        return self._packer.table(table_ve) if is_large(table_ve) else self._packer.float_product(table_ve.t())

    def _affine(self, norm: GateNorm | None, bias: Tensor | None, direction: int | None = None) -> Record:
        """Return what follows a product of gates: a layer normalisation, or a bias."""
        gain, shift = (None, bias) if norm is None else (norm.gain, norm.bias)
        assert shift is not None
        pick = slice(None) if direction is None else direction
        return {
            "gain": None if gain is None else self._packer.floats(gain[pick]),
            "bias": self._packer.floats(shift[pick]),
        }

    def _projection(self, projection: InputProjection | None, direction: int | None = None) -> Record | None:
        if projection is None:
            return None
        weight = projection.weight if direction is None else projection.weight[direction]
        return self._affine(projection.norm, projection.bias, direction) | {"product": self._packer.product(weight)}

    def _cell(self, cell: RecurrentCell, direction: int | None = None) -> Record:
        weight = cell.weight if direction is None else cell.weight[direction]
        own = self._affine(cell.norm, cell.bias, direction) | {"product": self._packer.product(weight)}
        norm = None if cell.cell_norm is None else self._affine(cell.cell_norm, None, direction)
        return own | {"type": cell.rnn_type, "size": cell.hidden_size, "cellNorm": norm}

    def _encoder(self, model: Seq2Seq) -> Record:
        layers = []
        for module in model.encoder.layers:
            layer = cast(EncoderLayer, module)
            directions = range(layer.directions)
            layers.append([self._layer(layer.cell, layer.projection, direction) for direction in directions])
        return {"reverseSource": self._config.encoder.reverse_source, "layers": layers}

    def _layer(self, cell: RecurrentCell, projection: InputProjection, direction: int | None = None) -> Record:
        return {"cell": self._cell(cell, direction), "input": self._projection(projection, direction)}

    def _decoder(self, model: Seq2Seq) -> Record:
        decoder, recurrence = model.decoder, model.decoder.recurrence
        stack = cast(UpperLayers, recurrence.upper)
        upper = [
            self._layer(cast(RecurrentCell, cell), cast(InputProjection, projection))
            for cell, projection in zip(stack.cells, stack.projections, strict=True)
        ]
        return self._recurrence(recurrence) | {
            "cell": self._cell(recurrence.cell),
            "input": self._projection(recurrence.input),
            "upper": upper,
            "attention": self._attention(recurrence.attention),
            "readout": None if decoder.readout is None else self._readout(decoder.readout),
            "initial": self._initial(decoder.initial),
        }

    def _recurrence(self, recurrence: Recurrence) -> Record:
        match recurrence:
            case BahdanauRecurrence():
                return {"recurrence": "bahdanau", "context": self._projection(recurrence.context)}
            case ConditionalRecurrence():
                return {
                    "recurrence": "conditional",
                    "context": self._projection(recurrence.context),
                    "contextCell": self._cell(recurrence.context_cell),
                }
            case LuongRecurrence():
                return {
                    "recurrence": "luong",
                    "feed": self._projection(recurrence.feed),
                    "attentional": self._packer.linear(recurrence.attentional),
                }
        raise _unknown("recurrence", recurrence)

    def _readout(self, readout: DeepReadout) -> Record:
        linear = self._packer.linear
        layers = {"hidden": linear(readout.hidden), "input": linear(readout.input), "context": linear(readout.context)}
        return layers | {"maxout": readout.maxout}

    def _initial(self, initial: InitialState) -> Record:
        return {"kind": initial.kind, "projection": self._packer.linear(initial.projection)}

    def _score(self, score: Score) -> Record:
        store = self._packer
        match score:
            case AdditiveScore():
                return {
                    "score": "additive",
                    "query": store.product(score.query),
                    "key": store.linear(score.key),
                    "v": store.floats(score.v),
                }
            case GeneralScore():
                return {"score": "general", "key": store.linear(score.key)}
            case DotScore():
                return {"score": "dot"}
        raise _unknown("score of the attention", score)

    def _attention(self, attention: Attention) -> Record:
        store = self._packer
        match attention:
            case NoAttention():
                return {"type": "none", "contextSize": attention.context_size}
            case GlobalAttention():
                return {"type": "global", "contextSize": attention.context_size} | self._score(attention.score)
            case LocalAttention():
                return {
                    "type": "local",
                    "contextSize": attention.context_size,
                    "window": self._config.attention.window,
                    "position": store.linear(attention.position),
                    "positionV": store.linear(attention.position_v),
                } | self._score(attention.score)
            case LocationAttention():
                filters_fw = attention.convolution.weight[:, 0]
                return {
                    "type": "location",
                    "contextSize": attention.context_size,
                    "filters": store.floats(filters_fw),
                    "filterWidth": filters_fw.shape[1],
                    "location": store.linear(attention.location),
                    "sharpening": self._config.attention.sharpening,
                    "smoothing": self._config.attention.smoothing,
                } | self._score(attention.score)
            case CoverageAttention():
                return {
                    "type": "coverage",
                    "contextSize": attention.context_size,
                    "coverage": store.linear(attention.coverage),
                    "update": store.linear(attention.update),
                    "updateKey": store.linear(attention.update_key),
                    "updateQuery": store.linear(attention.update_query),
                } | self._score(attention.score)
            case MultiheadAttention():
                return {
                    "type": "multihead",
                    "contextSize": attention.context_size,
                    "heads": len(attention.v),
                    "query": store.linear(attention.query),
                    "key": store.linear(attention.key),
                    "v": store.floats(attention.v),
                    "mix": store.linear(attention.mix),
                }
        raise _unknown("attention", attention)


def _unknown(what: str, part: object) -> InputError:
    return InputError(f"the page does not know this {what}, {type(part).__name__}; use --format onnx, or nmt serve")
