"""Projects on disk: finding them, `.yy` texts, event file names, records of old and new IDE versions, facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.errors import GmError
from gm.gmloop.catalog import Catalog
from gm.gmloop.project.events import EVENT_NAMES, event_file_name, event_of_file
from gm.gmloop.project.facts import read_facts
from gm.gmloop.project.find import find_project, require_project
from gm.gmloop.project.resources import read_object, read_resources
from gm.gmloop.project.yy import YyNode, read_yy

Make = Callable[..., Path]


def test_yy_reads_trailing_commas_big_numbers_and_knows_every_place() -> None:
    text = '\ufeff{\r\n  "a": [1, -2.5e3, 9007199254740993,],\r\n  "b": {"c": "x\\"y", "d": null,},\r\n}'
    node = read_yy(text)
    assert node.plain() == {"a": [1, -2500.0, 9007199254740993], "b": {"c": 'x"y', "d": None}}
    inner = node.get("b")
    assert inner is not None
    value = inner.get("c")
    assert value is not None and text[value.start : value.end] == '"x\\"y"'
    assert (text[node.start], text[node.end - 1]) == ("{", "}")
    assert read_yy("{}").plain() == {} and read_yy("[]").plain() == []


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": }', "[1 2]", '{"a": 1} x', "{a: 1}", "[" * 300, "[,]", "nul"]
)
def test_yy_names_the_line_of_what_it_cannot_read(text: str) -> None:
    with pytest.raises(GmError, match="line 1"):
        read_yy(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_yy_reads_what_json_reads(value: object) -> None:
    import json

    def same(node: YyNode) -> bool:
        return json.loads(json.dumps(node.plain())) == json.loads(json.dumps(value))

    assert same(read_yy(json.dumps(value, indent=1)))


@pytest.mark.parametrize(
    ("kind", "number", "other", "name"),
    [
        (0, 0, "", "Create_0.gml"),
        (2, 11, "", "Alarm_11.gml"),
        (3, 2, "", "Step_2.gml"),
        (4, 0, "obj_wall", "Collision_obj_wall.gml"),
        (7, 25, "", "Other_25.gml"),
        (8, 64, "", "Draw_64.gml"),
        (12, 0, "", "CleanUp_0.gml"),
        (13, 1, "", "Gesture_1.gml"),
        (14, 0, "", "PreCreate_0.gml"),
    ],
)
def test_event_file_names(kind: int, number: int, other: str, name: str) -> None:
    assert event_file_name(kind, number, other) == name
    assert event_of_file(name) == (kind, other or str(number))


def test_event_names_that_are_none() -> None:
    assert event_file_name(99, 0) is None
    assert [event_of_file(name) for name in ("Create.gml", "Create_x.gml", "Foo_0.gml", "Create_0.yy")] == [None] * 4
    assert sorted(EVENT_NAMES) == list(range(15))


def test_resources_of_every_ide_version_are_read() -> None:
    new = read_yy('{"resources": [{"id": {"name": "a", "path": "scripts/a/a.yy",},},],}')
    old = read_yy(
        '{"resources": [{"Key": "k", "Value": {"resourcePath": "scripts\\\\a\\\\a.yy", "resourceType": "x"}}]}'
    )
    assert [(item.name, item.kind) for item in read_resources(new)] == [("a", "scripts")]
    assert [(item.name, item.path) for item in read_resources(old)] == [("a", "scripts/a/a.yy")]


def test_objects_of_every_ide_version_are_read() -> None:
    text = (
        '{"$GMObject": "", "%Name": "obj_a", "parentObjectId": {"name": "obj_b", "path": "x"}, "eventList": ['
        '{"$GMEvent": "v1", "%Name": "", "collisionObjectId": {"name": "obj_c"}, "eventNum": 0, "eventType": 4,},],'
        '"properties": [{"%Name": "speed_max"}], "overriddenProperties": [{"propertyId": {"name": "hp"}}],}'
    )
    item = read_object(read_yy(text))
    assert (item.name, item.parent, item.events[0].file_name) == ("obj_a", "obj_b", "Collision_obj_c.gml")
    assert set(item.variables) == {"speed_max", "hp"}
    assert read_object(read_yy("{}")).events == ()


def test_objects_of_an_ide_before_2_3_name_one_another_by_key(tmp_path: Path) -> None:
    keys = {"": "00000000-0000-0000-0000-000000000000", "obj_a": "1a-0", "obj_b": "2b-0"}
    listed = [
        {"Key": keys[name], "Value": {"resourcePath": f"objects\\{name}\\{name}.yy", "resourceType": "GMObject"}}
        for name in ("obj_a", "obj_b")
    ]
    (tmp_path / "game.yyp").write_text(json.dumps({"resources": listed}))
    collision = {"id": "e1", "collisionObjectId": keys["obj_b"], "enumb": 0, "eventtype": 4}
    step = {"id": "e2", "collisionObjectId": keys[""], "enumb": 0, "eventtype": 3}
    for name, parent in (("obj_a", ""), ("obj_b", "obj_a")):
        folder = tmp_path / "objects" / name
        folder.mkdir(parents=True)
        record = {"name": name, "parentObjectId": keys[parent], "eventList": [collision, step]}
        (folder / f"{name}.yy").write_text(json.dumps(record))
        for event in ("Collision_e1.gml", "Step_0.gml"):
            (folder / event).write_text("event_inherited();\n")
    facts = read_facts(require_project(tmp_path))
    child = facts.objects["obj_b"]
    assert (facts.objects["obj_a"].parent, child.parent) == ("", "obj_a")
    assert [(event.collision, event.file_name) for event in child.events] == [
        ("obj_b", "Collision_e1.gml"),
        ("", "Step_0.gml"),
    ]
    assert facts.event_suffix("obj_b", 4, "Collision_e1.gml", "e1") == "obj_b"
    answer = Catalog().run(("project", "inspect", "--json"), tmp_path)
    assert json.loads(answer.stdout)["payload"]["problems"] == []
    lint = Catalog().run(("lint", "--json", "--only=feather/gm2040"), tmp_path)
    assert {Path(item["path"]).parent.name for item in json.loads(lint.stdout)["payload"]["findings"]} == {"obj_a"}


def test_a_collision_without_an_object_is_one_with_its_own_kind() -> None:
    text = '{"name": "obj_a", "eventList": [{"eventNum": 0, "eventType": 4, "collisionObjectId": null,},],}'
    assert read_object(read_yy(text)).events[0].file_name == "Collision_obj_a.gml"


def test_a_parent_whose_key_is_not_listed_is_a_parent_all_the_same() -> None:
    assert read_object(read_yy('{"name": "obj_a", "parentObjectId": "97a5a608-d583"}'), {}).parent == "97a5a608-d583"


def test_files_that_game_maker_does_not_take_declare_nothing(make_project: Make) -> None:
    code = "function f() { return 1; }\nenum E { A }\n#macro M 1\n"
    root = make_project({"a": code})
    (root / "scripts" / "a" / "a.remote.gml").write_text(code)
    gone = root / "scripts" / "gone"
    gone.mkdir()
    (gone / "gone.gml").write_text(code)
    rules = ("--only=feather/gm1064", "--only=feather/gm1006", "--only=feather/gm1038")
    lint = Catalog().run(("lint", *rules), root)
    assert (lint.exitCode, lint.stdout) == (0, "")
    facts = read_facts(require_project(root))
    assert [fact.path for fact in facts.functions["f"]] == ["scripts/a/a.gml"]


def test_a_project_is_found_from_its_file_its_folder_and_below(make_project: Make, tmp_path: Path) -> None:
    root = make_project({"a": ""})
    for start in (root / "game.yyp", root, root / "scripts" / "a", root / "scripts" / "a" / "a.gml"):
        found = find_project(start)
        assert found is not None and found.root == root
    assert find_project(tmp_path) is None
    with pytest.raises(GmError, match="belongs to no GameMaker project"):
        require_project(tmp_path)


def test_facts_know_functions_enums_macros_objects_and_folders(make_project: Make) -> None:
    scripts = {
        "a": "function f(x, y = 1) { return x; }\nenum E { A }\n#macro M 1\nfunction g() { return argument[0]; }\n",
        "b": "function C() constructor { }\nglobalvar score_max;\n",
    }
    create = {(0, 0): ("Create_0.gml", "hp = 1;\n")}
    objects = {"obj_a": {"events": create}, "obj_b": {"parent": "obj_a"}}
    facts = read_facts(require_project(make_project(scripts, objects, folders={"a": "Lib"})))
    assert (facts.functions["f"][0].required, facts.functions["f"][0].most) == (1, 2)
    assert (facts.functions["g"][0].most, facts.functions["C"][0].constructor) == (-1, True)
    assert facts.enums == {"E": frozenset({"A"})}
    assert facts.macros.bodies == {"M": "1"}
    assert facts.global_variables == {"score_max"}
    assert facts.created_by("obj_b") == {"hp"}
    assert facts.has_event("obj_b", 0, "0") and not facts.has_event("obj_b", 3, "0")
    assert facts.folders["scripts/a/a.gml"] == "Lib"
    assert "obj_a" in facts.assets
