"""The evaluation queue: store, policy, protocol and client. It imports no sibling."""
