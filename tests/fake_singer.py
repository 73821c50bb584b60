"""Small taps and targets of the tests' own, on a folder for `plugin.path`, and what they do wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

TAP: Final = '''
import argparse, json, os, sys, time

parser = argparse.ArgumentParser()
for name in ("config", "catalog", "state"):
    parser.add_argument("--" + name, type=lambda path: json.load(open(path)))
parser.add_argument("--discover", action="store_true")
given = parser.parse_args()
config = given.config
streams = config.get("streams", ["numbers"])


def say(kind, **rest):
    print(json.dumps({"type": kind, **rest}), flush=True)


def misbehaves(how):
    """Once, if a file for that is named."""
    mark = config.get("mark")
    if config.get("fault") != how or (mark and os.path.exists(mark)):
        return False
    if mark:
        open(mark, "w").close()
    return True


SCHEMA = {"type": "object", "required": ["id"], "properties": {
    "id": {"type": "integer"}, "text": {"type": ["null", "string"]}}}
print("INFO starting, password is", config.get("password"), file=sys.stderr, flush=True)
if given.discover:
    print(json.dumps({"streams": [
        {"tap_stream_id": one, "stream": one, "schema": SCHEMA, "metadata": []} for one in streams]}))
    sys.exit()
if given.catalog:
    streams = [one["stream"] for one in given.catalog["streams"] if any(
        not of["breadcrumb"] and of["metadata"].get("selected") for of in one["metadata"])]
for stream in streams:
    say("SCHEMA", stream=stream, schema=SCHEMA, key_properties=["id"])
extracted = config.get("extracted", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
first = (given.state or {"next": 0})["next"]
say("ACTIVATE_VERSION", stream=streams[0], version=1)
for number in range(first, config["count"]):
    record = {"id": number, "text": "row %d" % number}
    say("RECORD", stream=streams[number % len(streams)], record=record, time_extracted=extracted)
    if (number + 1) % config.get("state_each", 10) == 0:
        if number + 1 == config["count"]:
            time.sleep(config.get("last_state_late_s", 0))
        say("STATE", value={"next": number + 1})
    if number == config.get("fault_at", config["count"] // 2):
        if misbehaves("die"):
            print("CRITICAL the disk is on fire", file=sys.stderr)
            sys.exit(3)
        if misbehaves("hang"):
            time.sleep(3600)
        if misbehaves("garbage"):
            print("Hello, I am a progress bar")
            print("WARNING something odd", file=sys.stderr)
        if misbehaves("misfit"):
            say("RECORD", stream=streams[0], record={"id": "no number"})
'''

TARGET: Final = """
import argparse, json, os, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=lambda path: json.load(open(path)))
config = parser.parse_args().config
each = config.get("store_each", 1 << 30)
known, waiting, state = set(), [], None


def misbehaves(how):
    mark = config.get("mark")
    if config.get("fault") != how or (mark and os.path.exists(mark)):
        return False
    if mark:
        open(mark, "w").close()
    return True


def store():
    if misbehaves("die"):
        print("CRITICAL the table is gone", file=sys.stderr)
        sys.exit(4)
    if misbehaves("hang"):
        time.sleep(3600)
    with open(config["file"], "a") as out:
        out.writelines(json.dumps(one) + "\\n" for one in waiting)
    waiting.clear()
    if misbehaves("garbage"):
        print("stored!", flush=True)
    if state is not None and not misbehaves("mute"):
        print(json.dumps(state), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "SCHEMA":
        known.add(message["stream"])
    elif message["type"] == "RECORD":
        assert message["stream"] in known, "a RECORD before its SCHEMA"
        waiting.append(message)
    else:
        state = message["value"]
        if len(waiting) >= each:
            store()
store()
"""


def installed(plugin_path: Path, name: str, source: str) -> Path:
    """Put a script where `headrace plugins install` puts a tap or target; return `plugin_path`."""
    script = plugin_path / name / "env/bin" / name
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{sys.executable} -S\n{source}", encoding="utf-8")
    script.chmod(0o755)
    record = {"coordinates": f"{name}==1.0", "beside": [], "executable": name}
    (plugin_path / name / "headrace-plugin.json").write_text(json.dumps(record), encoding="utf-8")
    return plugin_path
