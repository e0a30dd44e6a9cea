import os

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True, max_examples=int(os.environ.get("EXAMPLES", "60")))
settings.load_profile("gate")
