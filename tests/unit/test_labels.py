"""Which queues bear their names in metrics."""

from penstock.labels import OTHER, QueueLabels, select_labelled


def test_declared_queue_always_has_its_own_label() -> None:
    declared = {"mail"}
    labels = QueueLabels(lambda: declared, limit=2)
    assert [labels.label_of(f"free-{n}") for n in range(4)] == ["free-0", "free-1", OTHER, OTHER]
    assert labels.label_of("mail") == "mail"
    declared.add("free-2")
    assert labels.label_of("free-2") == "free-2"
    assert labels.label_of("free-3") == OTHER


def test_declared_queues_take_no_place_from_others() -> None:
    labels = QueueLabels(lambda: {"a", "b", "c"}, limit=1)
    assert [labels.label_of(name) for name in ("a", "b", "c", "x", "y")] == [
        "a",
        "b",
        "c",
        "x",
        OTHER,
    ]
    assert select_labelled(["y", "x", "c", "b", "a"], ["a", "b", "c"], limit=1) == {
        "a",
        "b",
        "c",
        "x",
    }
