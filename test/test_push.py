"""A dataset to the hub: its card, every byte of it, the metadata last, and what comes of refusals."""

import json
import shutil

import pytest
import yaml
from dataset_edits import edit_info
from export_cases import run, varied_bags
from fake_hub import FakeHub
from test_edit_foreign import plain

from piper_collect.cli.main import main
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.guard import locked
from piper_collect.errors import ConfigError, DatasetError
from piper_collect.pipelines import push as pushing
from piper_collect.pipelines.push import check_repo_id, make_card, push

# huggingface_hub 2.4 sends files as its HTTP library would rather not have them
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push")
    run(varied_bags(folder / "rec", 4, sessions=2), folder / "ds", allow_incomplete=True)
    return folder / "ds"


@pytest.fixture
def root(tmp_path, made):
    return shutil.copytree(made, tmp_path / "ds")


def test_the_card_tells_schema_provenance_quality_and_shows_pictures(made):
    told = []
    card = make_card(made, "pick_x", license_id="cc-by-4.0", on_progress=lambda *of: told.append(of))
    text = card.files["README.md"].decode()
    _, header, body = text.split("---\n", 2)
    assert yaml.safe_load(header)["license"] == "cc-by-4.0"
    assert yaml.safe_load(header)["configs"][0]["data_files"] == "data/*/*.parquet"
    assert body.lstrip().startswith("# pick_x")
    info = json.loads((made / "meta/info.json").read_text())
    for key, feature in info["features"].items():
        assert f"| `{key}` | {feature['dtype']} | {feature['shape']} |" in body
    assert "| pick the cube | 2 |" in body
    assert "| pick_20260101_120000 | 2 | unknown | model piper" in body
    assert "| outcomes | 3 success, 1 interrupted; 1 not whole |" in body
    assert "| validate | 0 errors, 5 warnings |" in body
    assert "| GR00T n1.6 | loads it |" in body
    strips = [name for name in card.files if name.startswith("thumbnails/")]
    assert len(strips) == 6
    for name in strips:
        assert f"]({name})" in body
        assert card.files[name].startswith(b"\xff\xd8")
    assert card.errors == ()
    assert told[0] == ("looking at episodes", 0, 4)


def test_nothing_is_claimed_of_datasets_of_other_tools(tmp_path):
    card = make_card(plain(tmp_path / "ds"), "x")
    text = card.files["README.md"].decode()
    assert "quaternions wxyz" not in text
    assert "Not recorded." in text
    assert "license" not in text
    assert list(card.files) == ["README.md"]


def test_text_of_others_stays_in_its_cell(root):
    path = root / "meta/tasks.jsonl"
    path.write_text(path.read_text().replace("stack the cups", "a | b <script>"))
    episodes = root / "meta/episodes.jsonl"
    episodes.write_text(episodes.read_text().replace("stack the cups", "a | b <script>"))
    assert "| a \\| b &lt;script> | 1 |" in make_card(root, "x").files["README.md"].decode()


def test_dry_run_writes_the_card_and_nothing_else(root, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pushing, "_hub", lambda: pytest.fail("the hub was asked for"))
    before = {p: p.stat().st_mtime_ns for p in root.rglob("*")}
    assert main(["push", str(root), "me/pick", "--dry-run"]) == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert (tmp_path / "ds_card/README.md").read_text().count("# pick\n") == 1
    assert len(list((tmp_path / "ds_card/thumbnails").iterdir())) == 6
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*")} == before
    assert main(["push", str(root), "me/pick", "--dry-run", "-o", str(tmp_path / "card")]) == 0
    assert (tmp_path / "card/README.md").is_file()
    assert main(["push", str(root), "me/pick", "-o", str(tmp_path / "card")]) == 2
    assert "-o is for --dry-run" in capsys.readouterr().err


def test_a_dry_run_replaces_an_earlier_card_and_no_file_of_others(root, tmp_path, capsys):
    def dry_run(folder):
        return main(["push", str(root), "me/pick", "--dry-run", "-o", str(folder)]), capsys.readouterr().err

    card = tmp_path / "card"
    card.mkdir()
    assert dry_run(card) == (0, "")
    (card / "README.md").write_text("old\n*Made by piper_collect 0.0.1.*\n")
    assert dry_run(card) == (0, "")
    assert "# pick\n" in (card / "README.md").read_text()
    (card / "thumbnails" / "mine.jpg").write_text("mine")
    mine, other = tmp_path / "mine", shutil.copytree(root, tmp_path / "other")
    mine.mkdir()
    (mine / "README.md").write_text("mine, and not *Made by piper_collect 1*\n")
    before = dataset_files(tmp_path)
    for folder, why in (
        (card, "got thumbnails/mine.jpg"),
        (mine, "among other files (expected an empty or missing folder"),
        (mine / "README.md", "is a file"),
        (other, "among other files"),
        (other / "card", f"lies in a dataset (expected a folder outside, got {other} has meta/info.json)"),
        (root / "meta/zz", "lies in a dataset"),
    ):
        code, said = dry_run(folder)
        assert code == 1
        assert why in said
        assert f"{folder}: " in said
        assert said.count("\n") == 1
    assert dataset_files(tmp_path) == before
    assert not (other / "card").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("", "pick", "/pick", "me/", "a b/c", "me/pick/x", "me/pick ", "me/p\n", "me/é", "me/" + "p" * 97),
        *("me/-p", "me/p.", "me/p--q", "me/p..q", "me/p.git"),
    ],
)
@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_what_is_no_name_of_a_repository_is_refused_first(tmp_path, capsys, name, words):
    assert main(["push", str(tmp_path / "none"), name, *words]) == 2
    assert "REPO_ID: no name of a repository (expected owner/name" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["me/pick", "my-org/Pick_2.0", "a/b", "_me/" + "p" * 96])
def test_names_of_repositories(name):
    check_repo_id(name)


def test_a_missing_library_is_named(made, monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(pushing.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"huggingface_hub is not installed.*piper_collect\[push\]"):
        push(made, "me/pick")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub of our own, and the library sent there."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    fake = FakeHub()
    monkeypatch.setattr(constants, "ENDPOINT", fake.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", fake.token)
    yield fake
    fake.close()


def dataset_files(root):
    names = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    return {name: p.read_bytes() for name, p in names.items() if name != "extras/stats_state.bin"}


def test_every_byte_gets_there_and_the_metadata_last(root, hub, monkeypatch, capsys):
    monkeypatch.setattr(pushing, "_FILES_PER_COMMIT", 5)
    assert main(["push", str(root), "me/pick"]) == 0
    assert f"{hub.url}/datasets/me/pick: " in capsys.readouterr().out
    there = hub.repos["me/pick"]
    ours = dataset_files(root)
    assert {name: there[name] for name in ours} == ours
    assert {name for name in there if name not in ours} == set(make_card(root, "pick").files)
    assert hub.private["me/pick"]
    added = [names for names, _ in hub.commits["me/pick"]]
    assert len(added) > 2
    assert not any(name.startswith("meta/") for names in added[:-1] for name in names)
    assert "meta/info.json" in added[-1]
    assert hub.tags["me/pick"] == {"v2.1": len(added)}


def test_again_sends_what_is_new_and_deletes_what_is_gone(root, hub):
    push(root, "me/pick", public=True)
    assert not hub.private["me/pick"]
    hub.repos["me/pick"]["notes/mine.txt"] = b"mine"
    before, sent = hub.repos["me/pick"]["README.md"], list(hub.sent)
    delete_episodes(root, [3])
    pushed = push(root, "me/pick", keep_card=True)
    assert "data/chunk-000/episode_000003.parquet" in pushed.deleted
    there = hub.repos["me/pick"]
    ours = dataset_files(root)
    assert {name: there[name] for name in ours} == ours
    assert not any("episode_000003" in name for name in there if not name.startswith("thumbnails/"))
    assert (there["notes/mine.txt"], there["README.md"]) == (b"mine", before)
    assert hub.sent == sent, "the files that stayed were not sent again"
    assert hub.tags["me/pick"] == {"v2.1": len(hub.commits["me/pick"])}


def test_what_fails_in_the_middle_goes_on(root, hub, monkeypatch, capsys):
    monkeypatch.setattr(pushing, "_FILES_PER_COMMIT", 5)
    hub.refuse_commit = 2
    with pytest.raises(DatasetError, match=r"could not be pushed.*run it again"):
        push(root, "me/pick")
    assert not any(name.startswith("meta/") for name in hub.repos["me/pick"])
    assert hub.tags["me/pick"] == {}
    hub.refuse_commit = 0
    stored, before = set(hub.store), len(hub.sent)
    push(root, "me/pick")
    ours = dataset_files(root)
    assert {name: hub.repos["me/pick"][name] for name in ours} == ours
    assert stored
    assert not stored & set(hub.sent[before:]), "nothing was sent twice"


def test_refused_before_anything_is_sent(root, hub, monkeypatch):
    with pytest.raises(ConfigError, match="no name of a repository"):
        push(root, "not a name")
    with locked(root), pytest.raises(DatasetError, match="another process is writing"):
        push(root, "me/pick")
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(DatasetError, match=r"could not be pushed: .*401"):
        push(root, "me/pick")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    edit_info(root, lambda info: info.update(total_frames=1))
    with pytest.raises(DatasetError, match=r"validate finds 1 errors: .*total_frames.*--allow-errors"):
        push(root, "me/pick")
    assert hub.repos == {}
    push(root, "me/pick", allow_errors=True)
    assert "| validate | 1 errors," in hub.repos["me/pick"]["README.md"].decode()
    monkeypatch.setattr(pytest.importorskip("huggingface_hub.constants"), "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DatasetError, match=r"the hub cannot be reached: .*refused"):
        push(root, "me/pick", allow_errors=True)
