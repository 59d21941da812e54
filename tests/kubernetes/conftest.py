import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "flow")]
from tally import absent, found, load, pytest_sessionfinish  # noqa: E402,F401  (its folder is known only now)

flow = load(HERE.parent / "flow/conftest.py", "flow_conftest")
