"""Rules about what an agent may do: read, compared, and put into words."""
