"""Where the person decides: questions and forms."""
