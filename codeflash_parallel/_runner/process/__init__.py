"""State and limits of this process: forks, audit events, limits of one call, random state, started
subprocesses.

Offers: process_fork.fork_twice and RandomState, process_watch.listen, SubprocessWatch and ForkSafety,
shared_memory.separate, call_limits.limited.
Imports: _runner.sandbox (syscalls).
"""
