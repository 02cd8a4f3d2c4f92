"""Warm servers: runner processes that wait at a fork point and are forked for each check.

Offers: `server_fleet.Fleet`, `server_warmup.ServerWarmup`, `warm_server.start_server`,
`server_recycling.worn`.
Imports: `check` and the rooms below it.
"""
