"""The stages of `nmt improve`: each is an ordinary command, in a directory of its own."""
