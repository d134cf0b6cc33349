import os
import runpy
import sys


class Killer:
    def find_spec(self, name, _path, _target=None):
        if name == "tmpmaild.cli.main":
            os.kill(os.getpid(), int(sys.argv.pop()))


sys.meta_path.insert(0, Killer())
runpy.run_module("tmpmaild", run_name="__main__", alter_sys=True)
