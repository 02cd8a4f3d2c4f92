"""Choose where a check starts (a fork point or a new process), run it, account for its time.

Offers: fork_points.choose, run_dispatch.run_served, StepTimes and the WarmServers protocol.
Imports: the rest of check, process, candidates, result.
"""
