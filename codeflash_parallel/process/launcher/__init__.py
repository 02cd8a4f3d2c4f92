"""The evaluator's half of the launcher: the only way in which children are started.

Offers: launcher.open_launcher (Launcher), fork_server.start_fork_server, child_connection.ChildConnection
and ControlChannel, pipe_reader.PipeReader.
Imports: process, process.supervisor (one constant, the name of the entry file), result.
"""
