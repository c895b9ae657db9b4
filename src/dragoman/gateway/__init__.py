"""Hosts agents for others: many clients, many agent processes, one durable log a session."""
