"""Communication with the evaluator: records, control lines of an arm, orders with descriptors.

Offers: record_channel.RecordChannel and take_secret, control_channel.ArmControl and OrderSocket.
Imports: nothing.
"""
