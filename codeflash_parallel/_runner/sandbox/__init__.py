"""Confine this process before the first line of project code: Landlock, mounts, namespaces, limits.

Offers: confinement.confine, confine_and_tell and confine_template; isolation_probe (script, tries a level);
syscalls.
Imports: _runner.slot_paths.
"""
