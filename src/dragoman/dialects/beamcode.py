"""D1, the dialect of the BeamCode notes: version 1 of early 2026, with `session/set_model` and `modeId`."""

from typing import Any

from .engine.shapes import Fields, Pair
from .engine.translator import MethodRow
from .legacy import UPDATE, Legacy


def _update_outward(update: Any, t: Any) -> Any:
    if isinstance(update, dict) and update.get("sessionUpdate") == "current_mode_update":
        return MODE.outward(update, t)
    return update


MODE = Fields({"modeId": "currentModeId"})
NAMED = Fields(shapes={"update": Pair(lambda update, t: update, _update_outward)})


class Beamcode(Legacy):
    name = "beamcode"
    to_client = {
        **Legacy.to_client,
        "session/update": MethodRow(
            Pair(UPDATE.inward, lambda params, t: NAMED.outward(UPDATE.outward(params, t), t)),
        ),
    }
