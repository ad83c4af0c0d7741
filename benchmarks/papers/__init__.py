"""The papers' findings again, at a size that two CPU cores train in two hours; every step is an `nmt` command."""
