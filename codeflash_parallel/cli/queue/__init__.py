"""The commands of the evaluation queue, one module each."""
