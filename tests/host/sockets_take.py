import json
import os
import sys

from tmpmaild.errors import ConfigError
from tmpmaild.host.sockets import take_passed

for place, descriptor in enumerate(json.loads(sys.argv[1]), 3):
    os.dup2(descriptor, place)
os.environ["LISTEN_PID"] = str(os.getpid())

try:
    passed = take_passed(os.environ)
except ConfigError as error:
    sys.exit("\n".join(error.mistakes))
left = [name for name in os.environ if name.startswith("LISTEN_")]
bare = {name: [[one.fileno(), one.get_inheritable(), one.family] for one in some] for name, some in passed.items()}
print(json.dumps([bare, left]))
