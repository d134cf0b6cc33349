import json
import sys
import urllib.request

mails = json.load(urllib.request.urlopen(f"http://127.0.0.1:8025/api/v1/addresses/{sys.argv[1]}/messages"))
print(*[mail["subject"] for mail in mails["messages"]])
