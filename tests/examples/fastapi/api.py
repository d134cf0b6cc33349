"""A FastAPI application with fastapi-users, with its users in memory; a link in a message verifies an address."""

import uuid
from dataclasses import dataclass
from email.message import EmailMessage

import aiosmtplib
from fastapi import FastAPI
from fastapi_users import BaseUserManager, FastAPIUsers, UUIDIDMixin, schemas
from fastapi_users.db import BaseUserDatabase

SECRET = "only for this example, and longer than thirty-two octets"


@dataclass
class User:
    id: uuid.UUID
    email: str
    hashed_password: str
    is_active: bool = True
    is_superuser: bool = False
    is_verified: bool = False


class Users(BaseUserDatabase):
    def __init__(self):
        self.users = {}

    async def get(self, id):
        return self.users.get(id)

    async def get_by_email(self, email):
        return next((user for user in self.users.values() if user.email == email), None)

    async def create(self, create_dict):
        user = User(uuid.uuid4(), **create_dict)
        self.users[user.id] = user
        return user

    async def update(self, user, update_dict):
        for name, value in update_dict.items():
            setattr(user, name, value)
        return user


class UserManager(UUIDIDMixin, BaseUserManager):
    verification_token_secret = reset_password_token_secret = SECRET

    def __init__(self, users, smtp):
        super().__init__(users)
        self.smtp_host, self.smtp_port = smtp

    async def on_after_register(self, user, request=None):
        await self.request_verify(user, request)

    async def on_after_request_verify(self, user, token, request=None):
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", user.email, "Confirm your address"
        mail.set_content(f"Welcome! Please confirm your address:\nhttps://shop.example/verify?token={token}\n")
        await aiosmtplib.send(mail, hostname=self.smtp_host, port=self.smtp_port, local_hostname="shop.example")


def create_app(smtp_host, smtp_port):
    app = FastAPI()
    users = Users()
    api = FastAPIUsers(lambda: UserManager(users, (smtp_host, smtp_port)), [])
    app.include_router(api.get_register_router(schemas.BaseUser[uuid.UUID], schemas.BaseUserCreate))
    app.include_router(api.get_verify_router(schemas.BaseUser[uuid.UUID]))
    return app
