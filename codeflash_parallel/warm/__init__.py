"""Warm servers: runner processes that wait at a fork point and are forked for each check.

Offers: `server_fleet.Fleet` and `ServerWarmup`, `warm_server.start_server`.
Imports: `check` and the rooms below it.
"""
