"""Settings of a Django project that signs its messages; the key is the example in RFC 8463."""

SECRET_KEY = "only for this example"
EMAIL_BACKEND = "signed_mail.EmailBackend"
DKIM_KEY = b"nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
