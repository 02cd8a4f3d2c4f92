"""Turn the measurements of races into a status for each candidate and one verdict. Pure.

Offers: candidate_ranking.rank, arm_comparison.contenders and confirmation_of.
Imports: race.guards, race.plan, race.measurement, race.race_result, race.statistics, result.
"""
