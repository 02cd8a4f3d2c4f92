"""The evaluator's half of the launcher: the only way in which children are started.

Offers: launcher.open_launcher (Launcher), child_connection.ChildConnection, ControlChannel,
ForkGate and PipeReader.
Imports: process, process.supervisor (one constant), result.
"""
