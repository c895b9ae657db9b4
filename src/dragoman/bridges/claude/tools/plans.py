"""Claude's to-do list and its tasks, as the plan of the session."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from .... import schema as s
from ....foundation.documents import Json
from .shown import Input, objects, words

_CREATED = re.compile(r"^Task #(\S+) created successfully: (.+)$")
_LISTED = re.compile(r"^#(\S+) \[(pending|in_progress|completed)\] (.+)$")
STATUSES: Mapping[str, s.PlanEntryStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


class PlanTask(Struct):
    """A step of the plan."""

    subject: str
    status: str = "pending"
    doing: str = ""  # the text shown while the step is in progress


def todo_plan(given: Input) -> s.Plan:
    """The plan that a `TodoWrite` makes."""
    todos = objects(given.get("todos"))
    return _plan(
        PlanTask(words(todo, "content"), words(todo, "status") or "pending", words(todo, "activeForm"))
        for todo in todos
    )


class Tasks:
    """The tasks of a session, from the results of the tools that change them."""

    def __init__(self) -> None:
        self._tasks: dict[str, PlanTask] = {}

    def done(self, name: str, given: Input, output: Json) -> s.Plan | None:
        """Note the result of a task tool; returns the plan, if the tool changes it."""
        match name:
            case "TaskCreate":
                id, subject = _created(output)
                if not id:
                    return None
                self._tasks[id] = PlanTask(words(given, "subject") or subject, doing=words(given, "activeForm"))
            case "TaskUpdate":
                if not self._update(given):
                    return None
            case "TaskList":
                self._list(output)
            case _:
                return None
        return _plan(self._tasks.values())

    def _update(self, given: Input) -> bool:
        id = str(given.get("taskId") or "")
        if words(given, "status") == "deleted":
            return self._tasks.pop(id, None) is not None
        task = self._tasks.get(id) or PlanTask("")
        subject = words(given, "subject") or task.subject
        if not subject:
            return False  # a step without a text is not shown
        status = words(given, "status") or task.status
        self._tasks[id] = PlanTask(subject, status, words(given, "activeForm") or task.doing)
        return True

    def _list(self, output: Json) -> None:
        found = _listed(output)
        if found is None:
            return
        self._tasks = {
            id: PlanTask(subject, status, self._tasks[id].doing if id in self._tasks else "")
            for id, status, subject in found
        }


def _plan(tasks: Iterable[PlanTask]) -> s.Plan:
    entries = [
        s.PlanEntry(
            content=task.doing if task.status == "in_progress" and task.doing else task.subject,
            priority="medium",
            status=STATUSES.get(task.status, "pending"),
        )
        for task in tasks
        if task.subject
    ]
    return s.Plan(entries=entries)


def _structured(output: Json) -> Mapping[str, Json]:
    """The result of a tool as an object: either it is one, or its text is the JSON of one."""
    for text in [output, *output_texts(output)]:
        if isinstance(text, dict):
            return text
        if isinstance(text, str) and text.startswith("{"):
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
    return {}


def output_texts(output: Json) -> list[str]:
    """The texts in the result of a tool."""
    if isinstance(output, str):
        return [output]
    blocks: Sequence[Json] = output if isinstance(output, list) else ()
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _created(output: Json) -> tuple[str, str]:
    task = _structured(output).get("task")
    if isinstance(task, dict) and task.get("id") is not None:
        return str(task["id"]), words(task, "subject")
    for text in output_texts(output):
        if found := _CREATED.match(text.strip()):
            return found[1], found[2]
    return "", ""


def _listed(output: Json) -> list[tuple[str, str, str]] | None:
    tasks = _structured(output).get("tasks")
    if isinstance(tasks, list):
        return [
            (str(task.get("id")), words(task, "status"), words(task, "subject"))
            for task in tasks
            if isinstance(task, dict)
        ]
    for text in output_texts(output):
        if text.strip() == "No tasks found":
            return []
        found = [_LISTED.match(line) for line in text.strip().splitlines()]
        if found and all(found):
            return [(match[1], match[2], match[3]) for match in found if match]
    return None
