"""Header fields that every answer carries."""

CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
# A cached 404 would outlive the creation of the name.
UNCACHED = (b"cache-control", b"no-store")
UNCACHED_PATHS = ("/api/", "/view/")
