"""Connects a session and a screen: it reports events to the view model and carries out the user's requests.

It uses no toolkit: a screen passes callbacks for changes, and calls `ConversationDriver`.
"""
