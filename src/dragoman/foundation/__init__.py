"""What every other part may use: owners, places, programs, destinations, comparing."""
