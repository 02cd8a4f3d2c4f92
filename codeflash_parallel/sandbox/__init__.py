"""Isolation levels of the project's processes, and the command that starts the runner at a level.

Offers: level_probe.choose (LevelProber), runner_command.install_runner and start_command.
Imports: process, candidates, config, result.
"""
