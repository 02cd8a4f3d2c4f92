"""Scheduling policy of the queue as pure functions: the next job, wait reasons, positions.

Offers: `scheduling_policy.pick`, `scheduling_policy.order`, `position.others_before`, `position.reason`.
Imports: `queue` (jobs).
"""
