"""What a stage's files held when it began: a stage that goes on after a kill refuses other data than that."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from burnish.core.errors import ConfigError
from burnish.core.run_folder import write_whole
from burnish.stages import training
from burnish.stages.session import Session


def keep_or_compare(session: Session, files: Mapping[str, Path]) -> None:
    """Note what the current stage's files hold; `ConfigError` where a checkpoint has learned from other content."""
    record = session.folder.path / f"{session.stage_name}.data.json"
    now = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    if not record.exists() or not training.newest_step(session):
        write_whole(record, lambda temporary: temporary.write_text(json.dumps(now, indent=1), encoding="utf-8"))
        return
    then = json.loads(record.read_text(encoding="utf-8"))
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    if changed:
        raise ConfigError(
            f"{session.stage_name}: the data are others than when this stage began: {', '.join(changed[:5])}; put them "
            "back, or start again under another name by --set name=NAME"
        )
