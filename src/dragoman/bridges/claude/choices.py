"""The choices of a session: the mode, the model, the effort, the agent that answers."""

import re
from collections.abc import Mapping, Sequence

from ... import schema as s
from ...foundation.documents import Document, Json, documents_in, members

MODES = {
    "auto": ("Auto", "Claude decides which actions are safe; it asks about the others"),
    "default": ("Manual", "Asks before every action that the settings do not allow"),
    "acceptEdits": ("Accept Edits", "Edits files of the project without asking"),
    "plan": ("Plan", "Reads and plans; changes nothing until you approve the plan"),
    "dontAsk": ("Don't Ask", "Does what the settings allow, and refuses everything else without asking"),
    "bypassPermissions": ("Bypass Permissions", "Does everything without asking"),
}
ALIASES = {"manual": "default", "ask": "default", "accept-edits": "acceptEdits", "bypass": "bypassPermissions"}
DEFAULT = "default"
TOLD = {
    "mode": "What Claude may do without asking",
    "model": "The model that answers",
    "effort": "How hard the model thinks",
    "agent": "The agent that answers",
}
MODEL, MODE, EFFORT, AGENT = "model", "mode", "effort", "agent"
BUILT_IN_AGENTS = {"claude", "Explore", "general-purpose", "Plan", "statusline-setup", "output-style-setup"}

Model = Mapping[str, Json]


class Choices:
    """The available choices, as the program listed them at its start, and the current ones."""

    def __init__(self, told: Mapping[str, Json], settings: Mapping[str, Json], *, bypass: bool) -> None:
        self._models = [model for model in documents_in(told.get("models")) if model.get("value")]
        self._agents = [
            str(agent["name"])
            for agent in documents_in(told.get("agents"))
            if agent.get("name") and agent["name"] not in BUILT_IN_AGENTS
        ]
        self._bypass = bypass
        effective, applied = (members(settings.get(name)) for name in ("effective", "applied"))
        self.model = self._in_use(str(applied.get("model") or ""))
        effort = str(effective.get("effortLevel") or DEFAULT)
        self.effort = effort if effort in self._efforts() else DEFAULT
        self.agent = str(effective.get("agent") or DEFAULT)
        self.mode = str(told.get("current_permission_mode") or DEFAULT)

    def modes(self) -> list[s.SessionMode]:
        """The modes that the model and the user's rights allow."""
        able = bool(self._info().get("supportsAutoMode"))
        left_out = {*(() if able else ("auto",)), *(() if self._bypass else ("bypassPermissions",))}
        return [
            s.SessionMode(id=id, name=name, description=told)
            for id, (name, told) in MODES.items()
            if id not in left_out or id == self.mode
        ]

    def mode_named(self, wanted: str) -> str | None:
        """The mode of this id or alias; None if it cannot be chosen."""
        id = ALIASES.get(wanted, wanted)
        return id if id in {mode.id for mode in self.modes()} else None

    def model_named(self, wanted: str) -> str | None:
        """The value of a model, from its value, its full name, or words that match one model best."""
        for key in ("value", "resolvedModel", "displayName"):
            for model in self._models:
                if str(model.get(key, "")).lower() == wanted.lower():
                    return str(model["value"])
        words = _words(wanted)
        fits = [model for model in self._models if words and words <= _words(_all_names(model))]
        return str(fits[0]["value"]) if fits else None

    def use_model(self, value: str) -> None:
        """Choose a model; an effort or a mode that it does not support is reset."""
        self.model = value
        if self.effort not in self._efforts():
            self.effort = DEFAULT

    def model_state(self) -> Document | None:
        """The models for clients without config options."""
        if not self._models:
            return None
        models = [
            {"modelId": m["value"], "name": _name(m), "description": m.get("description")} for m in self._listed()
        ]
        return {"availableModels": models, "currentModelId": self.model}

    def options(self) -> list[s.SessionConfigOption]:
        """All options of the session with their current values."""
        found: list[s.SessionConfigOption] = [
            _select(MODE, "Mode", "mode", self.mode, [(m.id, m.name, m.description) for m in self.modes()])
        ]
        if self._models:
            models = [(str(m["value"]), _name(m), _told(m)) for m in self._listed()]
            found.append(_select(MODEL, "Model", "model", self.model, models))
        if len(efforts := self._efforts()) > 1:
            levels = [(level, "xHigh" if level == "xhigh" else level.capitalize(), None) for level in efforts]
            found.append(_select(EFFORT, "Effort", "thought_level", self.effort, levels))
        if self._agents:
            agents = [(DEFAULT, "Claude", None), *((name, name, None) for name in self._agents)]
            found.append(_select(AGENT, "Agent", None, self.agent, agents))
        return found

    def _in_use(self, name: str) -> str:
        """The value of the model in use; the program gives its full name."""
        for model in self._models:
            if name in (model["value"], model.get("resolvedModel")):
                return str(model["value"])
        return name or (str(self._models[0]["value"]) if self._models else DEFAULT)

    def _efforts(self) -> list[str]:
        levels = self._info().get("supportedEffortLevels") if self._info().get("supportsEffort") else None
        return [DEFAULT, *(str(level) for level in (levels if isinstance(levels, list) else ()))]

    def _info(self) -> Model:
        return next((model for model in self._models if model["value"] == self.model), {})

    def _listed(self) -> Sequence[Model]:
        """The listed models, and the one in use if the program did not list it."""
        return self._models if self._info() else [{"value": self.model}, *self._models]


def _select(
    id: str, name: str, category: str | None, value: str, choices: Sequence[tuple[str, str, str | None]]
) -> s.SessionConfigSelect:
    options = [s.SessionConfigSelectOption(value=v, name=n, description=told) for v, n, told in choices]
    return s.SessionConfigSelect(
        id=id, name=name, description=TOLD[id], category=category, current_value=value, options=options
    )


def _told(model: Model) -> str | None:
    told = model.get("description")
    return told if isinstance(told, str) else None


def _name(model: Model) -> str:
    return str(model.get("displayName") or model["value"])


def _all_names(model: Model) -> str:
    return " ".join(str(model.get(key, "")) for key in ("value", "resolvedModel", "displayName", "description"))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", text.lower())) - {"claude"}
