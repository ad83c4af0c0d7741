"""Ways to better models from the same text: the stages of a study, which go on where they were stopped."""
