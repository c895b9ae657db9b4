"""The client's side: `Client`, `Session`, `connect`."""
