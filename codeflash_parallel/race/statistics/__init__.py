"""Pure statistics of a race: values in, values out.

Offers: log_ratios.track (ArmLogRatios), confidence_sequence.SequentialEvidence and Interval,
sequential_test.look (InterimState, ArmStanding).
Imports: race.plan, race.measurement, result; no other part of race.
"""
