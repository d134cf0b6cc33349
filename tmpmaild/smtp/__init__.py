"""The SMTP server: from bytes on a socket to ``Deliverer.deliver``, and back to replies."""

import warnings

# aiosmtpd 1.4 imports it on Python 3.15, where warnings may be errors; 3.17 no longer has it.
warnings.filterwarnings("ignore", "'typing.ByteString'", DeprecationWarning)
