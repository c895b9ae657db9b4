"""The agent's side: `Agent`, `Turn`, `serve`."""
