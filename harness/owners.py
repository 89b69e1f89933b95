"""Detection of other distributions that own files of the module `harness`, or a command with that name.

pip lets a distribution overwrite the files of another one, and deletes shared files when either of them is removed.
"""

from __future__ import annotations

from importlib import metadata

_DISTRIBUTION = "lakeharness"
REMEDY = "install lakeharness in a separate environment, for example with: uv tool install lakeharness"


def other_owners() -> dict[str, str]:
    """Return the parts of `harness` that other distributions own, by distribution name and version.

    This reads the metadata of all installed distributions, so use it only for reports and errors.

    Returns:
        For each distribution, like `other 1.2`, a text that names a file, the number of further files, and the command.
    """
    owners = {}
    for distribution in metadata.distributions():
        name = distribution.name
        if name is None or name.lower() == _DISTRIBUTION:
            continue
        files = [str(file) for file in distribution.files or () if file.parts[:1] == ("harness",)]
        commands = {point.name for point in distribution.entry_points.select(group="console_scripts")}
        owned = ["the command harness"] if "harness" in commands else []
        if files:
            others = f" and {len(files) - 1} more files" if len(files) > 1 else ""
            owned.append(min(files, key=lambda file: (file.count("/"), file)) + others)
        if owned:
            owners[f"{name} {distribution.version}"] = ", ".join(owned)
    return owners


def overwritten_error(problem: str) -> ImportError | None:
    """Return the error for a module `harness` that another distribution has overwritten.

    Args:
        problem: The reason why the module does not work.

    Returns:
        The error, or None if no other distribution owns files of `harness`.
    """
    owners = "; ".join(f"{name} owns {owned}" for name, owned in other_owners().items())
    return ImportError(f"Cannot import harness: {problem}. {owners}: {REMEDY}") if owners else None
