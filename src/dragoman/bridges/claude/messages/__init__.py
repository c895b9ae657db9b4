"""What the client and the `claude` program say to each other, put into the other's words."""
