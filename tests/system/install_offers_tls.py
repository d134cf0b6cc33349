import smtplib
import ssl

client = smtplib.SMTP("127.0.0.1", 25)
context = ssl.create_default_context(cafile="/etc/letsencrypt/live/tmp.example.org/fullchain.pem")
client._host = "mx.tmp.example.org"
client.starttls(context=context)
