"""The architecture of a model in words, as `nmt inspect` and `nmt card` show it."""

from __future__ import annotations

from nmt_cli.config.model import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from nmt_cli.system.console import format_count


def architecture(model: ModelConfig) -> dict[str, str]:
    """Return a text for each part of a model, by the name of the part, with the settings that change its results.

    Dropout is left out, because it acts only in training.
    """
    encoder, decoder = model.encoder, model.decoder
    readout_size = f"{model.readout_size:,} units"
    return {
        "encoder": ("bidirectional " if encoder.bidirectional else "")
        + _describe_layers(encoder)
        + (" in each direction" if encoder.bidirectional else "")
        + (", reads from the end" if encoder.reverse_source else ""),
        "decoder": f"{_describe_layers(decoder)}, recurrence: {decoder.recurrence}"
        + ("" if decoder.recurrence != "luong" or decoder.input_feeding else " without input feeding"),
        "first state": model.initial_state,
        "attention": _describe_attention(model.attention),
        "readout": readout_size if decoder.recurrence == "luong" else f"{model.readout}, {readout_size}",
        "lexical model": _yes_or_no(model.lexical_model),
        "embeddings": f"{model.embedding_size:,} units, tied: {model.tied_embeddings}",
        "layer normalisation": _yes_or_no(model.layer_norm),
    }


def _describe_layers(part: EncoderConfig | DecoderConfig) -> str:
    return f"{part.rnn_type}, {format_count(part.num_layers, 'layer')} of {part.hidden_size:,} units"


def _describe_attention(attention: AttentionConfig) -> str:
    size = f"{attention.size:,} units"
    match attention.type:
        case "none":
            where = "every step" if attention.context == "every_step" else "the first state alone"
            return f"none; the source vector enters {where}"
        case "dot" | "general":
            return attention.type
        case "local-m" | "local-p":
            score = attention.score if attention.score in ("dot", "general") else f"{attention.score}, {size}"
            return f"{attention.type}, {format_count(attention.window, 'position')} on either side, score: {score}"
        case "location":
            found = f"location, {size}, {format_count(attention.filters, 'filter')} of width {attention.filter_width}"
            found += "" if attention.sharpening == 1.0 else f", sharpening {attention.sharpening:g}"
            return found + (", smoothing" if attention.smoothing else "")
        case "multihead":
            return f"multihead, {format_count(attention.heads, 'head')}, {size}"
        case _:
            return f"{attention.type}, {size}" + (
                "" if attention.coverage == "none" else f", {attention.coverage} coverage"
            )


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"
