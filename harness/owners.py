"""Other distributions that own files of the module `harness`, or a command of that name.

pip lets a distribution overwrite the files of another one, and removes shared files with either of them.
"""

from __future__ import annotations

from importlib import metadata

_DISTRIBUTION = "lakeharness"
REMEDY = "install lakeharness in an environment of its own, such as by: uv tool install lakeharness"


def other_owners() -> dict[str, str]:
    """Return what each other distribution owns of `harness`, by the distribution's name and version.

    This reads the metadata of all installed distributions, so it is only for reports and errors.
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
    """Return the error for a module `harness` that another distribution has overwritten, or None if there is no other.

    Args:
        problem: The reason why the module does not work.
    """
    owners = "; ".join(f"{name} owns {owned}" for name, owned in other_owners().items())
    return ImportError(f"Cannot import harness: {problem}. {owners}: {REMEDY}") if owners else None
