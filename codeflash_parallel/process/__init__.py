"""Processes on this host: start, observe, limit and end them; their environment; what the host offers.

Offers: `process_table.read`, `message_channel.MessageChannel`, `environment.project_environment`,
`atomic_file.write_atomically`, `machine.read_machine`, `file_lock.FileLock`, `host_lock.HostLock`.
Imports: `candidates`, `config`, `result`.
"""
