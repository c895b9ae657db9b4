"""The agents' processes, and what each of them is told of its clients."""
