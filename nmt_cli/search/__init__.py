"""From a model of the next piece to whole hypotheses. A model is a Protocol here: a table of probabilities will do."""
