"""Time candidates against the baseline in paired, interleaved rounds on one core, and rank them.

Offers: race.race.race(plan, …) returning Raced or RaceFailed (race.race_result), race.plan.RacePlan,
race.round.run_round and calibrate, race.cost_groups (what is timed), race.guards.
Imports: sandbox, process, result; inside race: worker, statistics (ranking and cost_groups import race, not
the reverse).
"""
