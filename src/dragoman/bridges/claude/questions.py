"""Claude's questions to the user: permission for tools, approval of plans, and forms."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ... import schema as s
from ...errors import Error
from ...foundation.documents import Document, members, strings_in
from ...roles import offered
from .conversation import ClaudeConversation
from .program.launch import config_directory
from .program.running import Message
from .tools.shown import Input, Shown, objects, shown, texts, words

ONCE, ALWAYS, NO = "allow-once", "allow-with-updates", "reject"
PLAN_MODES = {
    "auto": ("exit-plan-auto", "Yes, and use auto mode"),
    "bypassPermissions": ("exit-plan-bypass", "Yes, and bypass permissions"),
    "acceptEdits": ("exit-plan-accept-edits", "Yes, auto-accept edits"),
    "default": ("exit-plan-default", "Yes, manually approve edits"),
}
# For these, "always" is a rule that the program suggests; our own rule would allow too much.
BY_RULE = {"Bash", "PowerShell", "Read", "Glob", "Grep", "Edit", "Write", "MultiEdit", "NotebookEdit"}
REFUSED = "The user did not allow this tool call."
MAX_PLAN = 256 * 1024  # bytes
Updates = Sequence[Input]


class ClaudeQuestions:
    """Passes the program's questions on to the client."""

    def __init__(self, conversation: Callable[[], ClaudeConversation], lent: Collection[str]) -> None:
        self._conversation = conversation
        self._lent = lent  # tools that ask the user themselves
        self.open = 0  # questions that wait for the user

    async def can_use_tool(self, request: Message) -> Message:
        """Answer whether a tool may run."""
        name, given = str(request["tool_name"]), members(request.get("input"))
        if name in self._lent:
            return {"behavior": "allow", "updatedInput": given}
        if name == "AskUserQuestion":
            return await self._ask_user(request, given)
        if name == "ExitPlanMode":
            return await self._leave_plan(request, given)
        suggested = _offered_updates(request)
        options = _options(name, given, suggested, request)
        chosen = await self.ask(str(request.get("tool_use_id")), name, given, options, request)
        if chosen is None:
            return {"behavior": "deny", "message": "The user cancelled the turn.", "interrupt": True}
        if chosen == ONCE:
            return {"behavior": "allow", "updatedInput": given}
        if chosen == ALWAYS:
            return {
                "behavior": "allow",
                "updatedInput": given,
                "updatedPermissions": list(suggested or _rule(name, given)),
            }
        return {"behavior": "deny", "message": REFUSED}

    async def ask(
        self,
        id: str,
        name: str,
        given: Input,
        options: Sequence[s.PermissionOption],
        request: Input,
        look: Shown | None = None,
    ) -> str | None:
        """Ask the user about a tool call, which is sent first if necessary; None if the turn was cancelled."""
        conversation = self._conversation()
        for update in (
            conversation.translator.introduce(id, name, given, None)
            if id not in conversation.translator.calls
            else ()
        ):
            await conversation.session.update(update)
        look = look or shown(name, given, conversation.session.cwd)
        blocked = str(request.get("blocked_path") or "")
        places = [*look.locations, *([s.ToolCallLocation(path=blocked)] if blocked.startswith("/") else [])]
        why = str(request.get("decision_reason") or "")
        call = s.ToolCallUpdate(
            tool_call_id=id,
            title=look.title,
            name=name,
            kind=look.kind,
            status="pending",
            content=[*look.content, *texts(f"Reason: {why}" if why else "")] or None,
            locations=list(dict.fromkeys(places)) or None,
            raw_input=given,
            meta=_server_of(name, request),
        )
        question = s.RequestPermissionRequest(session_id=conversation.session.id, tool_call=call, options=options)
        self.open += 1
        try:
            response = await conversation.session.client.request_permission(question)
        finally:
            self.open -= 1
        match response.outcome:
            case s.SelectedPermissionOutcome(option_id=chosen) if chosen in {o.option_id for o in options}:
                return chosen
            case s.CancelledPermissionOutcome():
                return None
        return NO

    # The plan

    async def _leave_plan(self, request: Message, given: Input) -> Message:
        """Ask whether to carry out the plan, and in which mode."""
        conversation = self._conversation()
        id = str(request.get("tool_use_id"))
        known = conversation.translator.calls.get(id)
        plan = words(given, "plan") or (words(known.given, "plan") if known else "") or _plan_file(given)
        modes = {mode.id for mode in conversation.choices.modes()} & set(PLAN_MODES)
        options = [
            s.PermissionOption(
                option_id=option, name=name, kind="allow_once" if mode == "default" else "allow_always"
            )
            for mode, (option, name) in PLAN_MODES.items()
            if mode in modes
        ]
        options.append(s.PermissionOption(option_id=NO, name="No, keep planning", kind="reject_once"))
        look = Shown("Ready to code?", "switch_mode", (), texts(plan))
        chosen = await self.ask(id, "ExitPlanMode", given, options, request, look)
        mode = next((mode for mode, (option, _) in PLAN_MODES.items() if option == chosen), None)
        if mode is None:
            told = "The user wants to keep planning." if chosen else "The user cancelled the turn."
            return {"behavior": "deny", "message": told, **({} if chosen else {"interrupt": True})}
        change = {"type": "setMode", "mode": mode, "destination": "session"}
        return {"behavior": "allow", "updatedInput": given, "updatedPermissions": [change]}

    # Forms

    async def _ask_user(self, request: Message, given: Input) -> Message:
        """Ask Claude's questions as a form; an answer in the user's own words takes precedence over the choices."""
        conversation = self._conversation()
        questions = objects(given.get("questions"))
        form = s.FormElicitation(
            message=words(questions[0], "question") if len(questions) == 1 else "Claude asks for your input",
            session_id=conversation.session.id,
            tool_call_id=str(request.get("tool_use_id")),
            requested_schema=_form(questions),
        )
        self.open += 1
        try:
            answer = await conversation.session.client.create_elicitation(form)
        finally:
            self.open -= 1
        if isinstance(answer, s.ElicitationAcceptAction):
            return {
                "behavior": "allow",
                "updatedInput": {**given, "answers": _answers(questions, answer.content or {})},
            }
        if isinstance(answer, s.ElicitationDecline):
            return {"behavior": "allow", "updatedInput": {**given, "answers": {}}}
        return {"behavior": "deny", "message": "The user did not answer.", "interrupt": True}

    async def elicitation(self, request: Message) -> Message:
        """Pass a question of an MCP server on to the user."""
        session = self._conversation().session
        is_page = request.get("mode") == "url"
        if not offered(session.client.offers, "elicitation.url" if is_page else "elicitation.form"):
            return {"action": "decline"}
        told = str(request.get("message") or "An MCP server asks")
        question: s.FormElicitation | s.UrlElicitation
        if is_page:
            question = s.UrlElicitation(
                message=told,
                session_id=session.id,
                url=str(request.get("url")),
                elicitation_id=str(request.get("elicitation_id") or request.get("elicitationId")),
            )
        else:
            schema = request.get("requested_schema") or request.get("requestedSchema") or {}
            question = s.FormElicitation(
                message=told,
                session_id=session.id,
                requested_schema=_schema(schema if isinstance(schema, dict) else {}),
            )
        answer = await session.client.create_elicitation(question)
        if isinstance(answer, s.ElicitationAcceptAction):
            return {"action": "accept", "content": dict(answer.content or {})}
        return {"action": "decline" if isinstance(answer, s.ElicitationDecline) else "cancel"}


def _server_of(name: str, request: Input) -> Document | None:
    """The MCP server of a tool, as the program reports it."""
    server = request.get("mcp_server")
    return {"claudeCode": {"toolName": name, "mcpServer": server}} if isinstance(server, dict) else None


# Options


def option(id: str, name: str) -> s.PermissionOption:
    """One of the three answers to an ordinary question."""
    kinds: Mapping[str, s.PermissionOptionKind] = {ONCE: "allow_once", ALWAYS: "allow_always"}
    return s.PermissionOption(option_id=id, name=name, kind=kinds.get(id, "reject_once"))


def _offered_updates(request: Message) -> Updates:
    """The changes after which the user is not asked again; none if the program must always ask."""
    if request.get("suppress_always_allow_rule") or request.get("matched_ask_rule"):
        return []
    return objects(request.get("permission_suggestions"))


def _options(name: str, given: Input, suggested: Updates, request: Message) -> list[s.PermissionOption]:
    never = request.get("suppress_always_allow_rule") or request.get("matched_ask_rule")
    label = None if never else _always(name, given, suggested, str(request.get("display_name") or name))
    if name == "EnterPlanMode":
        return [option(ONCE, "Yes, enter plan mode"), option(NO, "No, start implementing now")]
    options = [option(ONCE, "Yes"), *([option(ALWAYS, label)] if label else []), option(NO, "No")]
    return sorted(options, key=lambda o: o.option_id != NO) if request.get("default_to_no") else options


def _always(name: str, given: Input, suggested: Updates, shown_as: str) -> str | None:
    """The text of "always" with its scope; None if the scope cannot be stated."""
    if name == "WebFetch":
        host = urlsplit(words(given, "url")).hostname
        return f"Yes, and don't ask again for {host}" if host else None
    if name == "Skill":
        return f"Yes, and don't ask again for {words(given, 'skill')}" if words(given, "skill") else None
    if not suggested:
        narrow = name in BY_RULE or name.startswith("mcp__")
        return None if narrow else f"Yes, and don't ask again for {shown_as}"
    parts = [part for update in suggested if (part := _told(update))]
    return f"Yes, and {' and '.join(dict.fromkeys(parts))}" if parts else None


def _told(update: Input) -> str:
    """A change of the permissions as text."""
    match update.get("type"):
        case "setMode":
            return "allow all edits during this session" if update.get("mode") == "acceptEdits" else ""
        case "addDirectories":
            return f"allow access to {', '.join(strings_in(update.get('directories')))}"
        case "addRules" if update.get("behavior") == "allow":
            rules = objects(update.get("rules"))
            named = [
                f"{r.get('toolName')}({r['ruleContent']})" if r.get("ruleContent") else str(r.get("toolName"))
                for r in rules
            ]
            return f"don't ask again for {', '.join(f'`{name}`' for name in named)}"
    return ""


def _rule(name: str, given: Input) -> Updates:
    """The rule that allows a tool from now on, where the program suggests none."""
    rule: Document = {"toolName": name}
    if name == "WebFetch" and (host := urlsplit(words(given, "url")).hostname):
        rule["ruleContent"] = f"domain:{host}"
    if name == "Skill" and words(given, "skill"):
        rule["ruleContent"] = words(given, "skill")
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def _plan_file(given: Input) -> str:
    """The plan that Claude wrote into one of its own files."""
    path = Path(words(given, "planFilePath") or "/")
    try:
        if not path.resolve().is_relative_to(config_directory().resolve()):
            return ""
        with path.open("rb") as file:
            return file.read(MAX_PLAN).decode(errors="replace")
    except OSError:
        return ""


# Forms


def _form(questions: Sequence[Input]) -> s.ElicitationSchema:
    fields: dict[str, s.ElicitationPropertySchema] = {}
    for number, question in enumerate(questions):
        choices = [
            s.EnumOption(
                const=words(choice, "label"),
                title=words(choice, "label"),
                description=words(choice, "description") or None,
            )
            for choice in objects(question.get("options"))
            if words(choice, "label")
        ]
        title, told = words(question, "header") or None, words(question, "question") or None
        if question.get("multiSelect"):
            items = s.TitledMultiSelectItems(any_of=choices)
            fields[f"question_{number}"] = s.MultiSelectPropertySchema(items=items, title=title, description=told)
        else:
            fields[f"question_{number}"] = s.StringPropertySchema(
                title=title, description=told, one_of=choices or None
            )
        fields[f"question_{number}_custom"] = s.StringPropertySchema(
            title="Other", description="Your own words instead"
        )
    return s.ElicitationSchema(properties=fields)


def _answers(questions: Sequence[Input], given: Input) -> dict[str, str]:
    answers = {}
    for number, question in enumerate(questions):
        value = given.get(f"question_{number}_custom") or given.get(f"question_{number}")
        if value:
            answers[words(question, "question")] = value if isinstance(value, str) else ", ".join(strings_in(value))
    return answers


def _schema(schema: Input) -> s.ElicitationSchema:
    """An MCP server's form, which uses the same small part of JSON Schema."""
    import msgspec

    try:
        return msgspec.convert({"type": "object", **schema}, s.ElicitationSchema)
    except msgspec.ValidationError as exc:
        raise Error(f"the form of the MCP server cannot be shown: {exc}") from None
