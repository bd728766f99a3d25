"""A real Kafka broker for tests: one node on loopback, up when `start_kafka` returns, gone afterwards.

    with start_kafka() as kafka:
        kafka.create_topic("shop-signal")
        kafka.send("shop-signal", key="shop", value=b"...")

It is broker and controller in one (KRaft), with a listener for everybody (`bootstrap`) and one with TLS and a
password (`secure`). Where its jars come from is in `kafka_jars`; how it is cleaned up, also after SIGKILL, in
`processes`.

Invariants: it is up when its own log says so, on ports it has bound itself; a restart has the same address and data;
every wait has a deadline; only 127.0.0.1 is listened on.
"""

import contextlib
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from snapshotter.testing import processes
from snapshotter.testing.kafka_jars import java, kafka_jars
from snapshotter.testing.processes import GuardedProcess, ServerStartError, free_port, wait_until

USER, PASSWORD = "operator", "not-a-secret"
_CLUSTER = "c25hcHNob3R0ZXItdGVzdA"  # 16 bytes in base64, as Kafka wants it
_STARTED = "Kafka Server started"
_ATTEMPTS = 3
# Small, quick to start, and quiet: a few topics with a few messages are all it will see.
_JVM = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dlog4j2.level=INFO"]
_SECONDS = 30.0


class KafkaBroker:
    """A running broker. It can be killed and started again, on its old port and data, which lie in ``folder``.
    ``jars``: a broker's; ``settings``: further ones, by Kafka's names."""

    def __init__(self, folder: Path, jars: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._given = dict(settings or {})
        self._classpath = f"{jars}/*"
        self._ports: tuple[int, int, int] = (0, 0, 0)
        self._process: GuardedProcess | None = None
        self._starts = 0
        self._admin: Any = None

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def secure(self) -> str:
        """The address that asks for TLS (`certificate`) and for USER and PASSWORD, by SASL PLAIN."""
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def certificate(self) -> Path:
        """The certificate of the secure listener, PEM: what a client must trust."""
        return self._folder / "broker.pem"

    def start(self) -> None:
        """Start it, again after `kill` too, and wait until it serves."""
        attempts = _ATTEMPTS if self._starts == 0 else 1  # clients know the address of one that has run
        for attempt in range(1, attempts + 1):
            if attempt > 1:
                self._choose_ports()
            self._starts += 1
            log = self._folder / f"kafka.{self._starts}.log"
            command = [java(), *_JVM, "-cp", self._classpath, "kafka.Kafka", str(self._settings)]
            process = GuardedProcess(command, folder=self._folder, output=log, name=f"Kafka {self.bootstrap}")
            self._process = process
            if wait_until(partial(_up_or_dead, process), f"{process.name} to start") == "up":
                return
            if attempt == attempts or "Address already in use" not in process.tail(200):
                raise ServerStartError(f"{process.name} ended with {process.exit_code}:\n{process.tail()}")

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End it for good and remove its folder; may be called again."""
        self._admin = None
        self.kill()
        processes.remove_folder(self._folder)

    def admin(self) -> Any:
        """An AdminClient of confluent-kafka, one for all."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Make the topic `name` with so many `partitions`; `config` has settings of the topic by Kafka's names. It is
        there when this returns."""
        from confluent_kafka.cimpl import NewTopic

        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin().create_topics([topic])[name].result(_SECONDS)

    def delete_topic(self, name: str) -> None:
        """Remove a topic; its name is free when this returns."""
        self.admin().delete_topics([name])[name].result(_SECONDS)

    def forget_before(self, topic: str, offset: int) -> None:
        """Remove the messages below `offset`, as retention would."""
        from confluent_kafka import TopicPartition

        (removed,) = self.admin().delete_records([TopicPartition(topic, 0, offset)]).values()
        removed.result(_SECONDS)

    def send(self, topic: str, key: str | None, *values: bytes | None) -> None:
        """Append messages with this `key` to partition 0, in this order; they are stored when this returns."""
        self.send_all(topic, ((key, value) for value in values))

    def send_all(self, topic: str, messages: Iterable[tuple[str | None, bytes | None]]) -> None:
        """The same with a key each."""
        from confluent_kafka import Producer

        failed: list[Any] = []

        def report(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0})
        for key, value in messages:
            producer.produce(topic, key=key, value=value, partition=0, on_delivery=report)
        left = producer.flush(_SECONDS)
        if left or failed:
            raise RuntimeError(f"{left or len(failed)} messages to {topic} were not stored: {failed[:1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    def prepare(self) -> None:
        """Make the broker's certificate, its settings and its empty log."""
        self._choose_ports()
        self._run("keytool", *_KEY, "-keystore", str(self._folder / "broker.p12"))
        export = ["-exportcert", "-rfc", "-alias", "broker", "-storepass", PASSWORD]
        self._run(
            "keytool", *export, "-keystore", str(self._folder / "broker.p12"), "-file", str(self.certificate)
        )
        tool = [*_JVM, "-cp", self._classpath, "kafka.tools.StorageTool"]
        self._run("java", *tool, "format", "--cluster-id", _CLUSTER, "--config", str(self._settings))

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(Path(java()).with_name(program)), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise ServerStartError(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def _choose_ports(self) -> None:
        self._ports = (free_port(), free_port(), free_port())
        settings = {**_settings(self._folder, *self._ports), **self._given}
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


_KEY = [
    *(
        "-genkeypair",
        "-alias",
        "broker",
        "-keyalg",
        "EC",
        "-dname",
        "CN=127.0.0.1",
        "-ext",
        "SAN=ip:127.0.0.1",
    ),
    *("-validity", "3650", "-storetype", "PKCS12", "-storepass", PASSWORD),
]


def _settings(folder: Path, port: int, secure: int, controller: int) -> dict[str, object]:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAIN://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAIN://127.0.0.1:{port},SECURE://127.0.0.1:{secure}",
        "inter.broker.listener.name": "PLAIN",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{jaas} user_{USER}="{PASSWORD}";',
        "listener.name.secure.ssl.keystore.location": folder / "broker.p12",
        "listener.name.secure.ssl.keystore.type": "PKCS12",
        "listener.name.secure.ssl.keystore.password": PASSWORD,
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 1,
        "num.io.threads": 2,
        "log.cleaner.enable": "false",
        # A broker that was killed may come back only when its old registration has expired.
        "broker.session.timeout.ms": 1_000,
        "broker.heartbeat.interval.ms": 250,
    }


def start_kafka(settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """Start a broker, with these further ``settings`` by Kafka's names; returns when it serves. Raises
    KafkaUnavailableError, ServerStartError or TimeoutError, and leaves nothing running then."""
    jars = kafka_jars()
    broker = KafkaBroker(processes.temporary_folder("kafka"), jars, settings)
    try:
        broker.prepare()
        broker.start()
    except BaseException:
        with contextlib.suppress(OSError):
            broker.stop()
        raise
    return broker


def _up_or_dead(process: GuardedProcess) -> str | None:
    if not process.alive:
        return "dead"
    return (
        "up" if process.output.exists() and _STARTED in process.output.read_text(errors="replace") else None
    )
