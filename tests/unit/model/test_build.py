"""From configuration to model: first parameters, shared matrices, sizes."""

import pytest
import torch
from tiny_models import RECURRENCES, VOCAB_SIZE, every_attention, name_of, random_ids, run, tiny_config, valid_of

from nmt_cli.model.build import build_model, initialize

KIND = ("conditional", "additive", "gru", True)
EVERY = [*every_attention(), *((name, "additive", "lstm", False) for name in RECURRENCES)]


def built(config, *, seed=1, scheme="auto", global_seed=0):
    torch.manual_seed(global_seed)
    model = build_model(config, source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE)
    initialize(model, seed=seed, scheme=scheme)
    return model


@pytest.fixture
def _memory_of_nan():
    """`torch.empty` is filled with NaN, so that what nobody initialises is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_memory_of_nan")
@pytest.mark.parametrize("scheme", ["auto", "paper"])
@pytest.mark.parametrize("kind", EVERY, ids=name_of)
def test_the_first_parameters_depend_on_the_seed_only(kind, scheme):
    """Fails if a parameter is left as `torch.empty` or `nn.Linear` made it."""
    config = tiny_config(kind, num_layers=2, tied_embeddings="none")
    first = built(config, scheme=scheme, global_seed=1).state_dict()
    again = built(config, scheme=scheme, global_seed=2).state_dict()
    other = built(config, scheme=scheme, global_seed=1, seed=2).state_dict()
    for name, values in first.items():
        assert values.isfinite().all(), name
        assert torch.equal(values, again[name]), name
    assert not torch.equal(first["source_embedding"], other["source_embedding"])
    assert not torch.equal(first["encoder.layers.0.cell.weight"], other["encoder.layers.0.cell.weight"])


def test_recurrent_matrices_are_orthogonal_gate_by_gate():
    model = built(tiny_config(KIND, num_layers=2))
    cells = [module for module in model.modules() if type(module).__name__ == "RecurrentCell"]
    assert len(cells) == 2 + 3
    for cell in cells:
        gates = (
            cell.weight.reshape(-1, cell.hidden_size, cell.num_gates, cell.hidden_size).transpose(1, 2).flatten(0, 1)
        )
        for gate in gates:
            torch.testing.assert_close(gate @ gate.T, torch.eye(cell.hidden_size), rtol=0, atol=1e-5)


def test_the_paper_s_scheme_is_that_of_its_appendix():
    """Bahdanau et al. (2015), B.1: the alignment model of deviation 0.001, zeros for v and biases, 0.01 the rest."""
    config = tiny_config(("bahdanau", "additive", "gru", False), tied_embeddings="none")
    wide = config.model_copy(
        update={"embedding_size": 64, "attention": config.attention.model_copy(update={"size": 200})}
    )
    model = built(wide, scheme="paper")
    score = model.decoder.attention.score
    assert not score.v.any()
    for matrix in (score.query, score.key.weight):
        assert float(matrix.detach().std()) == pytest.approx(0.001, rel=0.1)
    for matrix in (
        model.source_embedding, model.target_embedding, model.output_weight, model.decoder.readout.hidden.weight,
        model.encoder.layers[0].projection.weight, model.decoder.recurrence.context.weight,
    ):  # fmt: skip
        assert float(matrix.detach().std()) == pytest.approx(0.01, rel=0.15)
    for name, parameter in model.named_parameters():
        assert "bias" not in name or not parameter.any(), name


@pytest.mark.parametrize(
    ("tied", "shared"),
    [
        ("none", 3),
        ("target", 2),
        ("source-target", 2),
        ("all", 1),
    ],
)
def test_tied_embeddings_are_one_parameter(tied, shared):
    model = built(tiny_config(KIND, tied_embeddings=tied))
    matrices = [model.source_embedding, model.target_embedding, model.output_weight]
    assert len({id(matrix) for matrix in matrices}) == shared
    assert (model.target_embedding is model.source_embedding) == (tied in ("source-target", "all"))
    assert (model.output_weight is model.target_embedding) == (tied in ("target", "all"))
    counted = sum(parameter is matrix for parameter in model.parameters() for matrix in matrices)
    assert counted == 3  # each once among the parameters, however many names it has
    assert len(list(model.parameters())) == len(list(built(tiny_config(KIND, tied_embeddings="none")).parameters())) - (
        3 - shared
    )


def test_a_tied_matrix_gets_the_sum_of_the_gradients_of_its_parts():
    """The tied model against an untied one with equal matrices."""
    tied = built(tiny_config(KIND, tied_embeddings="all")).double()
    apart = built(tiny_config(KIND, tied_embeddings="none")).double()
    apart.load_state_dict(tied.state_dict())
    for model in (tied, apart):
        decoded = run(model, random_ids((2, 4)), valid_of((4, 2)), random_ids((2, 3), seed=2))
        model.logits(decoded.readout_BTR).logsumexp(dim=-1).sum().backward()
    expected = apart.source_embedding.grad + apart.target_embedding.grad + apart.output_weight.grad
    torch.testing.assert_close(tied.source_embedding.grad, expected, rtol=1e-12, atol=1e-12)


def test_a_readout_size_is_that_of_the_embeddings_where_the_output_is_tied():
    assert built(tiny_config(KIND, tied_embeddings="all")).output_weight.shape == (VOCAB_SIZE, 5)
    sized = tiny_config(KIND, tied_embeddings="none", decoder={"readout_size": 9})
    assert built(sized).output_weight.shape == (VOCAB_SIZE, 9)


def test_a_model_says_whether_its_weights_are_an_alignment():
    for kind in every_attention():
        assert built(tiny_config(kind)).has_attention == (not kind[1].startswith("none"))
