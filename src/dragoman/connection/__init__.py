"""One peer over one wire, and the other end of it as an object to call."""
