"""Choose where a check starts (a fork point or a new process), run it, account for its time.

Offers: fork_points.choose, run_dispatch.run_served and the WarmServers protocol,
server_verification.verify, step_times.
Imports: the rest of check, process, candidates, result.
"""
