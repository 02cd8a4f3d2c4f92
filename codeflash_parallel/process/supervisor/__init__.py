"""The launcher process: fork, exec, watch, kill and reap children; standard library only.

Offers: supervisor_main.main (run as a file), supervisor_loop.serve (Supervisor).
Imports: process.process_table and process.message_frames only; nothing outside of process.
"""
