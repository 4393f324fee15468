"""The two builds of the Lua core, made to tell the time that a key of the server holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.commits import ROOT, unpacked

ARTEFACT = Path("django_qless/core/qless.lua")

#: Where the present time is: seconds and microseconds, with a blank between them.
CLOCK = "against:clock"

# Functions of `redis` are looked up at each call: while a library is loaded it has others.
FROZEN = f"""
local function real() return redis end
local function late(name)
  return function(...) return real()[name](...) end
end
local function call(command, ...)
  if command ~= 'TIME' then return real().call(command, ...) end
  local seconds, micros = string.match(real().call('GET', '{CLOCK}'), '(%d+) (%d+)')
  return {{ seconds, micros }}
end
-- Of the server itself, of which there is another one on either side, nothing is told.
local function pcall_of(command, ...)
  if command == 'INFO' then return {{ err = 'not told' }} end
  if command == 'HRANDFIELD' then return {{}} end -- chance would decide which replies are kept
  return real().pcall(command, ...)
end
local redis = {{
  call = call, pcall = pcall_of, error_reply = late('error_reply'),
  status_reply = late('status_reply'), sha1hex = late('sha1hex'), log = late('log'),
  acl_check_cmd = late('acl_check_cmd'),
  register_function = redis.register_function,
}}
"""


def earlier(commit: str) -> str:
    """Return the core as a commit's lua/build.py makes it. Raises ValueError."""
    with unpacked(commit, "lua", "django_qless") as folder:
        subprocess.run([sys.executable, folder / "lua" / "build.py"], check=True)
        return (folder / ARTEFACT).read_text(encoding="utf-8")


def present() -> str:
    """Return the core of this tree. Raises ValueError if it is not built."""
    build = [sys.executable, ROOT / "lua" / "build.py", "--check"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return (ROOT / ARTEFACT).read_text(encoding="utf-8")


def write(text: str, path: Path) -> Path:
    """Write a build whose clock only CLOCK moves; return the path."""
    path.write_text(FROZEN + text, encoding="utf-8")
    return path
