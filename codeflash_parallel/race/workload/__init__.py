"""Choose what a race times and what one pass of it costs on the baseline.

Offers: cost_groups.cost_groups and whole_test_groups, baseline_probe.probe (BaselineProbe or
UntimeableWork).
Imports: race.plan, race.measurement, race.worker.
"""
