"""A service that is told of commits, as the daemon connects it."""


def connected(storage, service, *others):
    """Tell the service, then others, of each commit; return the service."""
    for hear in (service.hear, *others):
        storage.on_committed(hear)
    return service
