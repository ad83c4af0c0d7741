"""The speed of training and translation, as ratios to a plain model measured in the same run."""
