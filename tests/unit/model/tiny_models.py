"""Models small enough to be compared with slow truths: every recurrence with every attention, in float64.

All parameters are drawn at random, biases too: with the zeros that training begins with, no forgotten bias shows.
"""

import itertools

import pytest
import torch

from nmt_cli.config.model import (
    AttentionConfig,
    DecoderConfig,
    DropoutConfig,
    EncoderConfig,
    ModelConfig,
)
from nmt_cli.model.build import build_model

VOCAB_SIZE = 11
RECURRENCES = ("bahdanau", "conditional", "luong")
ATTENTIONS = {
    "none-every-step": {"type": "none"},
    "none-initial": {"type": "none", "context": "initial"},
    "additive": {"type": "additive"},
    "linguistic-coverage": {"type": "additive", "coverage": "linguistic"},
    "neural-coverage": {"type": "additive", "coverage": "neural"},
    "dot": {"type": "dot"},
    "general": {"type": "general"},
    "concat": {"type": "concat"},
    "local-m": {"type": "local-m"},
    "local-m-dot": {"type": "local-m", "score": "dot"},
    "local-p": {"type": "local-p"},
    "local-p-concat": {"type": "local-p", "score": "concat"},
    "location": {"type": "location"},
    "location-sharp": {"type": "location", "sharpening": 2.0},
    "location-smooth": {"type": "location", "smoothing": True},
    "multihead": {"type": "multihead"},
}
CELLS = (("gru", True), ("gru", False), ("lstm", True), ("lstm", False))
EVERY_OPTION = {
    "lexical model": {"lexical_model": True, "tied_embeddings": "none"},
    "one direction": {"encoder": {"bidirectional": False}, "num_layers": 2},
    "source reversed": {"encoder": {"reverse_source": True}, "decoder": {"initial_state": "final"}, "num_layers": 2},
    "first state zero": {"decoder": {"initial_state": "zero"}},
    "no input feeding": {"decoder": {"input_feeding": False}},
    "maxout": {"decoder": {"readout": "maxout"}},
    "readout of its own size": {"decoder": {"readout_size": 7}, "tied_embeddings": "none"},
    "target tied": {"tied_embeddings": "target"},
    "sources tied": {"tied_embeddings": "source-target"},
}
"""Options of a model beside its attention and recurrence, each by a name."""


def every_kind():
    """(recurrence, attention, rnn_type, layer_norm): all pairs of the first two, each with two opposite kinds of cells,
    so that every recurrence and every attention meets all four; the second of each two is for `make soak`."""
    kinds = []
    for recurrence, attention in itertools.product(RECURRENCES, ATTENTIONS):
        place = (RECURRENCES.index(recurrence) + list(ATTENTIONS).index(attention)) % len(CELLS)
        first, second = ((recurrence, attention, *cells) for cells in (CELLS[place], CELLS[-1 - place]))
        kinds.append(pytest.param(first, id=name_of(first)))
        kinds.append(pytest.param(second, id=name_of(second), marks=pytest.mark.soak))
    return kinds


def every_attention():
    """One model for each attention."""
    return [(RECURRENCES[number % 3], attention, *CELLS[number % 4]) for number, attention in enumerate(ATTENTIONS)]


def name_of(kind):
    recurrence, attention, rnn_type, layer_norm = kind
    return f"{recurrence}-{attention}-{rnn_type}{'-norm' if layer_norm else ''}"


def tiny_config(kind, *, num_layers=1, dropout=0.0, encoder=None, decoder=None, **model):
    recurrence, attention, rnn_type, layer_norm = kind
    sizes = {"size": 6, "heads": 2, "filters": 3, "filter_width": 3, "window": 1}
    probabilities = dict.fromkeys(DropoutConfig.model_fields, dropout) if isinstance(dropout, float) else dropout
    quiet = dict.fromkeys(DropoutConfig.model_fields, 0.0)
    return ModelConfig(
        embedding_size=5,
        layer_norm=layer_norm,
        encoder=EncoderConfig(rnn_type=rnn_type, hidden_size=4, num_layers=num_layers, **(encoder or {})),
        decoder=DecoderConfig(
            rnn_type=rnn_type, recurrence=recurrence, hidden_size=8, num_layers=num_layers, **(decoder or {})
        ),
        attention=AttentionConfig(**{**sizes, **ATTENTIONS[attention]}),
        dropout=DropoutConfig(**{**quiet, **probabilities}),
        **model,
    )


def tiny_model(kind, *, seed=1, dtype=torch.float64, **options):
    """A model whose parameters are all random."""
    model = build_model(tiny_config(kind, **options), source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE)
    model = model.to(torch.float64)
    randomise(model, seed)
    return model.to(dtype)


def randomise(module, seed=1):
    """Draw all parameters of a module, gains around one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(1.0 if name.endswith("gain") else 0.0, 0.5, generator=generator)


def random_ids(shape, seed=1):
    return torch.randint(0, VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(seed))


def random_values(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def valid_of(lengths, width=None):
    """(B, S), True on the first pieces of each row."""
    return torch.arange(width or max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def run(model, source_BS, valid_BS, inputs_BT, noise=None):
    """The whole model under teacher forcing."""
    memory = model.encode(source_BS, valid_BS, noise)
    return model.decode(inputs_BT, memory, model.initial_state(memory), noise)
