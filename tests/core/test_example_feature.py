"""The feature that docs/explanation/core.md adds, as it stands there."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

from tests.core.caller import Core, Library
from tests.core.keyed import Keyed, settlement

ROOT = Path(__file__).parents[2]
#: Where each of the short blocks of the page goes: the file, and the line before it.
PLACES = [
    ("core/features.lua", "local FEATURES = {"),
    ("core/keys.lua", "local PATTERNS = {"),
    ("core/our_commands.lua", "OurCommands.reads = {"),
]


@pytest.fixture
def labelled(core: Core, tmp_path: Path) -> Keyed:
    """The core built with the feature of the page."""
    page = (ROOT / "docs" / "explanation" / "core.md").read_text()
    feature, *rows = re.findall(r"```lua\n(.*?)```", page, re.DOTALL)
    folder = tmp_path / "lua"
    shutil.copytree(ROOT / "lua", folder)
    (folder / "features" / "labels.lua").write_text(feature)
    for (name, line), row in zip(PLACES, rows, strict=True):
        path = folder / name
        before, found, after = path.read_text().partition(f"{line}\n")
        assert found
        path.write_text(before + found + row + after)
    built = tmp_path / "qless.lua"
    built.write_text(runpy.run_path(str(ROOT / "lua" / "build.py"))["build"](folder))
    library = Library(built)
    library.load(core.server)
    return Keyed(Core(core.server, library, core.prefix))


@pytest.mark.damages  # The audit does not know the feature.
def test_runs_are_counted_under_their_label(labelled: Keyed) -> None:
    for jid in ("a", "b", "c"):
        labelled.put(jid, label="invoices")
    labelled.put("other")
    ends = {"a": ("complete",), "b": ("complete",), "c": ("fail", "group", "message")}
    held = {job["jid"]: job["token"] for job in labelled.take()}
    settled = labelled.settle(
        [settlement(jid, held[jid], *end) for jid, end in ends.items()], now=1
    )
    assert settled.refused == []
    assert labelled.core.call(
        "read", ("ql:!", "ql:meta"), "label.count", 1, "", "invoices"
    ) == [2, 1]


def test_a_label_that_is_too_long_is_refused(labelled: Keyed) -> None:
    assert "1 to 255 bytes" in labelled.refusal(
        "put", "", "queue", "jid", "klass", "{}", 0, "label", "x" * 256
    )
