#!/usr/bin/env python3
"""Checks the README and the guides: their form, their links, and all code in them, by running it.

Usage: Tests/run documents [DOCUMENT...]

Form: the README has at most 1,300 words, and no line has more than 120 columns, except those of tables. A relative
link, and a path to a source file, names a file of the clone. Errors.md has every error code, TheTool.md every command.

Code: the Swift blocks of one document, in their order, form one program. Argument 1 is the path of a store. Each
program runs twice in a directory of its own: the store does not exist at the first run, and does at the second. What
a comment `// prints: x` announces, the first run must print. A block after `<!-- own scope -->` may declare names
again. The block that begins with `// swift-tools-version` is
not part of a program. It is the README's manifest, and must work for a clone in a folder of any name.

A block after `<!-- from Notes -->` or `<!-- from Service -->` is not part of a program either. The sources of a sample,
or its tests, must contain it word for word, apart from its indentation; they are compiled and run with the others.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

from support.programs import ROOT

LIBRARY = os.path.join(ROOT, "Sources", "Annals")
MIRROR = os.path.join(ROOT, "Sources", "AnnalsMirror")
GUIDES = os.path.join(LIBRARY, "Annals.docc")
README = os.path.join(ROOT, "README.md")
MANIFEST = "// swift-tools-version"
SAMPLES = [
    os.path.join(ROOT, "Tests", "Samples", "Notes"), os.path.join(ROOT, "Tests", "NotesTests"),
    os.path.join(ROOT, "Tests", "Samples", "Service")]
MAXIMUM_WORDS = 1300
MAXIMUM_COLUMNS = 120


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(path, from_samples=False):
    """The Swift blocks of a document, each with the number of its first line: those of its own, or of samples."""
    found, current, start, has_scope, is_from_sample = [], None, 0, False, False
    for number, line in enumerate(read(path).splitlines(keepends=True), 1):
        if current is None:
            if line.startswith("<!-- own scope -->"):
                has_scope = True
            if re.match("<!-- from (Notes|Service) -->", line):
                is_from_sample = True
            if re.match(r"^```swift\s*$", line):
                current, start = ["do {\n"] if has_scope else [], number + 1
        elif line.startswith("```"):
            if has_scope:
                # The line numbers stay right: the first line has no line of the document.
                current[0:2] = [current[0].rstrip("\n") + " " + current[1]]
                current[-1] = current[-1].rstrip("\n") + " }\n"
            if is_from_sample == from_samples:
                found.append((start, "".join(current)))
            current, has_scope, is_from_sample = None, False, False
        else:
            current.append(line)
    if current is not None:
        sys.exit(f"{path}:{start}: a code block has no end")
    return found


def program(path):
    """The program that the blocks form. The compiler's messages name the lines of the document."""
    return "".join(
        f'#sourceLocation(file: "{path}", line: {line})\n{block}#sourceLocation()\n'
        for line, block in blocks(path) if not block.startswith(MANIFEST))


def faults_of_form(path):
    """What is wrong with the text of a document, apart from its code."""
    text = read(path)
    faults = []
    if path == README and len(text.split()) > MAXIMUM_WORDS:
        faults.append(f"{path}: {len(text.split())} words, more than {MAXIMUM_WORDS}")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAXIMUM_COLUMNS and not line.startswith("|"):
            faults.append(f"{path}:{number}: {len(line)} columns, more than {MAXIMUM_COLUMNS}")
        for link in re.findall(r"\]\(([^)#:]+)\)", line):
            if not os.path.exists(os.path.join(os.path.dirname(path), link)):
                faults.append(f"{path}:{number}: there is no {link}")
        for source in re.findall(r"`([\w/+.-]+/[\w+.-]+\.(?:swift|sh|py))`", line):
            if not any(os.path.exists(os.path.join(folder, source)) for folder in (ROOT, LIBRARY)):
                faults.append(f"{path}:{number}: there is no {source}")
    return faults


def faults_of_samples(path):
    """The blocks that say that they come from a sample, and do not."""
    sources = ["\n" + read(os.path.join(folder, name)) for folder in SAMPLES for name in sorted(os.listdir(folder))]

    def stands(block):
        indented = (textwrap.indent(block, " " * columns) for columns in range(0, 17, 4))
        return block.strip() and any("\n" + text in source for text in indented for source in sources)

    return [f"{path}:{start}: this is in no sample, nor in its tests"
            for start, block in blocks(path, from_samples=True) if not stands(block)]


def faults_of_lists():
    """Error codes and commands that their guides do not have."""
    faults = []
    for guide, folder, pattern in (
            ("Errors.md", LIBRARY, r'public static let (\w+) = Self\(rawValue: "\1"\)'),
            ("Errors.md", MIRROR, r'public static let (\w+) = Self\(rawValue: "\1"\)'),
            ("TheTool.md", os.path.join(ROOT, "Sources", "AnnalsTool"), r'= Command\(\s*"([\w-]+(?: \w+)?)"')):
        names = set()
        for parent, _, files in os.walk(folder):
            for file in files:
                if file.endswith(".swift"):
                    names.update(re.findall(pattern, read(os.path.join(parent, file))))
        if not names:
            faults.append(f"{folder}: nothing matches {pattern}")
        text = read(os.path.join(GUIDES, guide))
        faults += [f"{guide} does not have {name}" for name in sorted(names) if not re.search(rf"\| `{name}\b", text)]
    return faults


def run(command, directory, seconds):
    return subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=seconds)


def write_package(documents, directory):
    """One package with a program for each document, built against the clone."""
    targets = []
    for name, path in documents.items():
        folder = os.path.join(directory, "Sources", name)
        os.makedirs(folder)
        with open(os.path.join(folder, "main.swift"), "w", encoding="utf-8") as file:
            file.write(program(path))
        products = ", ".join(
            f'.product(name: "{product}", package: "annals")'
            for product in ["Annals"] + ["AnnalsMirror"] * ("import AnnalsMirror\n" in program(path)))
        targets.append(f'.executableTarget(name: "{name}", dependencies: [{products}])')
    with open(os.path.join(directory, "Package.swift"), "w", encoding="utf-8") as file:
        file.write(
            f"{MANIFEST}: 6.2\nimport PackageDescription\n\n"
            'let package = Package(name: "documents", dependencies: '
            f'[.package(name: "annals", path: "{ROOT}")], targets: [{", ".join(targets)}])\n')


def check_manifest(directory):
    """The README's own manifest must work, whatever the clone's folder is called."""
    text = next((block for _, block in blocks(README) if block.startswith(MANIFEST)), None)
    if text is None:
        sys.exit(f"{README}: the quick start has no manifest")
    clone = os.path.join(directory, "a clone under another name")
    os.symlink(ROOT, clone)
    changed, count = re.subn(r'path: "[^"]*"', f'path: "{clone}"', text)
    target = re.search(r'executableTarget\(\s*name: "(\w+)"', text)
    if count != 1 or target is None:
        sys.exit(f"{README}: the manifest must name one path, the clone's, and one executable target")
    home = os.path.join(directory, "manifest")
    os.makedirs(os.path.join(home, "Sources", target[1]))
    with open(os.path.join(home, "Package.swift"), "w", encoding="utf-8") as file:
        file.write(changed)
    with open(os.path.join(home, "Sources", target[1], "main.swift"), "w", encoding="utf-8") as file:
        file.write("import Annals\n")
    result = run(["swift", "package", "show-dependencies"], home, 300)
    if result.returncode != 0 or "error:" in result.stdout or "warning:" in result.stdout:
        sys.exit(f"{README}: the manifest does not work\n{result.stdout}")


def check_samples():
    """The README's programs are those that CI builds and runs."""
    text = read(README)
    for name in ("Library", "Editing"):
        sample = read(os.path.join(ROOT, "Tests/Samples", name, "main.swift")).strip()
        # The second program has the entities and the store of the first.
        if name == "Editing":
            sample = sample[sample.index("let context"):]
        if f"```swift\n{sample}\n```" not in text:
            sys.exit(f"{README}: a program is not that of Tests/Samples/{name}/main.swift")
    # The third is what the app does, in the same order. In the sample it does more before it ends.
    sample = [line.strip() for line in read(os.path.join(ROOT, "Tests/Samples/Tracking/main.swift")).split("\n")]
    block = next(block for block in re.findall(r"```swift\n(.*?)```", text, re.S) if "HistoryTracker(" in block)
    rest = sample[sample.index("let context = store.makeContext(author: \"app\")"):]
    for line in block.strip().split("\n"):
        if line.strip() not in rest:
            sys.exit(f"{README}: “{line}” is not in Tests/Samples/Tracking/main.swift, or not in this order")
        rest = rest[rest.index(line.strip()) + 1:]


def check_program(name, path, binary, directory):
    """Runs a document's program twice, and compares what it prints with what the document says."""
    os.makedirs(directory)
    for turn in (1, 2):
        result = run([binary, os.path.join(directory, "store.annals")], directory, 120)
        if result.returncode != 0:
            sys.exit(f"{path}: run {turn} ended with status {result.returncode}\n{result.stdout}")
        if turn == 1:
            printed = result.stdout.splitlines()
            wanted = [text.strip() for text in re.findall(r"// prints: (.*)", program(path))]
            missing = [text for text in wanted if text not in printed]
            if missing:
                sys.exit(f"{path}: these lines were not printed: {missing}\n{result.stdout}")
    others = len(blocks(path, from_samples=True))
    print(
        f"{os.path.relpath(path, ROOT)}: {len(blocks(path))} blocks of code, ran twice"
        + (f"; {others} from Notes" if others else ""), flush=True)


def main():
    paths = [os.path.abspath(path) for path in sys.argv[1:]] or [README] + sorted(
        os.path.join(GUIDES, name) for name in os.listdir(GUIDES) if name.endswith(".md"))
    faults = faults_of_lists() + [
        fault for path in paths for fault in faults_of_form(path) + faults_of_samples(path)]
    if faults:
        sys.exit("\n".join(faults))
    documents = {os.path.splitext(os.path.basename(path))[0]: path for path in paths if program(path)}
    for path in paths:
        if path not in documents.values() and blocks(path, from_samples=True):
            print(f"{os.path.relpath(path, ROOT)}: {len(blocks(path, from_samples=True))} blocks of code from Notes")
    if not documents:
        return print("No Swift code to run.")
    # Kept, so that a second call builds little.
    build = os.path.join(ROOT, ".build", "documents")
    home = os.path.join(build, "package")
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    write_package(documents, home)
    with tempfile.TemporaryDirectory() as directory:
        if README in paths:
            check_samples()
            check_manifest(directory)
        # Two scripts build their packages in this folder, to build the library once. A plan that was kept there may be
        # that of the other package.
        command = ["swift", "build", "--disable-build-manifest-caching"]
        result = run(command + ["--scratch-path", os.path.join(build, "build")], home, 1800)
        if result.returncode != 0 or re.search(r"\.md:\d+:\d+: warning:", result.stdout):
            sys.exit(result.stdout)
        for name, path in documents.items():
            binary = os.path.join(build, "build", "debug", name)
            check_program(name, path, binary, os.path.join(directory, "stores", name))


main()
