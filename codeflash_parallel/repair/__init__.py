"""Ask providers (commands or Python callables) for repairs and refinements within a budget.

Offers: `broker.open_broker`, `budget.may_repair`, `command_providers.command_repairer`, `protocol`,
`provider_protocol.Repairer`.
Imports: `candidates`, `config`, `result`.
"""
