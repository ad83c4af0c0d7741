"""A trained model for places without nmt: a room for each format, and the model card that goes with all of them."""
