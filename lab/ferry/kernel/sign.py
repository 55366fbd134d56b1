# SPDX-License-Identifier: GPL-2.0
"""Sign a kernel's package for Secure Boot, with a key that the machine's owner has enrolled (mokutil)."""

import hashlib
import re
import tempfile
from pathlib import Path

from ferry import files, paths, proc
from ferry.errors import FerryError, UsageError

PACKAGES = ("sbsigntool", "openssl")
# Each build has a key of its own for its modules, which the signed image trusts.
OPTIONS = {
    "CONFIG_MODULE_SIG": "y",
    "CONFIG_MODULE_SIG_ALL": "y",
    "CONFIG_MODULE_SIG_KEY": '"certs/signing_key.pem"',
}


def check_key(key: str) -> Path:
    """The file of a key; raises UsageError unless it holds what sbsign needs."""
    path = Path(key).resolve()
    text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    missing = [name for name in ("PRIVATE KEY", "CERTIFICATE") if f"{name}-----" not in text]
    if missing:
        raise UsageError(
            f"{key} has no {' and no '.join(missing)} in PEM: docs/operator.md says how to make one"
        )
    return path


def package(deb: Path, key: Path) -> None:
    """Sign the kernel in a package, in its place."""
    with tempfile.TemporaryDirectory(prefix="sign-", dir=paths.BUILD) as folder:
        root = Path(folder, "package")
        proc.run(["dpkg-deb", "-R", deb, root], title="unpack the kernel's package")
        images = sorted((root / "boot").glob("vmlinuz-*"))
        if len(images) != 1:
            raise FerryError(f"{deb} has {len(images)} kernels in boot/")
        proc.run(["sbsign", "--key", key, "--cert", key, "--output", images[0], images[0]], title="sign it")
        proc.run(["sbverify", "--cert", key, images[0]], title="verify the signature")
        _sums(root, images[0])
        proc.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], title="make the package again")


def _sums(root: Path, changed: Path) -> None:
    """The package's own list of digests has the signed kernel's."""
    listed = root / "DEBIAN/md5sums"
    text = files.read(listed)
    if text is None:
        return
    name = str(changed.relative_to(root))
    digest = hashlib.md5(changed.read_bytes(), usedforsecurity=False).hexdigest()
    files.write(listed, re.sub(rf"^\S+(?=  {re.escape(name)}$)", digest, text, flags=re.MULTILINE))
