"""Requests to repair and refinement providers: evidence, budget, stored answers.

Offers: `provider_requests.open_providing`, `provider_requests.ProviderRequests`,
`providers.Providers`.
Imports: run.race_phase, run.state, run.store, repair, profile and the rooms below.
"""
