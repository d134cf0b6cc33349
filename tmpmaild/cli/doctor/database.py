"""Checks of the operator's inbox, and of the durability, the log and the capacity of a PostgreSQL server."""

from collections.abc import Iterator, Mapping
from typing import Final

from tmpmaild.cli.doctor import Result, ok, problem, warning
from tmpmaild.errors import StartError
from tmpmaild.model import counted
from tmpmaild.storage import engines
from tmpmaild.storage.engines import PostgresqlSettings, ServerFacts, Settings

CONNECTIONS_OF_A_DAEMON = 8
_SERVER, _SCHEMA, _ROLE, _STANDBY = "database server", "database schema", "database role", "standby"
_LOG, _CONNECTIONS, _CLOCK, _TLS = "database log", "database connections", "database clock", "database TLS"
_VACUUM = "database vacuum"
_MIB = 1 << 20
_LENGTH = "log_parameter_max_length"
_LOGGING: Final = {
    "log_statement": (_LENGTH, "none", "ddl"),
    "log_min_duration_statement": (_LENGTH, "-1"),
    "log_min_duration_sample": (_LENGTH, "-1"),
    "log_transaction_sample_rate": (_LENGTH, "0"),
    "log_parameter_max_length_on_error": ("", "0"),
    "auto_explain.log_min_duration": ("auto_explain.log_parameter_max_length", "-1"),
    "pgaudit.log_parameter": ("", "off"),
}
"""Settings that log parameters, each with the setting that prevents this if it is 0, and with harmless values.

The first harmless value is the default. A module that is not loaded has no settings.
"""
_CLOCK_SECONDS = 2.0
_POSTMASTER: Final = "postmaster"
_POSTMASTER_SHARE: Final = 0.8


def check(settings: PostgresqlSettings) -> Iterator[Result]:
    """Connect to the database as a daemon does, and check the server's settings."""
    try:
        found = engines.server_facts(settings)
    except StartError as error:
        yield problem(_SERVER, str(error), f"correct {at_fault(str(error))} (docs/scaling.md)")
        return
    size = found.database_bytes // _MIB
    yield ok(_SERVER, f"{settings.name}: PostgreSQL {found.version}, fsync and synchronous_commit on, {size} MiB")
    yield schema(found)
    yield role(found)
    yield standby(found, len(settings.url.hosts))
    yield log(found.settings)
    yield from vacuum(found.settings)
    yield connections(found)
    yield clock(found)
    yield from tls(found, dict(settings.url.tls).get("sslmode", "prefer"))


def operator_box(settings: Settings) -> Iterator[Result]:
    """Warn before the inbox of postmaster and abuse is full; another check reports an unreadable database."""
    try:
        box = engines.operator_mail(settings).box()
    except StartError:
        return
    text = f"{counted(len(box.entries), 'message')}, {box.used_share:.0%} of the available space"
    if box.used_share < _POSTMASTER_SHARE:
        yield ok(_POSTMASTER, text)
        return
    network, messages = box.largest_network()
    text += f", {messages} from {network}; when the inbox is full, the largest sender's oldest messages are deleted"
    yield warning(_POSTMASTER, text, "tmpmaild postmaster, then tmpmaild postmaster --delete ID or --delete --all")


def at_fault(reason: str) -> str:
    """Return the setting that should be corrected, based on the reason why a connection failed."""
    if "(storage.password_file)" in reason:
        return "this setting"
    return "the password in storage.password_file" if "password" in reason else "storage.url, or the server"


def schema(found: ServerFacts) -> Result:
    """Report the schema of the database."""
    if found.schema_refusal:
        return problem(_SCHEMA, found.schema_refusal, "until this is corrected, no daemon starts")
    if found.schema_step is None:
        return warning(_SCHEMA, "does not exist yet", "the first tmpmaild serve creates it; so does tmpmaild migrate")
    if found.schema_step < found.known_step:
        text = f"step {found.schema_step} of {found.known_step}"
        return warning(_SCHEMA, text, "run tmpmaild migrate, or let the next tmpmaild serve upgrade it")
    return ok(_SCHEMA, f"step {found.schema_step}")


def role(found: ServerFacts) -> Result:
    """Check whether the role has exactly the rights it needs."""
    if found.is_superuser:
        return warning(
            _ROLE,
            "a superuser, which has more rights than tmpmaild needs",
            "use a role that owns the database and has no other rights",
        )
    if found.schema_step is None and not found.may_create:
        return problem(_ROLE, "may not create tables", "ALTER DATABASE … OWNER TO …")
    if not found.is_owner:
        text = "does not own the database, so it may be unable to change the schema"
        return warning(_ROLE, text, "ALTER DATABASE … OWNER TO …")
    if found.others_may_create:  # for example, if the cluster was upgraded from PostgreSQL 14 or earlier
        text = "any other role can create functions in the schema, which could run instead of tmpmaild's own"
        return warning(_ROLE, text, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    if found.others_may_connect:
        text = "any other role of the server can connect to the database, and delay streams and upgrades"
        return warning(_ROLE, text, "REVOKE CONNECT ON DATABASE … FROM PUBLIC")
    return ok(_ROLE, "owns the database, and is not a superuser")


def standby(found: ServerFacts, hosts: int) -> Result:
    """Report which failures an acknowledged message survives."""
    if not found.standby_names and hosts > 1:
        text = "synchronous_standby_names is empty, so after a failover the standby may lack acknowledged mail"
        return warning(_STANDBY, text, "list the standbys there (docs/scaling.md)")
    if not found.standby_names:
        return ok(_STANDBY, "commits do not wait for a standby; mail is as safe as this server's disk")
    if not found.standbys:
        text = f"{found.standby_names}: no standby is connected, so every commit waits and no mail is accepted"
        return problem(_STANDBY, text, "start a standby")
    return ok(_STANDBY, f"commits wait for {found.standby_names}; {found.standbys} connected")


def log(settings: Mapping[str, str]) -> Result:
    """Report settings that make the server log statement parameters, which contain mail."""
    found = [
        f"{name} = {settings[name]}"
        for name, (length, *harmless) in sorted(_LOGGING.items())
        if settings.get(name, harmless[0]) not in harmless and settings.get(length) != "0"
    ]
    if not found:
        return ok(_LOG, "contains no mail: the server does not log statement parameters")
    advice = "log_parameter_max_length = 0, log_parameter_max_length_on_error = 0; also for auto_explain and pgaudit"
    return problem(_LOG, f"{', '.join(found)}: the server writes mail to its log, where it remains", advice)


def vacuum(settings: Mapping[str, str]) -> Iterator[Result]:
    """Warn if the database files would grow without limit."""
    if settings.get("autovacuum") == "off":
        text = "autovacuum is off: the files grow with every change, regardless of storage.max_bytes"
        yield warning(_VACUUM, text, "autovacuum = on")


def connections(found: ServerFacts) -> Result:
    """Check whether the server has enough free connections for one more daemon."""
    text = f"{found.free_connections} free, {found.daemons_connections} used by daemons"
    if found.free_connections < CONNECTIONS_OF_A_DAEMON:
        return warning(
            _CONNECTIONS,
            f"{text}; a daemon opens up to {CONNECTIONS_OF_A_DAEMON}",
            "raise max_connections or the limit of the role or the database",
        )
    return ok(_CONNECTIONS, text)


def clock(found: ServerFacts) -> Result:
    """Compare the server's clock, which lifetimes follow, with this machine's clock, used for logs and certificates."""
    ahead = found.clock_ahead_seconds
    if abs(ahead) < _CLOCK_SECONDS:
        return ok(_CLOCK, f"matches this machine's, within {_CLOCK_SECONDS:.0f} s")
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's; lifetimes follow the server's"
    return warning(_CLOCK, text, "synchronise both clocks with chrony or systemd-timesyncd")


def tls(found: ServerFacts, mode: str) -> Iterator[Result]:
    """Check whether mail is encrypted in transit to a server on a different machine."""
    if not found.is_remote:
        return
    if not found.has_tls:
        yield warning(
            _TLS, "not used, so mail is sent to the server in clear text", "?sslmode=verify-full in storage.url"
        )
    elif not mode.startswith("verify-"):
        text = f"sslmode is {mode}: an attacker on the network can impersonate the server"
        yield warning(_TLS, text, "?sslmode=verify-full&sslrootcert=… in storage.url")
    else:
        yield ok(_TLS, f"sslmode is {mode}")
