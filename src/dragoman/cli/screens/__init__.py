"""Commands with a full-screen interface."""
