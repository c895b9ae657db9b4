"""`dragoman` of a later version, whose state has a layout of its own: `python newer_gateway.py serve …`."""

import sqlite3
import sys

from dragoman.gateway.log import database
from dragoman.gateway.operations import handover

NEWS = "CREATE TABLE news (id INTEGER PRIMARY KEY);"
OURS, bring_up_to_date = database.LAYOUT, database._bring_up_to_date


def bring_further(db: sqlite3.Connection, layout: int) -> None:
    if layout == OURS:
        db.executescript(f"BEGIN IMMEDIATE; {NEWS} PRAGMA user_version = {database.LAYOUT}; COMMIT;")
    else:
        bring_up_to_date(db, layout)


database.LAYOUT = handover.LAYOUT = OURS + 1
database.TABLES += NEWS
database._bring_up_to_date = bring_further

from dragoman.__main__ import main  # noqa: E402 - after the layout is another

sys.exit(main())
