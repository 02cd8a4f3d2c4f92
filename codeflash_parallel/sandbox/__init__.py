"""Isolation levels of the project's processes, and the command that starts the runner at a level.

Offers: level_probe.choose (LevelProber), runner_command.install_guest and guest_command.
Imports: process, candidates, config, result.
"""
