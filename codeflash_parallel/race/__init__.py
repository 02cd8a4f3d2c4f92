"""Time candidates against the baseline in paired, interleaved rounds on one core, and rank them.

Offers: race.race.race(plan, …) returning RaceResult or RaceFailure (race.race_result), race.plan.RacePlan,
race.round.run_round, race.calibration.calibrate, race.disqualification, race.race_record (JSON of
measurements).
Imports: sandbox, process, result; inside race: worker, statistics (ranking and workload import race, not
the reverse).
"""
