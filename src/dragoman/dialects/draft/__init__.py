"""D3, the "specification 1.0 draft"."""
