import secrets
import smtplib
from email.message import EmailMessage

from flask import Flask, request

SIGN_UP = """<form method=post action=sign-up>
<label>E-mail <input name=email></label> <button>Sign up</button></form>"""
CONFIRM = """<form method=post action=confirm><input type=hidden name=email value="{}">
<label>Code <input name=code></label> <button>Confirm</button></form>"""


def create_app(smtp_host, smtp_port):
    app = Flask(__name__)
    codes = {}

    @app.get("/")
    def form():
        return SIGN_UP

    @app.post("/sign-up")
    def sign_up():
        address = request.form["email"]
        codes[address] = f"{secrets.randbelow(1_000_000):06}"
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", address, "Confirm your address"
        mail.set_content(f"Your verification code is {codes[address]}.")
        with smtplib.SMTP(smtp_host, smtp_port, local_hostname="shop.example") as server:
            server.send_message(mail)
        return CONFIRM.format(address)

    @app.post("/confirm")
    def confirm():
        if codes.get(request.form["email"]) != request.form["code"]:
            return "Wrong code.\n", 403
        return "You are in.\n"

    return app
