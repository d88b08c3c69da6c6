"""The examples of the README work."""
import importlib.util
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
# What stands before and after an example for a framework: it saves a row, and prints its id.
FRAMES = {
    "django": ("""
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3",
                                          "NAME": ":memory:"}})
import django
django.setup()
""", """
    class Meta:
        app_label = "shop"

from django.db import connection
with connection.schema_editor() as editor:
    editor.create_model(Order)
first, second = Order.objects.create(), Order.objects.create()
assert second.id == first.id + 1 and Order.objects.count() == 2
print(first.id)
"""),
    "sqlalchemy": ("", """
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
engine = create_engine("sqlite://")
Order.metadata.create_all(engine)
with Session(engine) as session:
    first, second = Order(), Order()
    session.add_all([first, second])
    session.commit()
    assert abs(second.id - first.id) == 1 and session.query(Order).count() == 2
    print(first.id)
"""),
}


def examples():
    with open(os.path.join(HERE, "..", "README.md"), encoding="utf-8") as file:
        found = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(found) == 6
    return found


@pytest.mark.parametrize("example", examples(), ids=range(6))
def test_an_example(three, example):
    framework = next((name for name in FRAMES if f"from {name}" in example), None)
    if framework is not None:
        if importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed: scripts/setup clients")
        before, after = FRAMES[framework]
        example = before + example + after
    three.shapes["invoice"] = "INV-"
    for port, url in ((8081, three.urls[0]), (8082, three.urls[1]), (9081, three.urls[0])):
        example = example.replace(f"http://127.0.0.1:{port}", url)
    run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True,
                         cwd=os.path.join(HERE, ".."))
    assert run.returncode == 0, run.stderr
    assert re.fullmatch("[0-9]+\n", run.stdout), run.stdout
