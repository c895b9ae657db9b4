"""What every dialect is translated with."""
