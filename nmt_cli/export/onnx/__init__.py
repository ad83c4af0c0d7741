"""A directory with the model as two ONNX graphs, and programs that translate with them."""
