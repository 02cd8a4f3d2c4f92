"""The launcher process: fork, exec, watch, kill and reap children; standard library only.

Offers: supervisor_loop.main (the process), supervised_job.SupervisedJob, spawner.
Imports: process.process_table and process.message_frames only; nothing outside of process.
"""
