"""The operator's inbox; the PostgreSQL server: whether it keeps mail, what it writes into its log, and its room."""

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
"""By which settings parameters are logged: the setting that keeps them out where it is 0, and the harmless values.

The first of these is the default; of a module that is not loaded there are no settings.
"""
_CLOCK_SECONDS = 2.0
_POSTMASTER: Final = "postmaster"
_POSTMASTER_SHARE: Final = 0.8


def check(settings: PostgresqlSettings) -> Iterator[Result]:
    """Connect to the database as a daemon does, and look at how the server is set."""
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
    """Warn before the inbox of postmaster and abuse is full; a database that cannot be read is reported elsewhere."""
    try:
        box = engines.operator_mail(settings).box()
    except StartError:
        return
    text = f"{counted(len(box.held), 'message')}, {box.used_share:.0%} of the room"
    if box.used_share < _POSTMASTER_SHARE:
        yield ok(_POSTMASTER, text)
        return
    network, messages = box.largest_network()
    text = f"{text}, {messages} from {network}; when it is full, the oldest messages of the largest sender are deleted"
    yield warning(_POSTMASTER, text, "tmpmaild postmaster, then tmpmaild postmaster --delete ID or --delete --all")


def at_fault(reason: str) -> str:
    """Return what must be corrected when a daemon could not connect."""
    return "the password in storage.password_file" if "password" in reason else "storage.url, or the server"


def schema(found: ServerFacts) -> Result:
    """Report the schema that the database has."""
    if found.schema_refusal:
        return problem(_SCHEMA, found.schema_refusal, "a daemon does not start")
    if found.schema_step is None:
        return warning(_SCHEMA, "none yet", "the first tmpmaild serve creates it, or tmpmaild migrate")
    if found.schema_step < found.known_step:
        text = f"step {found.schema_step} of {found.known_step}"
        return warning(_SCHEMA, text, "tmpmaild migrate, or the next tmpmaild serve")
    return ok(_SCHEMA, f"step {found.schema_step}")


def role(found: ServerFacts) -> Result:
    """Check whether the role has the rights it needs, and no more."""
    if found.is_superuser:
        return warning(_ROLE, "a superuser, who may do more than tmpmaild needs", "a role that owns the database only")
    if found.schema_step is None and not found.may_create:
        return problem(_ROLE, "may not create tables", "ALTER DATABASE … OWNER TO …")
    if not found.is_owner:
        text = "does not own the database, so that it may not be able to change the schema"
        return warning(_ROLE, text, "ALTER DATABASE … OWNER TO …")
    if found.others_may_create:  # as in a cluster that was upgraded from one older than 15
        text = "every other role may create functions in its schema, which would run in place of tmpmaild's own"
        return warning(_ROLE, text, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    if found.others_may_connect:
        text = "every other role of the server may connect to the database, and there hold up streams and upgrades"
        return warning(_ROLE, text, "REVOKE CONNECT ON DATABASE … FROM PUBLIC")
    return ok(_ROLE, "owns the database, and is no superuser")


def standby(found: ServerFacts, hosts: int) -> Result:
    """Report what an acknowledged mail survives."""
    if not found.standby_names and hosts > 1:
        text = "synchronous_standby_names is empty, so a standby that takes over may lack mail that was acknowledged"
        return warning(_STANDBY, text, "name the standbys there (docs/scaling.md)")
    if not found.standby_names:
        return ok(_STANDBY, "none is waited for; the mail is as safe as the disk of this server")
    if not found.standbys:
        text = f"{found.standby_names}: none is connected, so each commit waits and no mail is accepted"
        return problem(_STANDBY, text, "start a standby")
    return ok(_STANDBY, f"{found.standby_names}: waited for; {found.standbys} connected")


def log(settings: Mapping[str, str]) -> Result:
    """Name the settings by which the server writes mail into its own log: mail is in the parameters of statements."""
    found = [
        f"{name} = {settings[name]}"
        for name, (length, *harmless) in sorted(_LOGGING.items())
        if settings.get(name, harmless[0]) not in harmless and settings.get(length) != "0"
    ]
    if not found:
        return ok(_LOG, "holds no mail: the server logs no parameters of statements")
    advice = "log_parameter_max_length = 0, log_parameter_max_length_on_error = 0; of auto_explain and pgaudit as well"
    return problem(_LOG, f"{', '.join(found)}: the server writes mail into its log, where it stays", advice)


def vacuum(settings: Mapping[str, str]) -> Iterator[Result]:
    """Warn where the files of the database grow without end."""
    if settings.get("autovacuum") == "off":
        text = "autovacuum is off: the files grow with each change, whatever storage.max_bytes says"
        yield warning(_VACUUM, text, "autovacuum = on")


def connections(found: ServerFacts) -> Result:
    """Check whether another daemon could connect."""
    text = f"{found.free_connections} free, {found.daemons_connections} of daemons"
    if found.free_connections < CONNECTIONS_OF_A_DAEMON:
        return warning(
            _CONNECTIONS, f"{text}; a daemon opens up to {CONNECTIONS_OF_A_DAEMON}", "raise max_connections, or a limit"
        )
    return ok(_CONNECTIONS, text)


def clock(found: ServerFacts) -> Result:
    """Compare the clocks. Lifetimes go by the server's, logs and the certificate by this machine's."""
    ahead = found.clock_ahead_seconds
    if abs(ahead) < _CLOCK_SECONDS:
        return ok(_CLOCK, f"as this machine's, within {_CLOCK_SECONDS:.0f} s")
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's; lifetimes go by the server's"
    return warning(_CLOCK, text, "synchronise both, by chrony or systemd-timesyncd")


def tls(found: ServerFacts, mode: str) -> Iterator[Result]:
    """Check whether mail is protected on its way to a server on another machine."""
    if not found.is_remote:
        return
    if not found.has_tls:
        yield warning(_TLS, "none, so mail goes to the server in clear text", "?sslmode=verify-full in storage.url")
    elif not mode.startswith("verify-"):
        text = f"sslmode is {mode}: anybody in between can pretend to be the server"
        yield warning(_TLS, text, "?sslmode=verify-full&sslrootcert=… in storage.url")
    else:
        yield ok(_TLS, f"sslmode is {mode}")
