"""Ask providers (commands or Python callables) for repairs and refinements within a budget.

Offers: `broker.open_broker`, `broker.may_repair`, `command_providers.command_provider`,
`provider_protocol.Repairer`.
Imports: `candidates`, `config`, `result`.
"""
