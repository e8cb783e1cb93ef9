"""The app whose changelogs are kept: one store of every kind, with changes, deletions and a key that is gone."""

import os

from streamlet import App, Log, Map, Set, Value

NAME = os.environ.get("TEST_APP", "golden")
app = App(NAME)
visits = app.topic(f"{NAME}-visits", key=str, value=str)

VISITS = [("ada", "home"), ("ada", "cart"), ("žofie", "home"), ("bob", "home"), ("ada", "home"), ("bob", "leave")]
FIRST_MS = 1_700_000_000_000


@app.process(visits)
def note(page: str, total: Value[int], pages: Map[str, int], trail: Log[str], seen: Set[str]) -> None:
    if page == "leave":
        total.delete()
        pages.clear()
        trail.clear()
        seen.clear()
        return
    total.add(1)
    pages.add(page, 1)
    trail.append(page)
    trail.keep_last(2)
    seen.add(page)
