"""Content of D3: blocks with a `source`, flat resources, diffs as hunks."""

from ...foundation.comparing import NO_NEWLINE, in_patch, lines_of
from ...foundation.comparing import hunks as compared_hunks
from ...foundation.documents import Document, Json, document, documents, string
from ..engine.shapes import Fields, Items, Pair, Shape, Variants, basename, carried, carry
from ..engine.translator import Translator

# lines; the diff of a file up to this length has the whole file as context, so that it contains both texts
WHOLE = 2000
CONTEXT = 3


# Blocks


def _media_inward(block: Document, t: Translator) -> Json:
    source = block.get("source")
    if not isinstance(source, dict):
        return block
    rest = {name: member for name, member in block.items() if name not in ("source", "type")}
    if source.get("type") == "url":
        link = {**rest, "type": "resource_link", "uri": source["url"], "name": basename(source["url"])}
        if "mediaType" in source:
            link["mimeType"] = source["mediaType"]
        return carry(link, {"block": block}, t)
    return {**rest, "type": block["type"], "data": source["data"], "mimeType": source["mediaType"]}


def _media_outward(block: Document, t: Translator) -> Json:
    rest = {name: member for name, member in block.items() if name not in ("data", "mimeType", "uri")}
    if block.get("uri") is not None:
        t.lose("image address")
    return {**rest, "source": {"type": "base64", "mediaType": block["mimeType"], "data": block["data"]}}


def _link_inward(block: Document, t: Translator) -> Json:
    if "name" in block:
        return block
    return LINK.inward(block, t)


def _link_name(block: Document, t: Translator) -> Json:
    return basename(block["uri"]) if block.get("title") is None else block["title"]


def _link_outward(block: Document, t: Translator) -> Json:
    _, kept = carried(block, t)
    if "block" in kept:  # it was an image or a sound
        return kept["block"]
    if not kept and block.get("title") is None:
        block = {**block, "title": block["name"]}
    elif not kept and block["name"] != block["title"]:
        t.lose("link details")
    return LINK.outward({**block, "name": None} if not kept else block, t)


def _resource_inward(block: Document, t: Translator) -> Json:
    if isinstance(block.get("resource"), dict):
        return block
    rest = {name: member for name, member in block.items() if name not in ("uri", "mimeType", "content", "title")}
    resource = {"uri": block["uri"], "text": block["content"]}
    if "mimeType" in block:
        resource["mimeType"] = block["mimeType"]
    said = {**rest, "resource": resource}
    return carry(said, {"title": block["title"]}, t) if "title" in block else said


def _resource_outward(block: Document, t: Translator) -> Json:
    block, kept = carried(block, t)
    resource = document(block["resource"])
    rest = {name: member for name, member in block.items() if name != "resource"}
    said = {**rest, "uri": resource["uri"], "content": resource.get("text", "")}
    if "blob" in resource or resource.get("_meta"):
        t.lose("binary resources")
    if resource.get("mimeType") is not None:
        said["mimeType"] = resource["mimeType"]
    return {**said, **kept}


LINK = Fields(
    given={"name": _link_name},
    lost={"name": "link details", "description": "link details", "size": "link details"},
)
MEDIA = Pair(_media_inward, _media_outward)
BLOCK: Shape = Variants(
    "type",
    {
        "image": MEDIA,
        "audio": MEDIA,
        "resource_link": Pair(_link_inward, _link_outward),
        "resource": Pair(_resource_inward, _resource_outward),
    },
)
BLOCKS = Items(BLOCK)


def attachment_block(attachment: Json, t: Translator) -> Document:
    """A file attached to a prompt, in any of the forms that the dialect allows, as a content block."""
    if not isinstance(attachment, dict):
        return {"type": "resource_link", "uri": str(attachment), "name": basename(attachment)}
    if "type" in attachment and ("uri" in attachment or "source" in attachment or "text" in attachment):
        return dict(document(BLOCK.inward(attachment, t)))
    path = attachment.get("path")
    uri = attachment.get("uri") or attachment.get("url") or (f"file://{path}" if path else "attachment:")
    name = attachment.get("name") or attachment.get("title") or basename(uri)
    kind = attachment.get("mimeType") or attachment.get("mediaType")
    typed = {"mimeType": kind} if kind else {}
    if isinstance(text := attachment.get("content") or attachment.get("text"), str):
        return {"type": "resource", "resource": {"uri": uri, "text": text, **typed}}
    return {"type": "resource_link", "uri": uri, "name": name, **typed}


# Diffs


def _diff_inward(output: Document, t: Translator) -> Json:
    if "hunks" not in output:
        return output
    old: list[str] = []
    new: list[str] = []
    hunks = documents(output["hunks"])
    for hunk in hunks:
        _read_hunk(str(hunk.get("content", "")), old, new)
    rest = {name: member for name, member in output.items() if name != "hunks"}
    is_new = bool(hunks) and all(hunk.get("oldLines") == 0 for hunk in hunks)
    said: Document = {**rest, "oldText": None if is_new else "".join(old), "newText": "".join(new)}
    return carry(said, {"hunks": output["hunks"]}, t)


def _read_hunk(content: str, old: list[str], new: list[str]) -> None:
    into: list[list[str]] = []
    for line in content.split("\n"):
        if line.startswith("@@"):
            continue
        if line == NO_NEWLINE:
            for side in into:
                side[-1] = side[-1].removesuffix("\n")
            continue
        mark, text = line[:1], line[1:] + "\n"
        into = {"-": [old], "+": [new]}.get(mark, [old, new])
        if mark not in ("", " ", "-", "+"):
            text = line + "\n"  # some diffs omit the mark of unchanged lines
        for side in into:
            side.append(text)


def _diff_outward(content: Document, t: Translator) -> Json:
    content, kept = carried(content, t)
    said = {name: member for name, member in content.items() if name not in ("oldText", "newText")}
    if "hunks" in kept:
        return {**said, "hunks": kept["hunks"]}
    old, new = content.get("oldText"), string(content["newText"])
    if not old and (old is None) != bool(
        new
    ):  # no old lines means a new file; no new lines either means an empty one
        t.lose("new file")
    return {**said, "hunks": [*hunks_between(string(old or ""), new)]}


def hunks_between(old: str, new: str) -> list[Document]:
    """The difference between two texts as hunks; for short texts one hunk that contains both."""
    before, after = lines_of(old), lines_of(new)
    context = CONTEXT if len(before) + len(after) > WHOLE else WHOLE
    found: list[Document] = []
    if before == after and before:
        same = [f"@@ -1,{len(before)} +1,{len(after)} @@", *(in_patch(" " + line) for line in before)]
        size = {"oldStart": 1, "oldLines": len(before), "newStart": 1, "newLines": len(after)}
        return [{**size, "content": "\n".join(same)}]
    for hunk in compared_hunks(before, after, context):
        found.append(
            {
                "oldStart": hunk.old_start,
                "oldLines": hunk.old_count,
                "newStart": hunk.new_start,
                "newLines": hunk.new_count,
                "content": "\n".join([hunk.head, *map(in_patch, hunk.lines)]),
            }
        )
    return found


DIFF = Pair(_diff_inward, _diff_outward)
