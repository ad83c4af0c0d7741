"""Builds tokenizers, models, trainers and translators from a configuration or a model directory."""
