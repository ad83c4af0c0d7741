"""Exported graphs beside the torch model that they stand for."""

import numpy as np
import torch

from nmt_cli.export.onnx.graphs import Graphs

BANNED = (0, 2)


def sessions(model, *, quantised=False):
    """The encoder and the decoder, ready to run."""
    import onnxruntime

    graphs = Graphs(model, BANNED, quantised)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return tuple(onnxruntime.InferenceSession(file, options) for file in (graphs.encoder(), graphs.decoder()))


def encoded(encoder, ids_BS, lengths):
    names = [output.name for output in encoder.get_outputs()]
    values = encoder.run(names, {"source": ids_BS.astype(np.int32), "lengths": np.array(lengths, np.int32)})
    return dict(zip(names, values, strict=True))


def step(decoder, memory_and_state, pieces, parents, count=1):
    """The outputs of a step, with the next step's inputs in the place of this one's."""
    given = {
        **memory_and_state,
        "piece": np.array(pieces, np.int32),
        "parent": np.array(parents, np.int32),
        "count": np.array([count], np.int64),
    }
    names = [output.name for output in decoder.get_outputs()]
    found = dict(zip(names, decoder.run(names, given), strict=True))
    state = {f"state.{name.removeprefix('next.')}": found[name] for name in names if name.startswith("next.")}
    return found, {**memory_and_state, **state}


def torch_steps(model, source_BS, valid_BS, inputs_NT, rows):
    """Log-probabilities and weights (T, N, ...) of the torch model, whose rows have a memory each."""
    with torch.no_grad():
        memory = model.encode(source_BS, valid_BS)
        memory = memory.select(torch.arange(len(source_BS)).repeat_interleave(rows))
        state = model.initial_state(memory)
        for inputs_N in inputs_NT.unbind(1):
            decoded = model.decode(inputs_N.unsqueeze(1), memory, state)
            state = decoded.state
            log_probs_NV = model.logits(decoded.readout_BTR[:, 0]).log_softmax(dim=-1)
            log_probs_NV[:, list(BANNED)] = -torch.inf
            yield log_probs_NV.numpy(), decoded.weights_BTS[:, 0].numpy()
