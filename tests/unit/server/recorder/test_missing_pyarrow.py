"""A recorder asked for without the extra that it needs."""

import subprocess
import sys

WITHOUT_PYARROW = "import sys; sys.modules['pyarrow'] = None; from midge.cli import main; "


def test_the_extra_is_named_in_one_line_and_nothing_starts(tmp_path):
    words = ["midge", "serve", "-a", "127.0.0.1", "-p", "-1", "--record", str(tmp_path / "records")]
    done = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT_PYARROW}sys.argv = {words!r}; sys.exit(main())"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "recording needs the module 'pyarrow'; python -m pip install 'pyarrow" in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "records").exists()
