"""The writer: what it recognises, what it changes, and that it leaves no file half written."""

import multiprocessing
import os
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from opgen import output
from opgen.folder_lock import LockTimeoutError, _create_lock_file, locked
from opgen.manifest import HEADER, INDEX, MANIFEST, Manifest, describe, parse_manifest
from opgen.output import ChangeKind, DriftKind, OutputError, Partly, compare, create_file, replace_file, write

Build = tuple[tuple[str, str], ...]


def build_of(texts: Mapping[str, str], *, generator: str | None = None) -> Build:
    """The files of a build; `a.py` comes from `specs/a.op`, a name with a leading underscore from no spec."""
    modules = tuple(sorted(Path(path).stem for path in texts if path[0] != "_" and "/" not in path))
    files = [
        (
            path,
            index_of(modules) if path == INDEX else f"{HEADER}\n{text}\n",
            None if path.startswith("_") else f"specs/{Path(path).stem}.op",
        )
        for path, text in texts.items()
    ]
    manifest = describe(files)
    if generator is not None:
        manifest = Manifest(generator, manifest.entries)
    return (*((path, text) for path, text, _ in files), (MANIFEST, manifest.text()))


#: Two specs, a test of one, and files that come from no single spec.
AB = build_of({"a.py": "a = 1", "b.py": "b = 1", "_runtime.py": "r = 1", "tests/a.py": "t = 1"})


def kinds(changes: tuple[output.Change, ...]) -> dict[str, ChangeKind]:
    return {change.path: change.kind for change in changes}


def index_of(modules: tuple[str, ...]) -> str:
    return f"{HEADER}\n{', '.join(modules)}\n"


def only(*specs: str) -> Partly:
    return Partly(specs, index_of)


def drifts(root: Path, files: Build, partly: Partly | None = None) -> dict[str, DriftKind]:
    return {drift.path: drift.kind for drift in compare(root, files, partly)}


def recorded(root: Path) -> set[str]:
    return {entry.path for entry in parse_manifest((root / MANIFEST).read_text()).entries}


# --- whole builds -------------------------------------------------------------------------------


def test_first_build_creates_everything(tmp_path: Path) -> None:
    root = tmp_path / "generated"
    assert set(drifts(root, AB).values()) == {DriftKind.MISSING}
    assert not root.exists()  # a comparison writes nothing
    assert set(kinds(write(root, AB)).values()) == {ChangeKind.CREATED}
    assert {path: (root / path).read_text() for path, _ in AB} == dict(AB)
    assert drifts(root, AB) == {}


def test_second_build_touches_nothing(tmp_path: Path) -> None:
    write(tmp_path, AB)
    before = {path: (tmp_path / path).stat() for path, _ in AB}
    assert set(kinds(write(tmp_path, AB)).values()) == {ChangeKind.UNCHANGED}
    after = {path: (tmp_path / path).stat() for path, _ in AB}
    assert {p: (s.st_ino, s.st_mtime_ns) for p, s in before.items()} == {
        p: (s.st_ino, s.st_mtime_ns) for p, s in after.items()
    }


def test_changed_spec_makes_its_file_stale(tmp_path: Path) -> None:
    write(tmp_path, AB)
    new = build_of({"a.py": "a = 2", "b.py": "b = 1", "_runtime.py": "r = 1", "tests/a.py": "t = 1"})
    assert drifts(tmp_path, new) == {"a.py": DriftKind.STALE, MANIFEST: DriftKind.STALE}
    (drift, _) = compare(tmp_path, new)
    assert "-a = 1" in drift.diff.splitlines()
    assert "+a = 2" in drift.diff.splitlines()
    changes = kinds(write(tmp_path, new))
    assert {p for p, kind in changes.items() if kind is ChangeKind.UPDATED} == {"a.py", MANIFEST}


def test_edit_by_hand_is_told_apart_and_overwritten(tmp_path: Path) -> None:
    write(tmp_path, AB)
    (tmp_path / "a.py").write_text(f"{HEADER}\na = 99\n")
    assert drifts(tmp_path, AB) == {"a.py": DriftKind.EDITED}
    changed = [change for change in write(tmp_path, AB) if change.kind is not ChangeKind.UNCHANGED]
    assert [(change.path, change.kind, change.edited) for change in changed] == [
        ("a.py", ChangeKind.UPDATED, True)
    ]
    assert drifts(tmp_path, AB) == {}


def test_long_diff_is_cut(tmp_path: Path) -> None:
    write(tmp_path, build_of({"a.py": "\n".join(f"x{i} = 0" for i in range(500))}))
    new = build_of({"a.py": "\n".join(f"x{i} = 1" for i in range(500))})
    (drift, _) = compare(tmp_path, new)
    lines = drift.diff.splitlines()
    assert len(lines) == output.DIFF_LINES + 1
    assert lines[-1].startswith("… and ")


@pytest.mark.parametrize("damage", [b"", b"\0" * 200, b"\xff\xfe"])
def test_damaged_file_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    write(tmp_path, AB)
    (tmp_path / "a.py").write_bytes(damage)
    assert drifts(tmp_path, AB) == {"a.py": DriftKind.EDITED}
    write(tmp_path, AB)
    assert (tmp_path / "a.py").read_text() == dict(AB)["a.py"]


@pytest.mark.parametrize("keep", [0, 5, 20, 40, 120])
def test_cut_manifest_is_rebuilt(tmp_path: Path, keep: int) -> None:
    write(tmp_path, AB)
    (tmp_path / MANIFEST).write_bytes((tmp_path / MANIFEST).read_bytes()[:keep])
    write(tmp_path, AB)
    assert drifts(tmp_path, AB) == {}


def test_changed_line_ends_are_no_drift(tmp_path: Path) -> None:
    write(tmp_path, AB)
    for path, text in AB:
        (tmp_path / path).write_bytes(text.replace("\n", "\r\n").encode())
    assert drifts(tmp_path, AB) == {}


# --- orphans ------------------------------------------------------------------------------------


A = build_of({"a.py": "a = 1", "_runtime.py": "r = 1", "tests/a.py": "t = 1"})


def test_orphan_is_removed(tmp_path: Path) -> None:
    write(tmp_path, AB)
    assert drifts(tmp_path, A) == {"b.py": DriftKind.ORPHAN, MANIFEST: DriftKind.STALE}
    assert kinds(write(tmp_path, A))["b.py"] is ChangeKind.REMOVED
    assert not (tmp_path / "b.py").exists()
    assert drifts(tmp_path, A) == {}


def test_edited_orphan_is_kept_and_reported_again(tmp_path: Path) -> None:
    write(tmp_path, AB)
    (tmp_path / "b.py").write_text(f"{HEADER}\nb = 99\n")
    for _ in range(2):
        assert kinds(write(tmp_path, A))["b.py"] is ChangeKind.KEPT
        assert (tmp_path / "b.py").read_text() == f"{HEADER}\nb = 99\n"
        assert drifts(tmp_path, A) == {"b.py": DriftKind.ORPHAN}


def test_file_with_our_header_that_no_manifest_lists_is_kept_and_reported(tmp_path: Path) -> None:
    write(tmp_path, A)
    (tmp_path / "tests/old.py").write_text(f"{HEADER}\nold = 1\n")
    assert drifts(tmp_path, A) == {"tests/old.py": DriftKind.ORPHAN}
    assert kinds(write(tmp_path, A))["tests/old.py"] is ChangeKind.KEPT


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, A)
    (tmp_path / "mine.py").write_text("mine = 1\n")
    assert drifts(tmp_path, A) == {}
    write(tmp_path, A)
    assert (tmp_path / "mine.py").read_text() == "mine = 1\n"


# --- builds of some specs -----------------------------------------------------------------------


def test_build_of_one_spec_keeps_the_others(tmp_path: Path) -> None:
    write(tmp_path, build_of({"a.py": "a = 1", "_runtime.py": "r = 1", INDEX: ""}))
    only_b = build_of({"b.py": "b = 1", "_runtime.py": "r = 1", INDEX: ""})
    assert drifts(tmp_path, only_b, only("specs/b.op")) == {
        "b.py": DriftKind.MISSING,
        INDEX: DriftKind.STALE,
        MANIFEST: DriftKind.STALE,
    }
    write(tmp_path, only_b, only("specs/b.op"))
    assert recorded(tmp_path) == {"a.py", "b.py", "_runtime.py", INDEX}
    assert (tmp_path / INDEX).read_text() == f"{HEADER}\na, b\n"
    both = build_of({"_runtime.py": "r = 1", "b.py": "b = 1", "a.py": "a = 1", INDEX: ""})
    assert drifts(tmp_path, both) == {}  # the same bytes as from one build, manifest included


def test_orphan_of_a_spec_that_is_built(tmp_path: Path) -> None:
    files = [("one.py", f"{HEADER}\n", "specs/x.op"), ("two.py", f"{HEADER}\n", "specs/x.op")]
    both = (*((path, text) for path, text, _ in files), (MANIFEST, describe(files).text()))
    write(tmp_path, both)
    one = (both[0], (MANIFEST, describe(files[:1]).text()))
    assert drifts(tmp_path, one, only("specs/other.op")).keys() == set()
    assert kinds(write(tmp_path, one, only("specs/x.op")))["two.py"] is ChangeKind.REMOVED


def test_one_file_from_two_specs_is_refused(tmp_path: Path) -> None:
    write(tmp_path, build_of({"a.py": "a = 1"}))
    files = [("a.py", f"{HEADER}\nother\n", "specs/other.op")]
    other = ((files[0][0], files[0][1]), (MANIFEST, describe(files).text()))
    with pytest.raises(OutputError, match=r"from specs/other\.op now, and from specs/a\.op before"):
        write(tmp_path, other, only("specs/other.op"))
    assert kinds(write(tmp_path, other))["a.py"] is ChangeKind.UPDATED


def test_versions_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, build_of({"a.py": "a = 1"}, generator="opgen 0.0.1"))
    only_b = build_of({"b.py": "b = 1"})
    with pytest.raises(OutputError, match=r"opgen 0\.0\.1"):
        write(tmp_path, only_b, only("specs/b.op"))


def test_damaged_manifest_needs_a_whole_build(tmp_path: Path) -> None:
    write(tmp_path, AB)
    (tmp_path / MANIFEST).write_text((tmp_path / MANIFEST).read_text()[:80])
    with pytest.raises(OutputError, match="the manifest is damaged; build all specs"):
        write(tmp_path, build_of({"b.py": "b = 1"}), only("specs/b.op"))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../a.py", "/tmp/a.py", "x/../../a.py", "x\\a.py"])
def test_path_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "generated"
    with pytest.raises(OutputError, match="leads out of the output folder"):
        write(root, build_of({path: "a = 1"}))
    assert list(tmp_path.rglob("*.py")) == []


@pytest.mark.parametrize("link", ["a.py", "tests"])
def test_link_out_of_the_folder_is_refused(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "generated", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.py").write_text("precious\n")
    (root / link).symlink_to(outside / "a.py" if link == "a.py" else outside)
    with pytest.raises(OutputError, match="leads out of the output folder"):
        write(root, AB)
    assert [file.read_text() for file in outside.iterdir()] == ["precious\n"]
    assert sorted(file.name for file in root.iterdir()) == [link]


@pytest.mark.parametrize("name", ["a.py", MANIFEST])
def test_file_that_is_not_ours_is_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"name": "a web page"}\n')
    with pytest.raises(OutputError, match="not opgen's"):
        write(tmp_path, AB)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"name": "a web page"}\n'


def test_paths_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="would be one file"):
        write(tmp_path, build_of({"Swish.py": "1", "swish.py": "2"}))


def test_manifest_about_other_files_is_our_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not about its files"):
        write(tmp_path, (("a.py", "other"), AB[-1]))


def test_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "generated").write_text("")
    with pytest.raises(OutputError, match="generated: File exists"):
        write(tmp_path / "generated", AB)


def in_child(action: Callable[[], None]) -> int:
    """Runs `action` in a forked process; its exit code is 0 when the action returns."""
    process = multiprocessing.get_context("fork").Process(target=action)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def test_read_only_folder(tmp_path: Path) -> None:
    root = tmp_path / "generated"
    write(root, A)

    def build_without_rights() -> None:
        if os.geteuid() == 0:  # to root, nothing is read-only
            os.setuid(65534)
        assert set(kinds(write(root, A)).values()) == {ChangeKind.UNCHANGED}
        with pytest.raises(OutputError, match="Permission denied"):
            write(root, AB)

    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o755)
    root.chmod(0o555)
    try:
        assert in_child(build_without_rights) == 0
    finally:
        root.chmod(0o755)


# --- interruptions and neighbours ---------------------------------------------------------------


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_kill_leaves_old_or_new_files_and_the_next_build_tidies_up(tmp_path: Path, moment: str) -> None:
    write(tmp_path, A)
    new = build_of({"a.py": "a = 2", "_runtime.py": "r = 2", "tests/a.py": "t = 2"})

    def die_at_third_file() -> None:
        owner, name = (os, "fsync") if moment == "fsync" else (Path, "replace")
        original = getattr(owner, name)
        calls = iter(range(100))

        def dying(*arguments: object) -> object:
            if next(calls) == 2:
                os._exit(9)
            return original(*arguments)

        setattr(owner, name, dying)
        write(tmp_path, new)

    assert in_child(die_at_third_file) == 9
    texts = {(tmp_path / path).read_text() for path, _ in A if path != MANIFEST}
    assert texts <= {text for _, text in (*A, *new)}
    assert [file.name for file in tmp_path.rglob(f"*{output.TEMPORARY}")] != []
    write(tmp_path, new)
    assert drifts(tmp_path, new) == {}
    assert list(tmp_path.rglob(f"*{output.TEMPORARY}")) == []


def test_failed_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write(tmp_path, A)
    assert list(tmp_path.iterdir()) == []


def _write_and_check(root: Path, files: Build, partly: Partly) -> None:
    write(root, files, partly)
    for path, text in files:
        if path not in (INDEX, MANIFEST):
            assert (root / path).read_text() == text


def test_sixteen_processes_at_once(tmp_path: Path) -> None:
    """Half build the same op, half one each: all files are whole, and no entry of the manifest is lost."""
    names = [*(["same"] * 8), *(f"op{i}" for i in range(8))]
    builds = [build_of({f"{name}.py": "x = 1\n" * 2000, "_runtime.py": "r", INDEX: ""}) for name in names]
    root = tmp_path / "generated"
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_write_and_check, args=(root, files, only(f"specs/{name}.op")))
        for name, files in zip(names, builds, strict=True)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 16
    assert recorded(root) == {f"{name}.py" for name in names} | {"_runtime.py", INDEX}
    assert (root / INDEX).read_text() == index_of(tuple(sorted(set(names))))
    assert sorted(file.name for file in root.iterdir()) == sorted({*recorded(root), MANIFEST})


def test_lock_waits_and_then_gives_up(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(LockTimeoutError, match="another build"), locked(tmp_path, timeout=0.05):
            pass
        entered = threading.Event()

        def wait_for_it() -> None:
            with locked(tmp_path):
                entered.set()

        thread = threading.Thread(target=wait_for_it)
        thread.start()
        assert not entered.wait(0.1)
    thread.join()
    assert entered.is_set()


def test_lock_file_where_folders_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opgen.folder_lock._lock_folder", lambda folder, deadline: None)
    with locked(tmp_path):
        (lock,) = tmp_path.iterdir()
        with pytest.raises(LockTimeoutError, match="delete it"):
            _create_lock_file(lock, 0.0)
    assert list(tmp_path.iterdir()) == []


# --- permissions, single files ------------------------------------------------------------------


def test_permissions_are_kept(tmp_path: Path) -> None:
    write(tmp_path, A)
    (tmp_path / "a.py").chmod(0o640)
    write(tmp_path, build_of({"a.py": "a = 2", "_runtime.py": "r = 1", "tests/a.py": "t = 1"}))
    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == 0o640


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path, A)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == 0o640


def test_replace_and_create_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.op"
    create_file(path, "one\n")
    with pytest.raises(OutputError, match="File exists"):
        create_file(path, "two\n")
    assert path.read_text() == "one\n"
    link = tmp_path / "link.op"
    link.symlink_to(path)
    replace_file(link, "three\n")
    assert link.is_symlink()
    assert path.read_text() == "three\n"
