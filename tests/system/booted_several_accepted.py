import re
import sys
import time
import urllib.request

for number in sys.argv[1:]:
    count = re.compile(r'^tmpmaild_smtp_mails_total[{]result="accepted".*[}] ([0-9.]+)$', re.MULTILINE)
    while not count.search(urllib.request.urlopen(f"http://127.0.0.1:902{number}/metrics").read().decode()):
        time.sleep(0.1)
