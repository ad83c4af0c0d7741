"""Fast implementations of the model's equations.

Each file holds one operation: its plain formula, its compiled kernel if there is one, and the function that chooses
between them from the tensors it receives. The callers do not know which one runs.
"""
