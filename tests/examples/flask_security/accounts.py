"""A Flask application with Flask-Security, with its users in memory; a link in a message confirms an address."""

from dataclasses import dataclass, field
from datetime import datetime

from flask import Flask
from flask_mailman import Mail
from flask_security import RoleMixin, Security, UserDatastore, UserMixin
from flask_security.datastore import Datastore


@dataclass(eq=False)
class User(UserMixin):
    email: str = ""
    password: str = ""
    fs_uniquifier: str = ""
    active: bool = True
    confirmed_at: datetime | None = None
    roles: list = field(default_factory=list)


class InMemory(Datastore):
    def put(self, model):
        if model not in self.db:
            self.db.append(model)
        return model


class Users(UserDatastore, InMemory):
    def __init__(self):
        InMemory.__init__(self, [])
        UserDatastore.__init__(self, User, RoleMixin)

    def find_user(self, case_insensitive=False, **wanted):
        return next((user for user in self.db if wanted.items() <= vars(user).items()), None)


def create_app(smtp_host, smtp_port):
    app = Flask(__name__)
    app.config |= {
        "TESTING": True,
        "SECRET_KEY": "only for this example",
        "SECURITY_PASSWORD_SALT": "likewise",
        "SECURITY_PASSWORD_HASH": "plaintext",
        "SECURITY_PASSWORD_SCHEMES": ["plaintext"],
        "SECURITY_REGISTERABLE": True,
        "SECURITY_CONFIRMABLE": True,
        "SECURITY_EMAIL_SENDER": "shop@shop.example",
        "WTF_CSRF_ENABLED": False,
        # Settings for tests with tmpmaild:
        "SECURITY_EMAIL_VALIDATOR_ARGS": {"check_deliverability": False},
        "MAIL_BACKEND": "smtp",
        "MAIL_SERVER": smtp_host,
        "MAIL_PORT": smtp_port,
    }
    Mail(app)
    Security(app, Users())
    return app
