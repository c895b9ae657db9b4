"""Hosts agents for remote clients: many clients, many agent processes, one durable log for each session."""
