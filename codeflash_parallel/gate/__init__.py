"""The gate: did this change make it slower? Two trees, the head's benchmarks on both, one interleaved race.

Offers: `regression_gate.gate`, `regression_gate.GateRequest`, `gate_result.GateResult`.
Imports: run (setup, targets), baseline (findings), race, and the rooms below.
"""
