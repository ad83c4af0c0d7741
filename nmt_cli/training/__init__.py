"""Training of a model: loss, updates, validation, checkpoints, and recovery from interruptions and divergence."""
