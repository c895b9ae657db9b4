"""D1, the dialect of the BeamCode notes: version 1 of early 2026, with `session/set_model` and `modeId`."""

from ..foundation.documents import Json
from .engine.shapes import Fields, ValuePair
from .engine.translator import MethodRow, Translator
from .legacy import UPDATE, Legacy


def _update_outward(update: Json, t: Translator) -> Json:
    if isinstance(update, dict) and update.get("sessionUpdate") == "current_mode_update":
        return MODE.outward(update, t)
    return update


MODE = Fields({"modeId": "currentModeId"})
NAMED = Fields(shapes={"update": ValuePair(lambda update, t: update, _update_outward)})


class Beamcode(Legacy):
    name = "beamcode"
    to_client = {
        **Legacy.to_client,
        "session/update": MethodRow(
            ValuePair(UPDATE.inward, lambda params, t: NAMED.outward(UPDATE.outward(params, t), t)),
        ),
    }
