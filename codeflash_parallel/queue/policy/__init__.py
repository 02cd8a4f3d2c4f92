"""Scheduling policy of the queue as pure functions: which job is next, why the others wait, which position
a job has.

Offers: `scheduling_policy.pick`, `scheduling_policy.order`, `position.others_before`, `position.reason`.
Imports: `queue` (jobs).
"""
