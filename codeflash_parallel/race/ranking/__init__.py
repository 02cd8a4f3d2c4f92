"""Turn the measurements of races into a status for each candidate and one verdict. Pure.

Offers: candidate_ranking.rank (RaceRanking, RankedCandidate), confirmation_plan.confirmation_of,
tie_break_policy.ordered, suspicious_gains.suspicion (guards), race_figures.figures.
Imports: race.plan, race.measurement, race.race_result, race.statistics, result.
"""
