"""Export of a trained model to places without nmt: a package for each format, and the model card that goes with all
of them."""
