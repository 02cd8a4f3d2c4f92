"""State and limits of this process: forks, audit hook, limits of one call, random state, started
subprocesses, the current template server.

Offers: process_fork.fork_twice, audit_hook.listen, call_limits.limited, random_state.RandomState,
subprocess_watch.SubprocessWatch, current_template.server.
Imports: _runner.paths.
"""
