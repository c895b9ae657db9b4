"""From unified messages to ACP: the request that each message becomes."""

from collections.abc import Sequence

from ... import schema as s
from .messages import UnifiedMessage, UnifiedMessageError

KINDS = {
    "allow": ("allow_once", "allow_always"),
    "deny": ("reject_once", "reject_always"),
}  # in order of preference
CONTENT = {s.ImageContent: "image", s.AudioContent: "audio", s.EmbeddedResource: "embedded_context"}


def prompt_of(message: UnifiedMessage, takes: s.PromptCapabilities) -> Sequence[s.ContentBlock]:
    """The blocks of a prompt; raises UnifiedMessageError for an empty prompt, or for blocks of another kind."""
    if not message.content:
        raise UnifiedMessageError("a user_message needs content")
    for block in message.content:
        wanted = CONTENT.get(type(block))  # type: ignore[arg-type]
        if isinstance(block, s.Raw) or (wanted and not getattr(takes, wanted)):
            told = "the content is of an unknown kind" if wanted is None else wanted.replace("_", " ")
            raise UnifiedMessageError(f"the agent accepts no {told} in prompts")
    return message.content


def outcome_of(message: UnifiedMessage, options: Sequence[s.PermissionOption]) -> s.RequestPermissionResponse:
    """The answer to a permission request.

    A named option must be of the kind that `behavior` states.  Without a name, the first option for once is taken,
    else the first for longer.  If there is no option that rejects, the request is cancelled instead.
    """
    behavior, named = message.metadata.get("behavior"), message.metadata.get("optionId")
    if behavior not in KINDS:
        raise UnifiedMessageError(f"behavior must be allow or deny, not {behavior!r}")
    fitting = [option for kind in KINDS[behavior] for option in options if option.kind == kind]
    if named is not None:
        fitting = [option for option in fitting if option.option_id == named]
    if fitting:
        outcome = s.SelectedPermissionOutcome(option_id=fitting[0].option_id)
        return s.RequestPermissionResponse(outcome=outcome)
    if named is not None or behavior == "allow":
        which = f"option {named!r}" if named is not None else "option"
        raise UnifiedMessageError(f"the agent offers no {which} to {behavior}")
    return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())


def change_of(message: UnifiedMessage) -> dict[str, str]:
    """The settings in a configuration_change, in order: `model`, `mode`."""
    given = {
        "model": message.metadata.get("model", message.metadata.get("modelId")),
        "mode": message.metadata.get("modeId", message.metadata.get("mode")),
    }
    wanted: dict[str, str] = {name: value for name, value in given.items() if value is not None}
    if not wanted or not all(isinstance(value, str) for value in wanted.values()):
        raise UnifiedMessageError("a configuration_change must name a model or a modeId in its metadata")
    return wanted
