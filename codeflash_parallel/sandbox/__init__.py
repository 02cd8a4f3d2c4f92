"""Isolation levels of the project's processes, and the command that starts the runner at a level.

Offers: level_probe.choose (ChosenLevel, LevelProber), runner_command.install_guest and guest_command,
bubblewrap.wrapper.
Imports: process, candidates, config, result.
"""
