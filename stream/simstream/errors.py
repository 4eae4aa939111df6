"""Every error that simstream raises on purpose, in one tree.

SimstreamError                what happened, and what to do about it
├── UsageError                exit 2: the command line or the settings are wrong
│   ├── SettingsError         a setting is unknown, of the wrong type or out of range
│   └── InputMissing          a file or folder that was named is not there or cannot be read
├── InputError                exit 1: an input file broke off or is damaged
├── OutputError               exit 1: an output file or stdout accepts no more bytes
├── PageUnknown               exit 1: no page of this id, or none with a verdict
├── ExtractionNotStarted      exit 1: no process that extracts HTML can be started
├── LogError                  exit 1: the log, local or Kafka
│   ├── BrokerUnreachable     no broker answered in time
│   ├── NotAdmitted           brokers do not let this client in: TLS or SASL
│   ├── NotPermitted          an access control list does not grant what a role has to do
│   ├── TopicMissing          a topic does not exist
│   ├── TopicUnfit            a topic's settings break a rule of the service
│   ├── TopicRecreated        a topic is not the one that this process began with
│   ├── RecordTooLarge        the topic does not admit a record of this size
│   ├── DeliveryFailed        an append was not acknowledged; all that came after it is discarded
│   ├── TransactionOutlived   a transaction took longer than brokers allow; nothing of it is published
│   ├── DiskFull              a local log's disk takes no more; nothing that was there is lost
│   ├── LogLocked             another process writes to this topic
│   └── LogDamaged            a checksum in a local log does not agree
├── StateError                exit 1: going on would mean to guess
│   ├── WrongRecipe           the log or the state was made by another recipe
│   ├── WrongPolicy           the published position belongs to another policy
│   ├── WrongLog              the position belongs to another log, or the digest differs
│   ├── WrongVerdict          the log does not give the verdict that was published
│   ├── PositionMissing       verdicts are there, but no position
│   ├── StateDamaged          a file of the state is damaged or half-written
│   ├── StateFormat           the state was written by another version's format
│   ├── FrameFormat           a frame of the log is of a format that only another version reads
│   ├── StateLocked           another process uses the state's folder
│   ├── StateUnwritable       the disk does not take a snapshot; the earlier ones are as they were
│   │   └── StateFull         there is no room on it
│   └── TakenOver             another judge has taken over
├── ClientError               exit 1: a page that a program handed to the service
│   ├── VerdictLate           no verdict came in time; the page may still be judged
│   ├── ClientFull            too many pages are on their way, and none made room in time
│   └── ClientClosed          the client was closed
├── FrameDamaged              a frame's checksum or layout is wrong
└── Unavailable               exit 2: a part of the design that this version does not have yet
"""


class SimstreamError(Exception):
    """An error that a user can act on.

    `what` says what happened, `todo` what to do about it; together they make the one line that a command
    prints. `exit_code` is what the command ends with.
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
    """A named file or folder is not there or cannot be read."""


class InputError(SimstreamError):
    """An input broke off or is damaged."""


class OutputError(SimstreamError):
    """An output file or stdout accepts no more bytes."""


class PageUnknown(SimstreamError):
    """There is no page of this id, or none that has a verdict yet."""


class ExtractionNotStarted(SimstreamError):
    """No process that extracts HTML can be started: file descriptors, processes or memory are short."""


class LogError(SimstreamError):
    """Something about the log, local or Kafka."""


class BrokerUnreachable(LogError):
    """No broker answered in time."""


class NotAdmitted(LogError):
    """Brokers do not let this client in: a password, a certificate or a protocol is wrong."""


class NotPermitted(LogError):
    """The brokers' access control lists do not grant what has to be done."""


class TopicMissing(LogError):
    """A topic does not exist."""


class TopicUnfit(LogError):
    """A topic's settings break a rule of the service."""


class TopicRecreated(LogError):
    """A topic was deleted and made anew while this process used it."""


class RecordTooLarge(LogError):
    """The topic does not admit a record of this size."""

    number: int | None = None
    """Which append it was, where only the broker found out; None where `append` itself refused it."""


class DeliveryFailed(LogError):
    """An append was not acknowledged; it and all that followed it must be appended again."""


class TransactionOutlived(LogError):
    """A transaction was ended by its own time. Nothing of it is published: publish less at once."""


class DiskFull(LogError):
    """The disk under a local log takes no more; what was refused can be tried again once there is room."""


class LogLocked(LogError):
    """Another process holds the writer's lock of a local topic."""


class LogDamaged(LogError):
    """A checksum inside a local log does not agree with its record."""


class StateError(SimstreamError):
    """State that does not fit: going on would mean to guess."""


class WrongRecipe(StateError):
    """The log was written under another recipe."""


class WrongPolicy(StateError):
    """The published position was written under another policy."""


class WrongLog(StateError):
    """The published position belongs to another log."""


class WrongVerdict(StateError):
    """The log, judged again, does not give the verdict that was published."""


class PositionMissing(StateError):
    """`verdicts` has records, `positions` has none."""


class StateDamaged(StateError):
    """A file of the state is damaged, half-written, or contradicts another."""


class StateFormat(StateError):
    """The state was written in a format that this version does not read."""


class FrameFormat(StateError):
    """A whole frame of the log is of a format that only another version reads."""


class StateLocked(StateError):
    """Another process uses the state's folder."""


class StateUnwritable(StateError):
    """The disk does not take a snapshot; it can be tried again, and the earlier ones are as they were."""


class StateFull(StateUnwritable):
    """The disk under the state takes no more; it can be tried again once there is room."""


class TakenOver(StateError):
    """Another judge publishes now."""


class ClientError(SimstreamError):
    """Something about a page that a program handed to the service."""


class VerdictLate(ClientError):
    """No verdict came in time."""


class ClientFull(ClientError):
    """As many pages are on their way as may be, and none made room in time."""


class ClientClosed(ClientError):
    """The client was closed; the page may still be judged."""


class FrameDamaged(SimstreamError):
    """A frame whose checksum or layout is wrong."""


class Unavailable(UsageError):
    """A part of the design that this version does not have yet."""
