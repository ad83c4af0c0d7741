"""Builds tokenizers, models, trainings, translators, servers and reports from a configuration, a model directory or the
options of a command."""
