"""Which of Django's own tests cannot apply to Penstock's backend, and why."""

IN_MEMORY = "changes a result in DummyBackend's memory, where Penstock's results are not"
SUPPORTED = "expects the backend to refuse what Penstock's does"
IN_A_WORKER = "expects the task to run in the caller's thread, and it runs in a worker"

LEFT_OUT = {
    # Its backends are those that it defines itself.
    "test_custom_backend": "is about other backends",
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": IN_MEMORY,
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": IN_MEMORY,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": SUPPORTED,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": SUPPORTED,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": SUPPORTED,
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": IN_A_WORKER,
    "test_immediate_backend.ImmediateBackendTransactionTestCase"
    ".test_doesnt_wait_until_transaction_commit_by_default": IN_A_WORKER,
}
