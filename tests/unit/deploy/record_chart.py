"""Records what helm makes of the chart: `python -m tests.unit.deploy.record_chart [HELM]`.

`go install helm.sh/helm/v4/cmd/helm@v4.0.0` builds a helm in some minutes. Its third version gives the same objects and
messages, but shows notes only with a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.unit.deploy.chart import CASES, CHART, FOLDER, REFUSED, SAID, Case, digest


def main() -> None:
    """Write a file for each case, and one of what helm said."""
    helm = sys.argv[1] if len(sys.argv) > 1 else "helm"
    subprocess.run([helm, "lint", "--strict", CHART], check=True)
    FOLDER.mkdir(exist_ok=True)
    notes, refused = {}, {}
    for name, case in CASES.items():
        (FOLDER / f"{name}.yaml").write_text(_done([helm, "template"], case).stdout)
        installed = _done([helm, "install", "--dry-run=client"], case).stdout
        notes[name] = installed.partition("\nNOTES:\n")[2]
    for name, case in REFUSED.items():
        ran = _done([helm, "template"], case)
        assert ran.returncode, f"{name} is not refused"
        refused[name] = "\n".join(line for line in ran.stderr.splitlines() if line and "--debug" not in line)
    written = {"digest": digest(), "notes": notes, "refused": refused}
    SAID.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")


def _done(command: list[str], case: Case) -> subprocess.CompletedProcess[str]:
    command = [*command, case.release, str(CHART), "--namespace", "team", "--values", "-"]
    return subprocess.run(command, input=json.dumps(case.values), capture_output=True, text=True)


if __name__ == "__main__":
    main()
