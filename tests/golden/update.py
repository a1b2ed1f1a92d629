"""Write the golden reports anew (`python tests/golden/update.py`); read the difference before a commit."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "py"))

from willitserve import api  # noqa: E402  found through the line above


def golden_text(query: dict[str, str]) -> str:
    """The reply of the worker's door to a plan, one figure to a line, so that a change can be read."""
    reply = json.loads(api.handle(json.dumps({"method": "plan", "params": {"query": query}})))
    return json.dumps(reply, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write every report and remove those that no request asks for."""
    requests: dict[str, dict[str, str]] = json.loads((HERE / "requests.json").read_text("utf-8"))
    reports = HERE / "reports"
    reports.mkdir(exist_ok=True)
    for old in reports.glob("*.json"):
        if old.stem not in requests:
            old.unlink()
    for name, query in requests.items():
        (reports / f"{name}.json").write_text(golden_text(query), "utf-8")


if __name__ == "__main__":
    main()
