"""Bridges between the protocol and programs that speak something else; none knows another."""
