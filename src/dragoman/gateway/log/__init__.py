"""What a gateway keeps: the engine's port, and the engine of one machine."""
