#!/usr/bin/env python3
"""Checks `annals schema --swift` and `--apply` for golden stores and for schemas with hostile names.

Usage: Tests/run schemas [STORE...]

1. What `--format json` prints, applied to an empty store, gives a store whose schema prints the same entities.
2. What `--swift` prints compiles, and opens a copy of the store: for reading only, which proves that the store lacks
   nothing that the structs declare, and for writing. Afterwards the schema is as before, except for what names the
   library itself adds, and the store is intact.

All programs are compiled at once, each in a namespace of its own. ANNALS_TOOL names a built tool; otherwise it is
built.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from support.programs import ROOT, tool as path_of_tool

TOOL = path_of_tool()
GOLDEN = [os.path.join(ROOT, "Tests", target, "Golden") for target in ("AnnalsFileTests", "AnnalsTests")]


def attribute(name, kind, **options):
    return {"name": name, "type": kind, **options}


SCALARS = ["bool", "int", "double", "string", "data", "date", "uuid", "decimal", "json"]
DEFAULTS = {
    "bool": True, "int": -(2 ** 63), "double": "-Infinity", "string": "a\"b\\(c)\n\u2028é\u0301{\u202e",
    "data": "AAEC/w==",
    "date": "1969-12-31T23:59:59.999999Z", "uuid": "00112233-4455-6677-8899-AABBCCDDEEFF",
    "decimal": "-123456789012345678901234567890.5", "json": {"a": [1, "\"\\(x)", None]},
}
HOSTILE = {
    # Every type, optional and required, with and without a default.
    "types": [
        {"name": "All", "attributes":
            [attribute(f"{kind}{suffix}", kind, **options) for kind in SCALARS for suffix, options in (
                ("", {}), ("R", {"optional": False}), ("D", {"default": DEFAULTS[kind]}),
                ("RD", {"optional": False, "default": DEFAULTS[kind]}))]
            + [attribute("nan", "double", default="NaN"),
               attribute("inf", "double", default="Infinity", optional=False)],
         "keys": [{"attributes": ["int", "string"], "unique": True}, {"attributes": ["date", "uuid", "bool"]},
                  {"attributes": ["stringR"], "unique": True}]},
    ],
    # References of all kinds, rules and other sides, in circles, to any entity, and with both sides kept.
    "references": [
        {"name": "Folder", "history": "off", "attributes": [
            attribute("name", "string", optional=False, unique=True, preservedOnDeletion=True),
            attribute("parent", "object", target="Folder", inverse="children", deleteRule="cascade", indexed=True),
            attribute("kept", "objects", target="Clip", inverse="keeper"),
        ]},
        {"name": "Clip", "attributes": [
            attribute("folder", "object", optional=False, target="Folder", inverse="clips", deleteRule="deny"),
            attribute("tags", "objects", target="Tag", inverse="clips", deleteRule="nullify"),
            attribute("order", "orderedObjects", optional=False, target="Clip", deleteRule="noAction"),
            attribute("keeper", "object", target="Folder", inverse="kept"),
            attribute("only", "object", target="Tag", unique=True, inverse="clip", deleteRule="nullify"),
            attribute("any", "object"), attribute("anyRequired", "object", optional=False),
            attribute("some", "objects", deleteRule="cascade"),
            attribute("list", "orderedObjects", optional=False, deleteRule="nullify"),
        ]},
        {"name": "Tag", "attributes": [attribute("name", "string")]},
    ],
    # Names that are no identifiers, are words of Swift, or name types that the structs need.
    "names": [
        {"name": name, "attributes": [attribute("name", "string"), attribute("next", "object", target="String")]}
        for name in [
            "String", "Date", "Entity", "Schema", "Reference", "Self", "class", "Any", "my notes", "1st", "a-b", "été",
            "日本", "😀", "_", "$x", "`", "Type", "JSONText", "MyNotes", "my_notes", "x\ny"]
    ] + [
        {"name": "Properties", "attributes": [
            attribute(name, "int", indexed=True) for name in [
                "class", "self", "Self", "init", "default", "in", "Type", "my name", "1st", "a-b", "a.b", "été", "日本",
                "😀", "+", " ", "_private", "$0", "status", "reference", "update",
                "objectStatus", "objectReference", "objectUpdate", "a`b", "a\\b", "a\"b", "a\nb", "schema",
                "id", "hashValue", "description", "some", "any", "async", "\u200b", "x\u200by", "get"]],
         "keys": [{"attributes": ["my name", "class"], "unique": True}, {"attributes": ["a`b", "in"]}]},
        {"name": "Bare", "attributes": []},
        {"name": "Unspeakable", "attributes": [attribute("`", "int"), attribute("_x", "string")]},
    ],
}


def tool(*arguments, stdin=None):
    result = subprocess.run([TOOL, *arguments], input=stdin, capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        sys.exit(f"annals {' '.join(arguments)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def entities(store):
    return json.loads(tool("schema", store, "--format", "json"))["entities"]


def difference(before, after):
    """The lines that one of two schemas has and the other has not."""
    lines = [
        [json.dumps(part) for entity in schema for part in [entity["name"], *entity["attributes"], *entity["keys"]]]
        for schema in (before, after)]
    return "\n".join([f"- {line}" for line in lines[0] if line not in lines[1]]
                     + [f"+ {line}" for line in lines[1] if line not in lines[0]])


def check_round_trip(store, directory):
    text = tool("schema", store, "--format", "json")
    copy = os.path.join(directory, "copy.annals")
    announced = tool("schema", copy, "--apply", "-", "--dry-run", stdin=text)
    if os.path.exists(copy):
        sys.exit(f"{store}: --dry-run made a store")
    made = tool("schema", copy, "--apply", "-", stdin=text)
    if made != announced and not made.startswith(announced):
        sys.exit(f"{store}: --dry-run announced\n{announced}and --apply said\n{made}")
    if entities(copy) != json.loads(text)["entities"]:
        sys.exit(f"{store}: its schema, applied to an empty store, gives\n{entities(copy)}")
    if tool("schema", copy, "--apply", "-", "--prune", stdin=text) != "nothing to change\n":
        sys.exit(f"{store}: a second --apply changes something")
    os.remove(copy)


def program(store, number):
    """The declarations of a store in a namespace. The compiler's messages name the store."""
    lines = tool("schema", store, "--swift").splitlines()
    opening = next(line for line in lines if line.startswith("// let store = "))
    types = re.fullmatch(r"// let store = try Store\(at: path, entities: (\[.*\])\)", opening)[1]
    body = [line for line in lines if not line.startswith("import ")]
    return "\n".join([
        "import Annals", "import FoundationEssentials", f"enum Store{number} {{",
        f'#sourceLocation(file: "{os.path.basename(store)}.swift", line: 1)', *body, "#sourceLocation()",
        f"static let entities: [any Entity.Type] = {types}", "}", ""])


MAIN = """
import Annals
let programs: [[any Entity.Type]] = [%s]
for (number, path) in CommandLine.arguments.dropFirst().enumerated() {
    for access in [Store.Access.readOnly, .readWrite] {
        var options = Store.Options()
        options.access = access
        do {
            let store = try Store(at: path, entities: programs[number], options: options)
            try store.close()
        } catch {
            print("\\(path), \\(access): \\(error)")
        }
    }
}
"""


def write_package(stores, home):
    folder = os.path.join(home, "Sources", "schemas")
    os.makedirs(folder)
    for number, store in enumerate(stores):
        with open(os.path.join(folder, f"Store{number}.swift"), "w", encoding="utf-8") as file:
            file.write(program(store, number))
    with open(os.path.join(folder, "main.swift"), "w", encoding="utf-8") as file:
        file.write(MAIN % ", ".join(f"Store{number}.entities" for number in range(len(stores))))
    with open(os.path.join(home, "Package.swift"), "w", encoding="utf-8") as file:
        file.write(
            '// swift-tools-version: 6.2\nimport PackageDescription\n\nlet package = Package(name: "schemas", '
            f'dependencies: [.package(name: "annals", path: "{ROOT}")], targets: [.executableTarget(name: "schemas", '
            'dependencies: [.product(name: "Annals", package: "annals")])])\n')


def main():
    golden = sys.argv[1:] or sorted(
        os.path.join(folder, name) for folder in GOLDEN for name in os.listdir(folder) if name.endswith(".annals"))
    build = os.path.join(ROOT, ".build", "documents")
    home = os.path.join(build, "schemas")
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    with tempfile.TemporaryDirectory() as directory:
        stores = []
        for number, path in enumerate(golden):
            stores.append(os.path.join(directory, f"{number}-{os.path.basename(path)}"))
            shutil.copy(path, stores[-1])
        if not sys.argv[1:]:
            for name, described in HOSTILE.items():
                stores.append(os.path.join(directory, f"hostile-{name}.annals"))
                tool("schema", stores[-1], "--apply", "-", stdin=json.dumps({"entities": described}))
        for store in stores:
            check_round_trip(store, directory)
        before = [entities(store) for store in stores]
        write_package(stores, home)
        # A plan that was kept in the folder may be that of documents.py.
        command = ["swift", "build", "--disable-build-manifest-caching", "--scratch-path", os.path.join(build, "build")]
        result = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=1800)
        if result.returncode != 0 or re.search(r"\.annals\.swift:\d+:\d+: warning:", result.stdout):
            sys.exit(result.stdout + result.stderr)
        run = subprocess.run(
            [os.path.join(build, "build", "debug", "schemas"), *stores], capture_output=True, text=True, timeout=300)
        for store, known in zip(stores, before):
            if entities(store) != known:
                changed = difference(known, entities(store))
                sys.exit(f"{store}: opening it with its own structs has changed its schema\n{changed}")
            tool("verify", store)
        if run.returncode != 0 or run.stdout:
            sys.exit(f"status {run.returncode}\n{run.stdout}{run.stderr}")
    print(f"{len(stores)} schemas: applied, compiled and opened")


main()
