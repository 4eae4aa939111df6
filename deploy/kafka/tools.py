"""Kafka's own tools, which the operator's guide calls, as scripts over the jars of the broker.

`python -m deploy.kafka.tools FOLDER` writes the scripts to a folder: kafka-topics.sh, kafka-configs.sh and others.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from deploy.kafka.jars import BrokerError, download, say_on_stderr

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""The Java class of each tool."""


def install(folder: Path) -> list[Path]:
    """Write a script for each tool to a folder. The first call downloads the jars. Raises BrokerError."""
    jars = download()
    written = []
    for tool, name in TOOLS.items():
        script = folder / f"{tool}.sh"
        command = f"exec java -XX:TieredStopAtLevel=1 -cp {shlex.quote(f'{jars}/*')} {name}"
        script.write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        written.append(script)
    return written


def main() -> int:
    """Write the scripts to the folder that the command line names."""
    parser = argparse.ArgumentParser(
        description="Write scripts for Kafka's own tools, over the jars of the broker."
    )
    parser.add_argument("folder", type=Path)
    try:
        written = install(parser.parse_args().folder)
    except BrokerError as error:
        say_on_stderr(str(error))
        return 1
    say_on_stderr(f"Kafka's own tools: {', '.join(map(str, written))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
