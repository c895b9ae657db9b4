"""The widgets of a transcript: one for each entry of the view model."""
