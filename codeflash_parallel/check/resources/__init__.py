"""Attribution of disk and memory shortages to the candidate or to the machine.

Offers: `shortage_attribution.short_of`, `shortage_attribution.charged`, `resource_reader.read_supply`.
Imports: check, process, result.
"""
