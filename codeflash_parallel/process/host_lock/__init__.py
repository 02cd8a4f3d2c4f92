"""Locks of the host: shared for checks, exclusive for races, one race at a time.

Offers: reader_writer_lock.host_quiet (HostLock, ReaderWriterLock), file_lock.wait_for_lock and try_lock,
benchmark_token.machine_alone and hold_benchmark_token.
Imports: process.environment, result.
"""
