"""The SMTP server: passes the messages received on a socket to ``Deliverer.deliver``, and sends the replies."""

import warnings

# aiosmtpd 1.4 imports ByteString on Python 3.15, where warnings may be errors. Python 3.17 no longer has it.
warnings.filterwarnings("ignore", "'typing.ByteString'", DeprecationWarning)
