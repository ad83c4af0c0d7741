"""Builds a model from its configuration, and draws its initial parameters.

This is the only module of `model` that depends on the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt_cli.config.model import AttentionConfig, ModelConfig
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
from nmt_cli.model.cells import InputProjection, RecurrentCell, glorot_
from nmt_cli.model.decoder import (
    BahdanauRecurrence,
    ConditionalRecurrence,
    Decoder,
    DeepReadout,
    InitialState,
    LuongRecurrence,
    Recurrence,
)
from nmt_cli.model.encoder import Encoder
from nmt_cli.model.seq2seq import Seq2Seq

NEURAL_COVERAGE_UNITS = 10
"""Units of neural coverage at each source position; Tu et al. (2016) use 10 in their experiments."""


def build_model(config: ModelConfig, *, source_vocab_size: int, target_vocab_size: int) -> Seq2Seq:
    """Return the model with uninitialised parameters, to be loaded or given to `initialize`."""
    decoder_config, dropout = config.decoder, config.dropout
    attention = build_attention(config.attention, decoder_config.hidden_size, config.annotation_size)
    readout_size = config.readout_size
    sizes = (config.embedding_size, decoder_config.hidden_size, attention)
    rnn_type, num_layers, layer_norm = decoder_config.rnn_type, decoder_config.num_layers, config.layer_norm
    recurrence: Recurrence
    if decoder_config.recurrence == "luong":
        recurrence = LuongRecurrence(
            *sizes, rnn_type=rnn_type, num_layers=num_layers, layer_norm=layer_norm,
            readout_size=readout_size, input_feeding=decoder_config.input_feeding,
        )  # fmt: skip
        readout = None
    else:
        order = BahdanauRecurrence if decoder_config.recurrence == "bahdanau" else ConditionalRecurrence
        recurrence = order(*sizes, rnn_type=rnn_type, num_layers=num_layers, layer_norm=layer_norm)
        maxout = config.readout == "maxout"
        readout = DeepReadout(
            decoder_config.hidden_size, config.embedding_size, attention.context_size, readout_size, maxout=maxout
        )
    state_sizes = (recurrence.cell.state_size,) * decoder_config.num_layers
    decoder = Decoder(
        recurrence,
        readout,
        InitialState(config.annotation_size, state_sizes, kind=config.initial_state),
        readout_size=readout_size,
        recurrent_dropout=dropout.recurrent,
        readout_dropout=dropout.readout,
    )
    encoder = Encoder(
        config.embedding_size,
        config.encoder.hidden_size,
        rnn_type=config.encoder.rnn_type,
        bidirectional=config.encoder.bidirectional,
        num_layers=config.encoder.num_layers,
        layer_norm=config.layer_norm,
        reverse_source=config.encoder.reverse_source,
        recurrent_dropout=dropout.recurrent,
        annotation_dropout=dropout.annotation,
    )
    return Seq2Seq(
        encoder,
        decoder,
        source_vocab_size=source_vocab_size,
        target_vocab_size=target_vocab_size,
        embedding_size=config.embedding_size,
        readout_size=readout_size,
        tied_embeddings=config.tied_embeddings,
        embedding_dropout=dropout.embedding,
        source_word_dropout=dropout.source_word,
        target_word_dropout=dropout.target_word,
        lexical_model=config.lexical_model,
    )


def build_attention(config: AttentionConfig, query_size: int, annotation_size: int) -> Attention:
    """Return the attention of the configured type, for decoder states of `query_size` units."""

    def additive() -> AdditiveScore:
        return AdditiveScore(query_size, annotation_size, config.size)

    def score(name: str) -> Score:
        if name == "dot" and query_size == annotation_size:
            return DotScore()
        return GeneralScore(query_size, annotation_size) if name in ("dot", "general") else additive()

    match config.type:
        case "none":
            return NoAttention(annotation_size, every_step=config.context == "every_step")
        case "location":
            return LocationAttention(
                additive(), annotation_size, size=config.size, filters=config.filters,
                filter_width=config.filter_width, sharpening=config.sharpening, smoothing=config.smoothing,
            )  # fmt: skip
        case "multihead":
            return MultiheadAttention(query_size, annotation_size, size=config.size, heads=config.heads)
        case "local-m" | "local-p":
            predictive = config.type == "local-p"
            window = config.window
            return LocalAttention(
                score(config.score), query_size, annotation_size, window=window, predictive=predictive
            )
        case "additive" if config.coverage != "none":
            units = NEURAL_COVERAGE_UNITS if config.coverage == "neural" else None
            return CoverageAttention(additive(), query_size, annotation_size, size=config.size, units=units)
        case _:
            return GlobalAttention(score(config.type), annotation_size)


def initialize(model: Seq2Seq, *, seed: int, scheme: str = "auto") -> None:
    """Fill the parameters of a new model with initial values drawn from `seed`.

    `auto`: Glorot uniform for matrices, orthogonal for recurrences, N(0, 1/E) for embeddings. `paper`: Bahdanau et al.
    (2015), B.1: orthogonal recurrences, N(0, 0.001^2) for the additive alignment model, zeros for v and all biases,
    N(0, 0.01^2) for the rest.
    """
    generator = torch.Generator().manual_seed(seed)
    is_paper = scheme == "paper"
    with torch.no_grad():
        for _, module in model.named_modules():
            if isinstance(module, RecurrentCell):
                module.initialize(generator)
            elif isinstance(module, InputProjection):
                fan_in, fan_out = module.weight.shape[-2], module.weight.shape[-1] // module.num_gates
                if is_paper:
                    module.weight.normal_(0.0, 0.01, generator=generator)
                else:
                    glorot_(module.weight, fan_in, fan_out, generator)
            elif isinstance(module, (nn.Linear, nn.Conv1d)):
                if is_paper:
                    module.weight.normal_(0.0, 0.01, generator=generator)
                else:
                    fan_out, fan_in = module.weight.shape[0], module.weight[0].numel()
                    glorot_(module.weight, fan_in, fan_out, generator)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, (AdditiveScore, MultiheadAttention)):
                if is_paper:
                    module.v.zero_()
                else:
                    glorot_(module.v, module.v.shape[-1], 1, generator)
                if isinstance(module, AdditiveScore):
                    glorot_(module.query, module.query.shape[0], module.query.shape[1], generator)
        deviation = 0.01 if is_paper else model.source_embedding.shape[1] ** -0.5
        for table in dict.fromkeys([model.source_embedding, model.target_embedding]):
            table.normal_(0.0, deviation, generator=generator)
        if model.output_weight is not model.target_embedding:
            if is_paper:
                model.output_weight.normal_(0.0, 0.01, generator=generator)
            else:
                glorot_(model.output_weight, model.output_weight.shape[1], model.output_weight.shape[0], generator)
        if is_paper:
            for module in model.modules():
                if isinstance(module, AdditiveScore):
                    for matrix in (module.query, module.key.weight):
                        matrix.normal_(0.0, 0.001, generator=generator)


def freeze_rows(table: nn.Parameter, rows: Sequence[int]) -> None:
    """Freeze rows of an embedding (V, E): a hook sets their gradients to zero."""
    is_free = torch.ones(len(table), 1)
    is_free[rows] = 0.0
    on_device: dict[torch.device, Tensor] = {}

    def mask(gradient: Tensor) -> Tensor:
        if gradient.device not in on_device:
            on_device[gradient.device] = is_free.to(gradient.device)
        return gradient * on_device[gradient.device]

    table.register_hook(mask)
