import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_code_on_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
