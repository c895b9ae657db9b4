"""Commands that show a person a screen."""
