"""The agents' processes and their messages."""
