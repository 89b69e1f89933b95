"""The calls that plan a scan on the server of a REST catalog, with a transport that answers from a script."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.errors import HarnessError, StorageError, TableNotFoundError, UnsupportedError
from harness.metadata.iceberg.server import calls
from harness.metadata.iceberg.server.calls import Clock, renew_credentials, request_plan
from harness.metadata.iceberg.server.protocol import Answer, Call, Credential, PlanAnswer, ScanRequest

WORDS = {
    Call.PLAN: "plan",
    Call.RESULT: "result",
    Call.CANCEL: "cancel",
    Call.TASKS: "tasks",
    Call.CREDENTIALS: "renew",
}
BUSY, DONE = Answer(status=503, document={}), Answer(status=204, document={})


@dataclass
class Script:
    """A transport with answers for each request, for example `plan`, `result p`, or `tasks a`.

    If a request is sent more often than it has answers, the last answer is repeated.
    """

    answers: Mapping[str, Any]
    calls: frozenset[Call] = frozenset(Call)
    catalog: str = "prod"
    sent: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        subject = body["plan-task"] if call is Call.TASKS and body is not None else plan_id
        request = WORDS[call] if subject is None else f"{WORDS[call]} {subject}"
        with self.lock:
            self.bodies.append(body)
            self.sent.append(request)
            answers = self.answers.get(request, DONE)
            answers = answers if isinstance(answers, list) else [answers]
            answer = answers[min(self.sent.count(request), len(answers)) - 1]
        if callable(answer):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(status=200, document=answer)


@dataclass
class Waits:
    """Waits that only advance the clock."""

    at: float = 0.0
    waits: list[float] = field(default_factory=list)
    interrupt: bool = False

    def wait(self, event: threading.Event, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds
        if self.interrupt:
            raise KeyboardInterrupt

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.at, wait=self.wait)


def completed(*files: str, **more: Any) -> dict[str, Any]:
    return {"status": "completed", **page(*files), **{key.replace("_", "-"): value for key, value in more.items()}}


def page(*files: str, tasks: tuple[str, ...] = ()) -> dict[str, Any]:
    documents = [{"data-file": {"file-path": path}} for path in files]
    return {"file-scan-tasks": documents, "plan-tasks": list(tasks)}


def submitted(plan_id: str = "p") -> dict[str, Any]:
    return {"status": "submitted", "plan-id": plan_id}


def refused(status: int, type_: str = "", message: str = "") -> Answer:
    return Answer(status=status, document={"error": {"type": type_, "message": message, "code": status}})


def run(script: Script, waits: Waits | None = None) -> PlanAnswer:
    return request_plan(script, ScanRequest(snapshot_id=1), table="prod.sales.orders", clock=(waits or Waits()).clock)


def files_of(answer: PlanAnswer) -> list[list[str]]:
    return [[task["data-file"]["file-path"] for task in each["file-scan-tasks"]] for each in answer.pages]


PLANS = {
    "a plan of one answer": ({"plan": completed("a", "b")}, [["a", "b"]], ["plan"]),
    "an empty plan": ({"plan": {"status": "completed"}}, [], ["plan"]),
    "an id and no plan tasks": ({"plan": completed("a", plan_id="p")}, [["a"]], ["plan"]),
    "lists that are null": (
        {"plan": {"status": "completed", "plan-id": None, "plan-tasks": None, "delete-files": None}}, [], ["plan"],
    ),
    "a plan that is polled": (
        {"plan": submitted(), "result p": [{"status": "submitted"}, {"status": "submitted"}, completed("a")]},
        [["a"]],
        ["plan", "result p", "result p", "result p"],
    ),
    "a plan that is busy": ({"plan": [BUSY, refused(429), completed("a")]}, [["a"]], ["plan", "plan", "plan"]),
    "a result and a task that are busy": (
        {
            "plan": submitted(),
            "result p": [BUSY, {"status": "completed", "plan-tasks": ["x"]}],
            "tasks x": [refused(504), page("a")],
        },
        [["a"]],
        ["plan", "result p", "result p", "tasks x", "tasks x"],
    ),
    "tasks that name tasks": (
        {
            "plan": completed("a", plan_id="p", plan_tasks=["x"]),
            "tasks x": page("b", tasks=("y",)),
            "tasks y": {"plan-tasks": ["z"]},
            "tasks z": page("c"),
        },
        [["a"], ["b"], ["c"]],
        ["plan", "tasks x", "tasks y", "tasks z"],
    ),
    "an id with any printable characters": (
        {"plan": submitted("../ä b?"), "result ../ä b?": completed("a")}, [["a"]], ["plan", "result ../ä b?"],
    ),
    "a status in capitals": ({"plan": {**completed("a"), "status": "COMPLETED"}}, [["a"]], ["plan"]),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "files", "sent"), PLANS.values(), ids=PLANS)
def test_a_plan_has_the_files_of_all_its_answers(answers, files, sent):
    script = Script(answers)
    answer = run(script)
    assert files_of(answer) == files
    assert script.sent == sent
    assert answer.requests == len(sent)


def test_each_answer_keeps_its_own_deletes():
    """An index into `delete-files` refers to the list in the same answer."""
    first, second = ({"file-path": name, "content": "position-deletes"} for name in ("first", "second"))
    answers = {
        "plan": {**completed("a", plan_tasks=["x", "y"]), "delete-files": [first]},
        "tasks x": {**page("b"), "delete-files": [second, first]},
        "tasks y": page("c"),
    }
    assert [each["delete-files"] for each in run(Script(answers)).pages] == [[first], [second, first], []]


WITH_TASK = {"status": "completed", "plan-id": "p", "plan-tasks": ["x"]}
FAILURES = {
    "cancelled at first": ({"plan": {"status": "cancelled"}}, "CatalogAnswer", ["plan"]),
    "an unknown status": ({"plan": {"status": "ready", "plan-id": "p"}}, "CatalogAnswer", ["plan"]),
    "no status": ({"plan": {"plan-id": "p"}}, "CatalogAnswer", ["plan"]),
    "a status that is no text": ({"plan": {"status": 1}}, "CatalogAnswer", ["plan"]),
    "failed": ({"plan": {"status": "failed", "error": {"message": "no"}}}, "CatalogFailed", ["plan"]),
    "failed, and its error is no object": ({"plan": {"status": "failed", "error": "no"}}, "CatalogFailed", ["plan"]),
    "submitted without an id": ({"plan": {"status": "submitted"}}, "CatalogAnswer", ["plan"]),
    "an id that is no text": ({"plan": submitted(7)}, "CatalogAnswer", ["plan"]),
    "an empty id": ({"plan": submitted("")}, "CatalogAnswer", ["plan"]),
    "an id that is the path of the table": ({"plan": submitted("..")}, "CatalogAnswer", ["plan"]),
    "an id with a line feed": ({"plan": submitted("p\nq")}, "CatalogAnswer", ["plan"]),
    "a very long id": ({"plan": submitted("p" * 1025)}, "CatalogAnswer", ["plan"]),
    "submitted with files": ({"plan": {**submitted(), **page("a")}}, "CatalogAnswer", ["plan", "cancel p"]),
    "submitted with plan tasks": (
        {"plan": {**submitted(), "plan-tasks": ["x"]}}, "CatalogAnswer", ["plan", "cancel p"],
    ),
    "failed later": ({"plan": submitted(), "result p": {"status": "failed"}}, "CatalogFailed", ["plan", "result p"]),
    "cancelled later": (
        {"plan": submitted(), "result p": {"status": "cancelled"}}, "CatalogFailed", ["plan", "result p"],
    ),
    "an unknown status later": (
        {"plan": submitted(), "result p": {"status": "ready"}}, "CatalogAnswer", ["plan", "result p", "cancel p"],
    ),
    "an unknown id": (
        {"plan": submitted(), "result p": refused(404, "NoSuchPlanIdException")},
        "CatalogFailed",
        ["plan", "result p", "cancel p"],
    ),
    "an unknown task": (
        {"plan": WITH_TASK, "tasks x": refused(404, "NoSuchPlanTaskException")},
        "CatalogFailed",
        ["plan", "tasks x", "cancel p"],
    ),
    "a task without lists": ({"plan": WITH_TASK, "tasks x": {}}, "CatalogAnswer", ["plan", "tasks x", "cancel p"]),
    "a task that names itself": (
        {"plan": WITH_TASK, "tasks x": page("a", tasks=("x",))}, "CatalogAnswer", ["plan", "tasks x", "cancel p"],
    ),
    "tasks that name each other": (
        {"plan": WITH_TASK, "tasks x": page(tasks=("y",)), "tasks y": page(tasks=("x",))},
        "CatalogAnswer",
        ["plan", "tasks x", "tasks y", "cancel p"],
    ),
    "tasks that name the same task": (
        {
            "plan": {**WITH_TASK, "plan-tasks": ["x", "y"]},
            "tasks x": page(tasks=("z",)), "tasks y": page(tasks=("z",)), "tasks z": page("a"),
        },
        "CatalogAnswer",
        ["plan", "tasks x", "tasks y", "cancel p"],
    ),
    "a task that is listed twice": (
        {"plan": {**WITH_TASK, "plan-tasks": ["x", "x"]}}, "CatalogAnswer", ["plan", "cancel p"],
    ),
    "a task that is no text": ({"plan": {**WITH_TASK, "plan-tasks": [1]}}, "CatalogAnswer", ["plan", "cancel p"]),
    "tasks that are no list": ({"plan": {**WITH_TASK, "plan-tasks": "x"}}, "CatalogAnswer", ["plan", "cancel p"]),
    "a file that is no object": (
        {"plan": {**WITH_TASK, "file-scan-tasks": ["a"]}}, "CatalogAnswer", ["plan", "cancel p"],
    ),
    "files that are no list": ({"plan": {**WITH_TASK, "file-scan-tasks": {}}}, "CatalogAnswer", ["plan", "cancel p"]),
    "deletes that are no objects": (
        {"plan": {**WITH_TASK, "delete-files": [0]}}, "CatalogAnswer", ["plan", "cancel p"],
    ),
    "a task after whose answer the connection ends": (
        {"plan": WITH_TASK, "tasks x": StorageError("gone", cause="CatalogDown")},
        "CatalogDown",
        ["plan", "tasks x", "cancel p"],
    ),
    "an error, and the plan cannot be cancelled": (
        {"plan": WITH_TASK, "tasks x": refused(500), "cancel p": StorageError("gone")},
        "CatalogFailed",
        ["plan", "tasks x", "cancel p"],
    ),
    "an error, and the server does not let the plan be cancelled": (
        {"plan": WITH_TASK, "tasks x": refused(500), "cancel p": refused(500)},
        "CatalogFailed",
        ["plan", "tasks x", "cancel p"],
    ),
    "a plan without an id": (
        {"plan": {**WITH_TASK, "plan-id": None}, "tasks x": refused(500)}, "CatalogFailed", ["plan", "tasks x"],
    ),
    "a server that stays busy": ({"plan": BUSY}, "CatalogBusy", ["plan"] * 6),
    "a task that stays busy": (
        {"plan": WITH_TASK, "tasks x": BUSY}, "CatalogBusy", ["plan", *["tasks x"] * 6, "cancel p"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "cause", "sent"), FAILURES.values(), ids=FAILURES)
def test_a_plan_that_fails_is_cancelled_if_the_server_holds_it(answers, cause, sent):
    script = Script(answers)
    with pytest.raises(StorageError) as caught:
        run(script)
    assert (caught.value.cause, caught.value.table) == (cause, "prod.sales.orders")
    assert "\n" not in str(caught.value)
    assert Counter(script.sent) == Counter(sent)
    assert script.sent[-1] == sent[-1]


STATUSES = [
    (400, "BadRequestException", StorageError, "CatalogFailed"),
    (401, "NotAuthorizedException", StorageError, "CatalogDenied"),
    (403, "ForbiddenException", StorageError, "CatalogDenied"),
    (404, "NoSuchTableException", TableNotFoundError, "NoSuchTable"),
    (404, "NoSuchNamespaceException", TableNotFoundError, "NoSuchNamespace"),
    (404, "", StorageError, "CatalogFailed"),
    (405, "", UnsupportedError, "ServerPlanning"),
    (406, "UnsupportedOperationException", UnsupportedError, "ServerPlanning"),
    (419, "AuthenticationTimeoutException", StorageError, "CatalogDenied"),
    (500, "InternalServerError", StorageError, "CatalogFailed"),
    (501, "", UnsupportedError, "ServerPlanning"),
    (503, "SlowDownException", StorageError, "CatalogBusy"),
    (302, "", StorageError, "CatalogMoved"),
]


@pytest.mark.parametrize(("status", "type_", "kind", "cause"), STATUSES)
def test_a_status_determines_the_class_of_the_error(status, type_, kind, cause):
    with pytest.raises(HarnessError) as caught:
        run(Script({"plan": refused(status, type_, "the reason")}))
    assert (type(caught.value), caught.value.cause) == (kind, cause)
    assert caught.value.table == "prod.sales.orders"
    assert "prod " in caught.value.message
    assert "the reason" in caught.value.message


def test_the_text_of_a_server_is_short_and_has_no_secrets_and_no_control_characters():
    text = "no\n\x1b[31m Bearer abcdefgh12345678 https://me:pw@store/x?sig=abc " + "long " * 100
    with pytest.raises(StorageError) as caught:
        run(Script({"plan": refused(500, "Error", text)}))
    shown = str(caught.value)
    assert shown.isprintable()
    assert len(shown) < 400
    assert not [secret for secret in ("abcdefgh12345678", "pw", "sig=") if secret in shown]


@pytest.mark.parametrize("document", [{}, {"error": None}, {"error": "no"}, {"error": {"message": 7, "type": []}}])
def test_an_error_without_a_message_is_named_by_its_status(document):
    with pytest.raises(StorageError, match="HTTP 500"):
        run(Script({"plan": Answer(status=500, document=document)}))


MISSING_CALLS = {
    Call.PLAN: ({"plan": completed("a")}, []),
    Call.RESULT: ({"plan": submitted()}, ["plan", "cancel p"]),
    Call.TASKS: ({"plan": WITH_TASK}, ["plan", "cancel p"]),
}


@pytest.mark.parametrize("call", MISSING_CALLS)
def test_a_call_that_the_server_does_not_offer_is_not_sent(call):
    answers, sent = MISSING_CALLS[call]
    script = Script(answers, calls=frozenset(Call) - {call})
    with pytest.raises(UnsupportedError, match="planning='client'") as caught:
        run(script)
    assert (caught.value.cause, caught.value.options) == ("ServerPlanning", ("planning",))
    assert script.sent == sent


def test_a_server_that_cannot_cancel_is_not_asked_to():
    script = Script({"plan": WITH_TASK, "tasks x": refused(500)}, calls=frozenset(Call) - {Call.CANCEL})
    with pytest.raises(StorageError):
        run(script)
    assert script.sent == ["plan", "tasks x"]


def test_the_request_is_the_body_of_the_first_call_only():
    script = Script({"plan": submitted(), "result p": completed("a", plan_tasks=["x"]), "tasks x": page("b")})
    run(script)
    first = {"snapshot-id": 1, "case-sensitive": True, "use-snapshot-schema": False}
    assert script.bodies == [first, None, {"plan-task": "x"}]


def test_waits_grow_up_to_ten_seconds_and_end_after_ten_minutes():
    waits, script = Waits(), Script({"plan": submitted(), "result p": {"status": "submitted"}})
    with pytest.raises(StorageError, match="10 minutes") as caught:
        run(script, waits)
    assert caught.value.cause == "CatalogBusy"
    assert script.sent[-1] == "cancel p"
    for number, wait in enumerate(waits.waits):
        assert min(10, 0.05 * 2**number) <= wait <= min(10, 0.1 * 2**number)
    assert 600 <= waits.at < 610


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [
        (3.0, 3, 3),
        (900.0, 30, 30),
        (float("inf"), 30, 30),
        (float("nan"), 0.05, 0.1),
        (-5.0, 0.05, 0.1),
        (0.0, 0.05, 0.1),
    ],
)
@pytest.mark.parametrize("status", ["busy", "submitted"])
def test_a_server_chooses_the_wait_up_to_thirty_seconds(status, asked, least, most):
    waits = Waits()
    first = Answer(status=200, document=submitted(), retry_after_s=asked)
    busy = Answer(status=503, document={}, retry_after_s=asked)
    run(Script({"plan": first if status == "submitted" else [busy, completed("a")], "result p": completed("a")}), waits)
    assert len(waits.waits) == 1
    assert least <= waits.waits[0] <= most


@pytest.mark.parametrize("answers", [{"plan": submitted()}, {"plan": WITH_TASK, "tasks x": BUSY}])
def test_ctrl_c_during_a_wait_cancels_the_plan(answers):
    script = Script(answers)
    with pytest.raises(KeyboardInterrupt):
        run(script, Waits(interrupt=True))
    assert script.sent[-1] == "cancel p"


def test_ctrl_c_during_a_wait_before_there_is_a_plan_sends_nothing_more():
    script = Script({"plan": BUSY})
    with pytest.raises(KeyboardInterrupt):
        run(script, Waits(interrupt=True))
    assert script.sent == ["plan"]


def test_ctrl_c_while_threads_fetch_tasks_cancels_the_plan_without_waiting_for_them():
    stalled, cancelled, interrupted = threading.Barrier(3), threading.Event(), threading.Event()
    main = threading.get_ident()

    def raise_once(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def stall() -> Answer:
        stalled.wait(10)
        cancelled.wait(10)
        return BUSY  # the thread then waits for a retry, unless the plan was abandoned

    def interrupt() -> dict[str, Any]:
        stalled.wait(10)
        while not interrupted.wait(0.01):  # a signal is lost if the main thread just starts to wait
            signal.pthread_kill(main, signal.SIGINT)
        return page("a")

    def cancel() -> Answer:
        cancelled.set()
        return DONE

    answers = {
        "plan": {**WITH_TASK, "plan-tasks": ["x", "y", "z"]},
        "tasks x": stall, "tasks y": stall, "tasks z": interrupt, "cancel p": cancel,
    }  # fmt: skip
    script, before = Script(answers), signal.signal(signal.SIGINT, raise_once)
    try:
        with pytest.raises(KeyboardInterrupt):
            request_plan(script, ScanRequest(snapshot_id=1), table="t")
    finally:
        signal.signal(signal.SIGINT, before)
    for thread in threading.enumerate():
        if thread.name == "harness-ahead":
            thread.join(10)
    assert Counter(script.sent) == Counter(["plan", "tasks x", "tasks y", "tasks z", "cancel p"])


def test_a_server_that_stalls_is_not_waited_for_when_a_plan_is_cancelled(monkeypatch):
    monkeypatch.setattr(calls, "LONGEST_CANCELLATION_S", 0)
    finished = threading.Event()

    def stall() -> Answer:
        finished.wait(10)
        return DONE

    with pytest.raises(KeyboardInterrupt):
        run(Script({"plan": submitted(), "cancel p": stall}), Waits(interrupt=True))
    assert not finished.is_set()
    finished.set()
    for thread in threading.enumerate():
        if thread.name == "harness-cancel":
            thread.join(10)


def test_an_error_in_a_thread_ends_the_waits_of_the_others_and_cancels_the_plan():
    """The second task is retried, with a wait that only the failure of the first task ends."""
    busy = threading.Event()
    waiting = threading.Event()

    def fail() -> Answer:
        busy.wait(10)
        return refused(500)

    def wait(abandoned: threading.Event, seconds: float) -> None:
        waiting.set()
        busy.set()
        assert abandoned.wait(10)

    script = Script({"plan": {**WITH_TASK, "plan-tasks": ["x", "y"]}, "tasks x": fail, "tasks y": BUSY})
    with pytest.raises(StorageError, match="HTTP 500"):
        request_plan(script, ScanRequest(snapshot_id=1), table="t", clock=Clock(wait=wait))
    assert waiting.is_set()
    assert Counter(script.sent) == Counter(["plan", "tasks x", "tasks y", "cancel p"])


def test_the_order_of_pages_does_not_depend_on_the_order_of_answers():
    """Each task is answered only after the next task, but its answer precedes the answers of the next task."""
    names = ["a", "b", "c", "d"]
    answered = {name: threading.Event() for name in names}

    def after(name: str) -> Callable[[], dict[str, Any]]:
        def answer() -> dict[str, Any]:
            following = names[names.index(name) + 1 :]
            assert not following or answered[following[0]].wait(10)
            answered[name].set()
            return page(name, tasks=(f"{name}2",))

        return answer

    answers = {f"tasks {name}": after(name) for name in names} | {f"tasks {name}2": page(f"{name}2") for name in names}
    script = Script({"plan": completed("first", plan_id="p", plan_tasks=names), **answers})
    assert files_of(run(script)) == [["first"], ["a"], ["a2"], ["b"], ["b2"], ["c"], ["c2"], ["d"], ["d2"]]


def test_tasks_are_fetched_eight_at_a_time():
    together, most, lock = threading.Barrier(8), Counter[str](), threading.Lock()

    def answer() -> dict[str, Any]:
        with lock:
            most["now"] += 1
            most["most"] = max(most["most"], most["now"])
        together.wait(10)
        with lock:
            most["now"] -= 1
        return page("a")

    names = [f"t{number}" for number in range(24)]
    run(Script({"plan": completed(plan_tasks=names), **{f"tasks {name}": answer for name in names}}))
    assert most["most"] == 8


LIMITS = {
    "MOST_TASKS": ({"plan": completed(plan_id="p", plan_tasks=["a", "b", "c", "d"])}, ["plan", "cancel p"]),
    "MOST_FILES": (
        {"plan": completed("a", "b", plan_id="p", plan_tasks=["x"]), "tasks x": {**page("c"), "delete-files": [{}]}},
        ["plan", "tasks x", "cancel p"],
    ),
    "MOST_BYTES": (
        {
            "plan": Answer(status=200, document=completed(plan_id="p", plan_tasks=["x"]), size=2),
            "tasks x": Answer(status=200, document=page("c"), size=2),
        },
        ["plan", "tasks x", "cancel p"],
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_plan_that_exceeds_a_limit_is_refused(limit, monkeypatch):
    answers, sent = LIMITS[limit]
    monkeypatch.setattr(calls, limit, 3)
    script = Script(answers)
    with pytest.raises(StorageError, match="more than 3 ") as caught:
        run(script)
    assert caught.value.cause == "CatalogAnswer"
    assert script.sent == sent
    monkeypatch.setattr(calls, limit, 4)
    script = Script({**answers, **{f"tasks {name}": page() for name in "abcd"}})
    run(script)
    assert "cancel p" not in script.sent


def test_tasks_that_never_end_are_refused(monkeypatch):
    """Each task names two new tasks."""
    monkeypatch.setattr(calls, "MOST_TASKS", 1000)

    class Endless(Script):
        def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
            if call is Call.TASKS and body is not None:
                task = body["plan-task"]
                return Answer(status=200, document={"plan-tasks": [f"{task}0", f"{task}1"]})
            return super().send(call, plan_id=plan_id, body=body)

    script = Endless({"plan": WITH_TASK})
    with pytest.raises(StorageError, match="more than 1,000 plan tasks"):
        run(script)
    assert script.sent == ["plan", "cancel p"]


def vended(*prefixes: str, key: str = "k") -> list[dict[str, Any]]:
    return [{"prefix": prefix, "config": {"s3.access-key-id": key}} for prefix in prefixes]


def test_credentials_of_later_answers_come_last_and_replace_those_of_the_same_prefix():
    script = Script({
        "plan": {**submitted(), "storage-credentials": vended("s3://ignored")},
        "result p": completed(plan_tasks=["x", "y"], storage_credentials=vended("s3://a", "s3://b", key="old")),
        "tasks x": {**page("a"), "storage-credentials": vended("s3://c")},
        "tasks y": {**page("b"), "storage-credentials": vended("s3://a", key="new")},
    })  # fmt: skip
    credentials = run(script).credentials
    assert [(each.prefix, each.config["s3.access-key-id"]) for each in credentials] == [
        ("s3://b", "old"), ("s3://c", "k"), ("s3://a", "new"),
    ]  # fmt: skip


WRONG_CREDENTIALS = [
    {"s3.secret-access-key": "hush"},
    "hush",
    ["hush"],
    [{"prefix": 1, "config": {"k": "hush"}}],
    [{"prefix": "", "config": {"k": "hush"}}],
    [{"config": {"k": "hush"}}],
    [{"prefix": "s3://a"}],
    [{"prefix": "s3://a", "config": "hush"}],
    [{"prefix": "s3://a", "config": {"k": ["hush"]}}],
    [*vended("s3://a"), None],
]


@pytest.mark.parametrize("credentials", WRONG_CREDENTIALS)
@pytest.mark.parametrize("call", ["plan", "tasks", "renew"])
def test_malformed_credentials_are_refused_and_not_shown(call, credentials):
    answers = {
        "plan": {**WITH_TASK, "storage-credentials": credentials if call == "plan" else None},
        "tasks x": {**page("a"), "storage-credentials": credentials},
        "renew p": {"storage-credentials": credentials},
    }
    with pytest.raises(StorageError) as caught:
        renew_credentials(Script(answers), "p", table="t") if call == "renew" else run(Script(answers))
    assert caught.value.cause == "CatalogAnswer"
    assert "hush" not in str(caught.value)


def test_credentials_are_renewed_for_a_plan():
    script = Script({"renew p": [BUSY, {"storage-credentials": vended("s3://a", "s3://b")}]})
    renewed = renew_credentials(script, "p", table="t", clock=Waits().clock)
    assert renewed == (
        Credential("s3://a", {"s3.access-key-id": "k"}),
        Credential("s3://b", {"s3.access-key-id": "k"}),
    )
    assert script.sent == ["renew p", "renew p"]
    assert "s3.access" not in repr(renewed)


@pytest.mark.parametrize(
    ("answer", "cause"), [({}, "CatalogAnswer"), (refused(403), "CatalogDenied"), (refused(404), "CatalogFailed")]
)
def test_a_renewal_may_fail(answer, cause):
    with pytest.raises(StorageError) as caught:
        renew_credentials(Script({"renew": answer}), None, table="t")
    assert (caught.value.cause, caught.value.table) == (cause, "t")


def test_a_server_may_not_offer_renewals():
    script = Script({}, calls=frozenset({Call.PLAN}))
    with pytest.raises(UnsupportedError):
        renew_credentials(script, "p")
    assert script.sent == []
