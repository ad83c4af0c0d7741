"""Export of a model as a directory with two ONNX graphs and a program that translates with them."""
