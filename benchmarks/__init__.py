"""How fast training and translation are, as ratios to a plain model measured in the same run."""
