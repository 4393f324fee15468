"""`make demo` as a user meets it: real files, real processes, a real server.

Runs on a copy of the example project, so that its data are its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.acceptance.example import Demo

# More than one call may name as dependencies.
GENERATED = 1_010

# Prices, exports, orders and the archive; one more order has a version that fails.
SHOP = 60 + 230 + 12 + 1


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """The demo in a folder of its own; its server is stopped in the end."""
    copy = Demo.copied_to(tmp_path / "example_project")
    yield copy
    copy.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory whose figures are known, because they are made up here.

    File n has n % 5 functions of complexity 3 and 5 lines, and as many blank lines.
    """
    root = tmp_path / "some source"
    for number in range(GENERATED):
        file = root / f"part{number % 7}" / f"module{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(function(each) for each in range(number % 5)))
    (root / "broken.py").write_text("def broken(:\n")
    (root / "notes.txt").write_text("def nothing(): pass\n")
    return root


def function(number: int) -> str:
    return (
        f"def function{number}(argument):\n"
        "    # a comment\n"
        "    if argument or not argument:\n"
        "        return 1\n"
        "    return 2\n"
        "\n"
    )


def test_demo_measures_everything_and_can_be_run_again(
    demo: Demo, source: Path
) -> None:
    first = demo.run("demo.py", str(source))
    assert first.returncode == 0, first.stderr
    functions = sum(number % 5 for number in range(GENERATED))
    the_package_is_summarised(demo, "some source", GENERATED, functions)
    the_package_is_summarised(demo, "samples", files=1, functions=4)
    each_file_has_one_row(demo, GENERATED + 1 + 4)
    failures_are_in_their_groups(demo)
    the_shop_has_done_its_work(demo)
    # Measurements, scans and summaries of two packages; the hourly tick adds only itself.
    the_report_says_so(first.stdout, jobs=GENERATED + 1 + 4 + 2 + 2 + 1)
    assert f"{GENERATED + 1:,} files in {source}" in first.stderr
    # Beside them what enqueues the summaries of the hour: the scans' worker has put it.
    assert f"{GENERATED + 1 + 4 + 2 + SHOP + 1 + 1:,} of" in first.stderr

    (source / "part0" / "module0.py").write_text(function(1))
    functions += 1
    # A tenth is enough to be measured again.
    for number in range(GENERATED // 10, GENERATED):
        (source / f"part{number % 7}" / f"module{number}.py").unlink()
        functions -= number % 5
    left = GENERATED // 10
    gone = GENERATED - left
    second = demo.run("demo.py", str(source))
    assert second.returncode == 0, second.stderr
    the_package_is_summarised(demo, "some source", left, functions, gone)
    each_file_has_one_row(demo, GENERATED + 5)
    failures_are_in_their_groups(demo)
    the_report_says_so(second.stdout, jobs=left + 1 + 4 + 2 + 2)
    the_nightly_job_forgets_what_is_gone(demo)
    the_package_is_summarised(demo, "some source", left, functions)
    each_file_has_one_row(demo, left + 5)
    the_admin_shows_it(demo)


def the_package_is_summarised(
    demo: Demo, name: str, files: int, functions: int, gone: int = 0
) -> None:
    (package,) = demo.rows(f"SELECT * FROM codebase_package WHERE name = '{name}'")
    assert (package["files"], package["functions"]) == (files, functions)
    rows = demo.rows(
        f"SELECT * FROM codebase_module WHERE package_id = {package['id']}"
        " AND measured_at IS NOT NULL"
    )
    modules = [row for row in rows if row["found_at"] == package["scanned_at"]]
    assert (len(modules), len(rows)) == (files, files + gone)
    assert all(module["seconds"] > 0 for module in modules)
    for column in ("lines", "classes", "complexity"):
        assert package[column] == sum(module[column] for module in modules)
    assert package["summarised_at"] > max(module["measured_at"] for module in modules)
    if name == "some source":
        # Counted by how the files were made, not by what the example computes.
        assert package["classes"] == 0
        assert package["lines"] == 6 * functions
        assert package["complexity"] == 3 * functions + files
        assert sum(module["blank_lines"] for module in modules) == functions
        assert sum(module["comment_lines"] for module in modules) == functions


def each_file_has_one_row(demo: Demo, files: int) -> None:
    rows = demo.rows("SELECT DISTINCT package_id, path FROM codebase_module")
    assert len(rows) == files
    (count,) = demo.rows("SELECT count(*) AS n FROM codebase_module")
    assert count["n"] == files


def failures_are_in_their_groups(demo: Demo) -> None:
    status = demo.status()
    assert status["failures"] == {
        "SyntaxError": 2,
        "UnicodeDecodeError": 1,
        "FileNotFoundError": 1,
    }
    assert status["dead"] == {"orders": 1}
    assert (status["totals"]["failed"], status["totals"]["dead"]) == (4, 1)
    assert status["workers"] == []
    follow_ups_are_in_place(demo)


def follow_ups_are_in_place(demo: Demo) -> None:
    """Of each of the two packages a publication that waits, and a scan for later."""
    states = ("waiting", "running", "stalled", "scheduled", "depends")
    unfinished = {
        (queue["name"], state): queue[state]
        for queue in demo.status()["queues"]
        for state in states
        if queue[state]
    }
    assert unfinished == {
        ("publishing", "waiting"): 2,
        ("scans", "scheduled"): 2,
        ("scans", "depends"): 1,
    }
    (publishing,) = (
        queue for queue in demo.status()["queues"] if queue["name"] == "publishing"
    )
    assert publishing["paused"]
    # What it is to publish with is nobody's business.
    listed = demo.run("manage.py", "qless_jobs", "list", "--queue=publishing", "--json")
    assert [job["data"].count("[hidden]") for job in json.loads(listed.stdout)["jobs"]]
    assert "a secret" not in listed.stdout


def the_nightly_job_forgets_what_is_gone(demo: Demo) -> None:
    put = demo.run(
        "manage.py", "qless_recurring", "run", "codebase.Package.forget_gone"
    )
    assert put.returncode == 0, put.stderr
    worked = demo.run("manage.py", "qless_worker", "--burst", "scans")
    assert worked.returncode == 0, worked.stderr
    failures_are_in_their_groups(demo)


def the_report_says_so(report: str, jobs: int) -> None:
    lines = [" ".join(line.split()) for line in report.splitlines()]
    completed = f"{jobs - 4 + SHOP:,} completed"
    assert f"{completed}, 4 failed, 1 dead, 1 of the failed after a retry" in lines
    assert "Failures by group (4 failed, 1 dead)" in lines
    the_report_tells_of_the_shop(lines)
    assert "codebase.Package.summarise: every hour" in lines
    assert "codebase.Package.forget_gone: at 03:00, Europe/Berlin" in lines
    (hourly,) = (line for line in lines if "ticks up to now: 1," in line)
    assert "next: 20" in hourly
    assert any(line.startswith("(on purpose: ") for line in lines)
    (rate,) = (line for line in lines if line.endswith(" jobs/s"))
    assert re.fullmatch(r"[\d,]+ files measured in [\d.]+ s, [\d,]+ jobs/s", rate)
    assert "SyntaxError: 2" in lines
    assert "make admin" in lines
    assert "syntax_error.py: invalid syntax (<unknown>, line 5)" in lines
    assert any(
        "wrong_encoding.py: 'utf-8' codec can't decode" in line for line in lines
    )
    (missing,) = (line for line in lines if "No such file" in line)
    assert missing.endswith("passing_by.py' (tried 2 times)")


def the_report_tells_of_the_shop(lines: list[str]) -> None:
    orders = (
        "orders, one worker each: 97 versions pushed, 96 processed in 12 runs, 1 dead"
    )
    assert orders in lines
    assert any(
        re.fullmatch("negative-total: entity .+ of the queue orders is dead", it)
        for it in lines
    )
    found = figures_in(lines, "prices, 20 a second at most")
    assert (found[1], found[2] >= 2.0) == (60, True)  # of which 20 come at once
    assert 1 <= found[3] <= 20
    found = figures_in(lines, "exports, tenants in turns")
    # Of 4 tenants in turns the small ones have had 10 each after about 40.
    assert (found[0], 30 <= found[1] <= 80, found[2]) == (30, True, 230)
    archived = figures_in(lines, "archive, a detached process")
    assert archived[0] > 0


def figures_in(lines: list[str], beginning: str) -> list[float]:
    """The numbers in the line of the report that begins so."""
    (line,) = (line for line in lines if line.startswith(beginning))
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", line)]


def the_shop_has_done_its_work(demo: Demo) -> None:
    """Each order has its latest version; each tenant all files, each file once."""
    orders = demo.rows("SELECT * FROM shop_order WHERE payloads > 0")
    assert len(orders) == 12
    assert {order["payloads"] for order in orders} == {8}
    assert {order["total"] - 100 * order["version"] for order in orders} == {0}
    exports = demo.rows("SELECT DISTINCT tenant, number FROM shop_export")
    assert len(exports) == 230
    assert len(demo.rows("SELECT * FROM shop_price")) == 60
    with ZipFile(demo.directory / "archives" / "some source.zip") as archive:
        assert archive.testzip() is None
        assert "broken.py" in archive.namelist()


def the_admin_shows_it(demo: Demo) -> None:
    look = demo.run(
        "manage.py",
        "shell",
        "--verbosity=0",
        "--command",
        "from django.conf import settings\n"
        "from django.test import Client\n"
        "settings.ALLOWED_HOSTS = ['testserver']\n"
        "client = Client()\n"
        "assert client.login(username='demo', password='demo')\n"
        "for page in ('', 'package/', 'module/', 'module/?q=broken'):\n"
        "    response = client.get(f'/admin/codebase/{page}')\n"
        "    assert response.status_code == 200, page\n"
        "    print(response.content.decode())\n",
    )
    assert look.returncode == 0, look.stderr
    assert "some source" in look.stdout
    assert "broken.py" in look.stdout


def test_a_source_that_is_not_there_is_refused(demo: Demo, tmp_path: Path) -> None:
    refused = demo.run("demo.py", str(tmp_path / "nowhere"))
    assert refused.returncode == 2
    assert f"{tmp_path / 'nowhere'} is nothing" in refused.stderr
    assert not (demo.directory / "db.sqlite3").exists()


def test_a_source_that_is_a_file_is_refused(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("pass\n")
    refused = demo.run("demo.py", str(tmp_path / "one.py"))
    assert refused.returncode == 2
    assert f"{tmp_path / 'one.py'} is a file" in refused.stderr


def test_a_source_without_python_is_refused(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = demo.run("demo.py", str(tmp_path / "empty"))
    assert refused.returncode == 2
    assert f"no Python files below {tmp_path / 'empty'}" in refused.stderr
    assert not (demo.directory / "db.sqlite3").exists()
