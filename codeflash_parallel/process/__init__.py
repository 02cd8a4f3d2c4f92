"""Processes on this host: start, observe, limit and end them; files and locks; what the host offers.

Offers: `process_table.read`, `message_channel.MessageChannel`, `files.write_atomically`,
`machine.read_machine`, `files.FileLock`, `host_lock.HostLock`, `local_socket.short_address`.
Imports: `candidates`, `config`, `result`.
"""
