"""One step of a beam search under the constraints of its sentences.

The search calls three functions: `predict` returns the prediction of the model, `apply_masks` applies the constraints
to it, and `next_state` returns the constraint state of the chosen extensions. The rules are in `constraint_masks.py`.

Shapes: L active sentences, K beam, N = L x K rows, M rows or extensions among them, V vocabulary, S source.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from nmt_cli.search.active_sentences import ActiveSentences
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.constraint_state import ConstraintState, StepMasks
from nmt_cli.search.hypothesis import Prediction, StepModel


class ConstrainedStep(NamedTuple):
    """The constraints of all rows at one step."""

    masks: ConstraintMasks
    state: ConstraintState
    step_masks: StepMasks

    def apply_masks(self, log_probs_NV: Tensor, prefixes_LKT: Tensor, totals_LK: Tensor) -> Tensor:
        """Apply masks and bonuses to `log_probs_NV` in place, and return `totals_LK` plus `StepMasks.other_gains_N`.

        `other_gains_N` belongs to all pieces outside of a term, and is added to the total of a row instead of to V
        pieces.
        """
        self.masks.apply(self.step_masks, self.state, prefixes_LKT.flatten(0, 1), log_probs_NV)
        return totals_LK + self.step_masks.other_gains_N.view_as(totals_LK)

    def next_state(self, rows_M: Tensor, pieces_M: Tensor) -> ConstraintState:
        """Return the constraint state of M extensions: row `rows_M[i]` extended by the piece `pieces_M[i]`."""
        return self.masks.next_state(self.step_masks, self.state, rows_M, pieces_M)


def predict(
    model: StepModel, active: ActiveSentences, masks: ConstraintMasks | None
) -> tuple[Prediction, ConstrainedStep | None]:
    """Return the prediction of the model after the last piece of each row, and the constraints of the step or None.

    Under constraints, some source positions are hidden from the attention, some rows read another piece than their last
    one, and some rows make a second pass through the model.
    """
    state = active.constraint_state
    if masks is None or state is None:
        return model.step(active.last_ids_N, active.state), None
    ids_N = masks.input_ids(state, active.last_ids_N)
    found = model.step(ids_N, active.state, masks.masked_positions(state))
    assert found.weights_NS is not None
    attention = masks.term_attention(state, found.log_probs_NV, found.weights_NS)
    rows_M = attention.second_pass_NJ.any(dim=1).nonzero().squeeze(1)
    if len(rows_M):
        hidden_MS = masks.hidden_in_second_pass(state, attention, rows_M)
        again = model.step(ids_N[rows_M], active.state.extract(rows_M), hidden_MS)
        assert again.weights_NS is not None
        accepted_M = masks.accepts_second_pass(state, attention, rows_M, again.log_probs_NV, found.log_probs_NV)
        kept_M = accepted_M.nonzero().squeeze(1)
        new_state = again.state if len(kept_M) == len(rows_M) else again.state.keep(kept_M)
        rows_M, log_probs_MV, weights_MS = rows_M[kept_M], again.log_probs_NV[kept_M], again.weights_NS[kept_M]
        attention = masks.with_second_pass(state, attention, rows_M, log_probs_MV, weights_MS)
        found = found._replace(
            weights_NS=found.weights_NS.index_copy(0, rows_M, weights_MS),
            state=found.state.replace(rows_M, new_state),
        )
    waiting_M = masks.frozen_rows(state)
    if len(waiting_M):
        found = found._replace(state=found.state.replace(waiting_M, active.state.extract(waiting_M)))
    return found, ConstrainedStep(masks, state, masks.step_masks(state, attention, found.log_probs_NV))
