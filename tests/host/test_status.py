"""The status of a service, computed from its metrics."""

from tmpmaild.host.status import NoArguments, Served, StatusReport
from tmpmaild.metrics import Count, Gauge

NAMES = (
    *("storage_inboxes", "storage_messages", "storage_used_bytes", "storage_max_bytes", "smtp_sessions"),
    *("http_connections", "http_streams", "sweep_age_seconds"),
    *("http_unreadable_forwarded_for_total", "http_untrusted_forwarded_for_total"),
)


def report(reason=""):
    mails = Count("smtp_mails_total", "", ("result", "status"))
    mails.add("accepted", "2.0.0", by=5)
    mails.add("refused", "4.3.1", by=2)
    mails.add("refused", "5.1.1")
    counts = (mails, Count("smtp_refusals_total", "", ("code",)), Count("http_requests_total", "", ("status",)))
    unknown = Gauge("storage_free_disk_bytes", "", dict)
    metrics = [*counts, unknown, *(Gauge(name, "", lambda: 1) for name in NAMES)]
    return StatusReport(metrics, lambda: reason, Served(["a.example"], [], [], [], []))


async def status(of):
    (one,) = [one async for one in of.commands()["status"].run(NoArguments())]
    return one


async def test_counts_are_summed_by_their_first_label_and_missing_or_unknown_numbers_are_none():
    numbers = (await status(report())).numbers
    assert (numbers.mails_accepted, numbers.mails_refused, numbers.smtp_refusals) == (5, 3, 0)
    assert (numbers.free_disk_bytes, numbers.wal_bytes) == (None, None)


async def test_it_is_ready_unless_there_is_a_reason():
    assert (await status(report())).ready is True
    found = await status(report("storage full"))
    assert (found.ready, found.reason) == (False, "storage full")


async def test_changed_domains_are_shown():
    changed = report()
    changed.reloaded(["b.example"], [])
    assert (await status(changed)).served.domains == ["b.example"]
