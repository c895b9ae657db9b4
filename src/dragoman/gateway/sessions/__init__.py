"""Hosted sessions: their viewers, turns, questions and history."""
