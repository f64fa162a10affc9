"""Answers the inspector's questions; an error is an answer too."""

import threading
from pathlib import Path
from typing import assert_never

from jobmanager.core.errors import InvalidJobGraph, PathNotAllowed
from jobmanager.protocol.inspection import (
    AdoptCheckpoint,
    AnalyseGraph,
    AnswerBody,
    CountKeyGroups,
    DescribeScript,
    ListStates,
    Question,
    QuestionBody,
    ReadRows,
    ReadSinkRows,
    Refusal,
    TryGraph,
)
from taskrunner import logs
from taskrunner.core import failures
from taskrunner.core.state_key import InvalidKey
from taskrunner.inspector.adoptions import AdoptionDesk
from taskrunner.inspector.analyses import AnalysisDesk
from taskrunner.inspector.scripts import ScriptDesk
from taskrunner.inspector.sink_rows import SinkRowDesk
from taskrunner.inspector.states import StateDesk, UnknownState
from taskrunner.inspector.trials import TrialDesk
from taskrunner.keyed.group_state import UnknownStateFormat
from taskrunner.keyed.plain_pickle import CodeInState
from taskrunner.snapshots.copies import Copies, SnapshotGone, UnreadableSnapshot
from taskrunner.snapshots.foreign import ForeignCheckpointRefused
from taskrunner.spark.connectors.reading_back import CannotReadBack
from taskrunner.spark.run.causes import causes_of, stack_of
from taskrunner.spark.scripts.script_program import ScriptFailed
from taskrunner.spark.session.session import Session
from taskrunner.spark.session.shipped_artifacts import MissingArtifact
from taskrunner.spark.state.state_reader import UncountableState

_CANCEL_EVERY = 0.5
log = logs.get("inspector")


class RequestHandler:
    """Answers one question at a time."""

    def __init__(self, spark: Session, home: Path) -> None:
        self._spark = spark
        copies = Copies(home / "copies")
        self._states = StateDesk(spark, copies)
        self._trials = TrialDesk(spark, copies, home / "trials")
        self._analyses = AnalysisDesk(spark, home / "analyses")
        self._adoptions = AdoptionDesk(spark, home / "adoptions")
        self._sink_rows = SinkRowDesk(spark, home / "sink-rows")
        self._scripts = ScriptDesk(spark)

    def answer(self, question: Question) -> AnswerBody:
        seconds = question.within_ms / 1000
        done, late = threading.Event(), threading.Event()

        def watch() -> None:
            if done.wait(seconds):
                return
            late.set()
            while not done.wait(_CANCEL_EVERY):  # a Spark job may be about to start
                self._spark.sparkContext.cancelAllJobs()

        watching = threading.Thread(target=watch, name="deadline")
        watching.start()
        try:
            answer = self._answer(question.body)
        except Exception as error:
            answer = _refusal(question, error)
        finally:
            done.set()
            watching.join()
        if late.is_set():
            return Refusal(reason="not_in_time", message=f"not done within {seconds:g} s")
        return answer

    def _answer(self, body: QuestionBody) -> AnswerBody:
        match body:
            case ListStates():
                return self._states.list_states(body)
            case ReadRows():
                return self._states.read_rows(body)
            case CountKeyGroups():
                return self._states.count_key_groups(body)
            case TryGraph():
                return self._trials.try_graph(body)
            case AnalyseGraph():
                return self._analyses.analyse(body)
            case AdoptCheckpoint():
                return self._adoptions.adopt(body)
            case ReadSinkRows():
                return self._sink_rows.last_rows(body)
            case DescribeScript():
                return self._scripts.describe(body)
            case _:
                assert_never(body)


def _refusal(question: Question, error: Exception) -> Refusal:
    match error:
        case SnapshotGone():
            return Refusal(reason="gone", message=str(error))
        case UnknownState():
            return Refusal(reason="unknown_state", message=str(error))
        case InvalidKey():
            return Refusal(reason="bad_key", message=str(error))
        case CannotReadBack() | PathNotAllowed():
            return Refusal(reason="not_readable", message=str(error))
        case ForeignCheckpointRefused():
            return Refusal(reason="not_adoptable", message=str(error))
        case ScriptFailed() | MissingArtifact():
            return Refusal(reason="bad_script", message=str(error))
        case InvalidJobGraph():
            return Refusal(reason="bad_graph", message=str(error))
        case UnreadableSnapshot() | UncountableState() | UnknownStateFormat() | CodeInState():
            return Refusal(reason="unreadable", message=str(error))
        case _:
            stack = stack_of(error)
            log.error("question_failed", kind=question.body.kind, stack=stack)
            message = failures.classify(causes_of(error), stack, None).message
            return Refusal(reason="internal", message=message)
