"""The draft of version 2 of the protocol."""
