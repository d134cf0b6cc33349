"""What words can tell about the numbers around them; which words do is in ``words.py``."""

from enum import IntEnum, auto


class Cue(IntEnum):
    """What a word tells about the numbers around it; integers, because an Enum takes long to hash."""

    OTP = auto()
    """Names a one-time password or verification code, all by itself."""

    CODE = auto()
    """Names a code of whatever kind."""

    COMPOUND = auto()
    """May name a code together with what qualifies it or is said of it: a word of German that ends in "code"."""

    PASSWORD = auto()
    """Names a password; next to ONCE, a one-time password."""

    ONCE = auto()
    """Says of a password or code that it is for one time or a short time."""

    VERIFY = auto()
    """Belongs to verification and to hardly anything else."""

    DELIVERY = auto()
    """Right next to CODE, makes it one that the recipient tells the courier."""

    CONFIRM = auto()
    """Belongs to verification, and to other business too."""

    ENTER = auto()
    """What one does with a code."""

    ENTERED = auto()
    """Is ENTER where verbs stand at the end."""

    HINT = auto()
    """Is said about such a code: for how many minutes, whom not to tell, not to mind it."""

    LASTS = auto()
    """Is said about whatever has an end."""

    AUTHORIZE = auto()
    """Belongs to verification when it is about to happen, to receipts when it has happened."""

    LABEL = auto()
    """Names another number; next to CODE, another kind of code."""

    NUMBER = auto()
    """"Number": names another number, but next to VERIFY a code."""

    DIGITS = auto()
    """Says of what a number is made; to be entered, a code."""

    FOLLOWING = auto()
    """Points at what stands below; next to NUMBER, at a code."""

    ASKED = auto()
    """A password, number or token that one is asked to enter: a code where something is verified."""

    PARCEL = auto()
    """Says that a mail is about a parcel, and that a box with a code may hold it."""

    PREMISES = auto()
    """Doors, boxes and networks: their codes stay, unless a parcel waits behind them."""

    OPENING = auto()
    """Opens a door, a box or an account: of a code, that of a parcel's box."""

    THING = auto()
    """What a code may be for and what has a number of its own."""

    TRADE = auto()
    """Coupons, bookings, meetings, receipts: business with codes of its own."""

    OLD = auto()
    """Says of a code that it no longer counts."""

    UNIT = auto()
    """Makes the number before it an amount."""

    IS = auto()
    """Stands between a name and its value."""
