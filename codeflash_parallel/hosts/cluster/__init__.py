"""Runs on several hosts: `--executor ray` and `--executor slurm`.

`host_cluster` is the submitting side and `host_run` the side of a host; an engine only runs a process there
and carries its messages (`host_process`). Imports: run and below, and the engine that is chosen.
"""
