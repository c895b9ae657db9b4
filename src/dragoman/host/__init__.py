"""What a client lends an agent, safe by default: files, terminals, permissions, an audit log, processes."""
