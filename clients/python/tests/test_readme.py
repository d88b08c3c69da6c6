"""The example of the README works."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def test_the_examples(three):
    with open(os.path.join(HERE, "..", "README.md"), encoding="utf-8") as file:
        examples = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert examples
    three.shapes["invoice"] = "INV-"
    for example in examples:
        for port, url in ((8081, three.urls[0]), (8082, three.urls[1]),
                          (9081, three.urls[0])):
            example = example.replace(f"http://127.0.0.1:{port}", url)
        run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True,
                             check=True, cwd=os.path.join(HERE, ".."))
        assert re.fullmatch("[0-9]+\n", run.stdout), run.stdout
