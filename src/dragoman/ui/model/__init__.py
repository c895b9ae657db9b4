"""One session as a person sees it, for every screen: a pure fold of events, and the requests a person can make.

`ConversationModel.apply` applies an event and returns the changes, so that a screen repaints only those.  The model
has no clock: events carry their times.  The cases in `tests/ui/cases` define its behaviour for every
implementation.
"""
