"""Every error that simstream raises on purpose, in one tree.

SimstreamError                what happened, and what to do
├── UsageError                exit 2: the command line or the settings are wrong
│   ├── SettingsError         a setting is unknown, of the wrong type or out of range
│   └── InputMissing          a named file or folder does not exist or cannot be read
├── InputError                exit 1: an input file is cut off or damaged
│   └── InputChanged          an input file differs at its second reading
├── StoreError                exit 1: an object store or a web server broke off, or does not answer
├── OutputError               exit 1: an output file or stdout accepts no more bytes
│   └── NotPut                a store did not take a whole output; it stays on the disk
├── PageUnknown               exit 1: no page has this id, or the page has no verdict yet
├── ExtractionNotStarted      exit 1: no process that extracts HTML can be started
├── LogError                  exit 1: the log, local or Kafka
│   ├── BrokerUnreachable     no broker answered in time
│   ├── NotAdmitted           brokers refuse this client: TLS or SASL
│   ├── NotPermitted          an access control list forbids what a role has to do
│   ├── TopicMissing          a topic does not exist
│   ├── TopicUnfit            a topic's settings break a rule of the service
│   ├── TopicRecreated        a topic was deleted and created again while this process used it
│   ├── RecordTooLarge        the topic does not allow a record of this size
│   ├── DeliveryFailed        an append was not acknowledged; it and all later appends are discarded
│   ├── TransactionOutlived   a transaction took longer than brokers allow; none of it is published
│   ├── DiskFull              the disk of a local log is full; earlier records are safe
│   ├── LogLocked             another process writes to this topic
│   └── LogDamaged            a checksum in a local log is wrong
├── StateError                exit 1: the state does not fit; going on would be a guess
│   ├── WrongRecipe           the log or the state was made by another recipe
│   ├── WrongPolicy           the published position belongs to another policy
│   ├── WrongLog              the position belongs to another log, or the digest differs
│   ├── WrongAnswer           a shard and the judge do not agree on the log, the live pages or a match
│   ├── WrongSchema           the published verdicts have another schema
│   ├── WrongVerdict          the log does not give the verdict that was published
│   ├── PositionMissing       the topic `verdicts` has or had records, and `positions` has none
│   ├── StateDamaged          a file of the state is damaged or half-written
│   ├── StateFormat           the state has the format of another version
│   ├── FrameFormat           a frame of the log has the format of another version
│   ├── StateLocked           another process uses the state's folder
│   ├── StateUnwritable       a snapshot cannot be written; earlier snapshots are unchanged
│   │   └── StateFull         the disk under the state is full
│   └── TakenOver             another judge has taken over
├── ClientError               exit 1: a page that a program gave to a client
│   ├── VerdictLate           no verdict came in time; the page may still be judged
│   ├── ClientFull            too many pages wait for their verdict, and none made room in time
│   └── ClientClosed          the client was closed
├── RegistryFailed            exit 1: the schema registry gave no proper answer
├── SchemaRefused             exit 1: the schema registry refuses the schema of verdicts, or the user
├── FrameDamaged              a frame's checksum or layout is wrong
├── AnswerDamaged             the checksum or the layout of a shard's answer is wrong
└── Unavailable               exit 2: this installation does not have the part that was asked for
"""

from collections.abc import Iterator
from contextlib import contextmanager


class SimstreamError(Exception):
    """An error that a user can act on; the root of all errors that simstream raises on purpose, but TypeError.

    `what` says what happened, `todo` what to do. A command prints both as one line, and ends with `exit_code`.

    Examples:
        >>> from simstream import Deduper, SimstreamError
        >>> try:
        ...     Deduper(distance=99)
        ... except SimstreamError as error:
        ...     print(error.what, "-", error.todo)
        distance is 99 - use a whole number from 0 to 16
    """

    exit_code = 1

    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(what, todo)
        self.what = what
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.what}: {self.todo}" if self.todo else self.what


class UsageError(SimstreamError):
    """The command line is wrong."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type, or out of its range."""


class InputMissing(UsageError):
    """A named file or folder does not exist or cannot be read."""


class InputError(SimstreamError):
    """An input is cut off or damaged."""


class InputChanged(InputError):
    """An input differs at its second reading. No output is kept: it may come from two versions of the file."""


class StoreError(SimstreamError):
    """An object store or a web server broke off or does not answer; its file may be whole."""


class OutputError(SimstreamError):
    """An output file or stdout accepts no more bytes."""


class NotPut(OutputError):
    """A store did not take a whole output. It stays on the disk, and all other outputs are whole."""


class PageUnknown(SimstreamError):
    """There is no page of this id, or it has no verdict yet."""


class ExtractionNotStarted(SimstreamError):
    """No process that extracts HTML can start: file descriptors, processes or memory are short, another version was
    installed meanwhile, or the program is frozen."""


class LogError(SimstreamError):
    """The log, local or Kafka, failed."""


class BrokerUnreachable(LogError):
    """No broker answered in time."""


class NotAdmitted(LogError):
    """Brokers refuse this client: a password, a certificate or a protocol is wrong."""


class NotPermitted(LogError):
    """The brokers' access control lists forbid what a role has to do."""


class TopicMissing(LogError):
    """A topic does not exist."""


class TopicUnfit(LogError):
    """A topic's settings break a rule of the service."""


class TopicRecreated(LogError):
    """A topic was deleted and created again while this process used it."""


class RecordTooLarge(LogError):
    """The topic does not allow a record of this size."""

    number: int | None = None
    """The number of the append that the broker refused; None if `append` itself refused it."""


class DeliveryFailed(LogError):
    """An append was not acknowledged. Append it and all later records again."""


class TransactionOutlived(LogError):
    """A transaction reached its time limit. None of it is published: publish less at once."""


class DiskFull(LogError):
    """The disk under a local log is full. Earlier records are safe; try again when there is room."""


class LogLocked(LogError):
    """Another process holds the writer's lock of a local topic."""


class LogDamaged(LogError):
    """A checksum in a local log does not fit its record."""


class StateError(SimstreamError):
    """The state does not fit: going on would be a guess."""


class WrongRecipe(StateError):
    """The log was written under another recipe."""


class WrongPolicy(StateError):
    """The published position was written under another policy."""


class WrongLog(StateError):
    """The published position belongs to another log."""


class WrongAnswer(StateError):
    """A shard and the judge do not agree on what the log says, on which pages are live, or on what a match is."""


class WrongSchema(StateError):
    """The published verdicts have another schema than those that are to follow."""


class WrongVerdict(StateError):
    """The log, judged again, does not give the published verdict."""


class PositionMissing(StateError):
    """The topic `verdicts` has records, and `positions` has none."""


class StateDamaged(StateError):
    """A file of the state is damaged, half-written, or contradicts another."""


class StateFormat(StateError):
    """The state has a format that this version does not read."""


class FrameFormat(StateError):
    """A whole frame of the log has a format that only another version reads."""


class StateLocked(StateError):
    """Another process uses the state's folder."""


class StateUnwritable(StateError):
    """A snapshot cannot be written. Earlier snapshots are unchanged; try again later."""


class StateFull(StateUnwritable):
    """The disk under the state is full. Try again when there is room."""


class TakenOver(StateError):
    """Another judge publishes now."""


class ClientError(SimstreamError):
    """A page that a program gave to a client has no verdict."""


class VerdictLate(ClientError):
    """No verdict came in time."""


class ClientFull(ClientError):
    """Too many pages wait for their verdict, and none made room in time."""


class ClientClosed(ClientError):
    """The client was closed; the page may still be judged."""


class RegistryFailed(SimstreamError):
    """The schema registry gave no proper answer. No page is lost; try again when it works."""


class SchemaRefused(SimstreamError):
    """The schema registry refuses the schema of verdicts or the user, or lacks the schema: no verdict comes."""


class FrameDamaged(SimstreamError):
    """The checksum or the layout of a frame is wrong."""


class AnswerDamaged(SimstreamError):
    """The checksum or the layout of a shard's answer is wrong."""


class Unavailable(UsageError):
    """This installation does not have the part that was asked for."""


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Raise Unavailable if an import within fails: `what` needs the package, and `extra` installs it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == __package__:
            raise  # a defect, and no missing package
        raise Unavailable(
            f"{what} needs {error.name or 'a package'}, which is not installed",
            f"run pip install 'simstream[{extra}]'",
        ) from error
