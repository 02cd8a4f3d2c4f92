"""Communication with the evaluator: records, control lines of an arm, orders with descriptors, secret of
one run.

Offers: record_channel.RecordChannel, arm_control.ArmControl, order_socket.OrderSocket, run_secret.take.
Imports: nothing.
"""
