"""The options of a session: mode, model, effort."""

from collections.abc import Sequence

from .. import schema as s
from .model.choice import PROVIDERS, SERVERS
from .model.port import EFFORTS
from .modes import MODES

REVIEWER = "reviewer"  # the value of the option `model` that means no model


def options(mode: str, model: str, models: Sequence[str], effort: str) -> list[s.SessionConfigOption]:
    """All options of a session; the choices always include the model in use."""
    names = list(dict.fromkeys([*([model] if model != REVIEWER else []), *models]))
    return [
        s.SessionConfigSelect(
            id="mode",
            name="Mode",
            category="mode",
            current_value=mode,
            options=[_choice(m.id, m.name, m.description) for m in MODES.values()],
        ),
        s.SessionConfigSelect(
            id="model",
            name="Model",
            category="model",
            current_value=model,
            options=[
                *(_choice(name, _title(name)) for name in names),
                _choice(REVIEWER, "Reviewer (no language model)"),
            ],
        ),
        s.SessionConfigSelect(
            id="effort",
            name="Effort",
            category="thought_level",
            current_value=effort,
            options=[_choice(word, word.capitalize()) for word in EFFORTS],
        ),
    ]


def _choice(value: str, name: str, description: str | None = None) -> s.SessionConfigSelectOption:
    return s.SessionConfigSelectOption(value=value, name=name, description=description)


def _title(name: str) -> str:
    provider, separator, model = name.partition(":")
    title = PROVIDERS[provider].title if provider in PROVIDERS else SERVERS.get(provider, (provider, 0))[0]
    return f"{model} ({title})" if separator else name
