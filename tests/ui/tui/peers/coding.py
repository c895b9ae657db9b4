"""The coder, with a script in the place of a language model: it looks, mends the rate and runs the test."""

import dragoman
from dragoman.coder import Coder, ScriptedModel
from dragoman.coder.model.scripted import call

MODEL = ScriptedModel(
    ("I look first.", call("read_file", path="prices.py")),
    call("edit_file", path="prices.py", old="0.2}", new="0.19}"),
    "The rate is right now.",
    title="Mend the rate",
)

dragoman.serve(lambda client: Coder(client, model=MODEL, language_servers=False))
