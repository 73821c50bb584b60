from __future__ import annotations

from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.model import TaskId


def test_all_of_a_few_is_shown_and_the_first_of_many() -> None:
    assert (
        str(ConnectorsAndTasks.of(["b", "a"], [TaskId("a", 10), TaskId("a", 2)]))
        == "connectors [a, b] and tasks [a-2, a-10]"
    )
    many = str(ConnectorsAndTasks.of((), [TaskId("a", number) for number in range(60)]))
    assert many.endswith("a-48, a-49, and 10 more]")
