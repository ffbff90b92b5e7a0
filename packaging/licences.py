#!/usr/bin/env python3
"""The licence texts of every crate that is linked into the binary, each text once.

licences.py TARGET >licences.txt: reads `cargo metadata` of this project, follows what is linked for TARGET (no build or
development dependencies), and prints the texts found in the crates' own directories.
"""
import hashlib
import json
import pathlib
import subprocess
import sys

NAMES = ("licen", "copying", "notice", "unlicense")


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(found):
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    root = found["resolve"]["root"]
    seen, todo = {root}, [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return seen - {root}


def texts(package):
    directory = pathlib.Path(package["manifest_path"]).parent
    files = [file for file in directory.rglob("*") if file.is_file() and file.name.lower().startswith(NAMES)]
    # A source file of that name is no text of a licence.
    return [file.read_text(errors="replace").strip() for file in sorted(files) if file.suffix in ("", ".md", ".txt")
            or file.suffix.lower().startswith(("-", ".mit", ".apache"))]


def main():
    found = metadata(sys.argv[1])
    ids = linked(found)
    packages = sorted((p for p in found["packages"] if p["id"] in ids), key=lambda p: (p["name"], p["version"]))
    numbers, bodies = {}, []
    print("Crates that are part of maitred, their licences, and where below the text of each stands.\n")
    for package in packages:
        places = []
        for text in texts(package):
            key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
            if key not in numbers:
                numbers[key] = len(bodies) + 1
                bodies.append(text)
            places.append(f"[{numbers[key]}]")
        if not package["license"] and not places:
            sys.exit(f"{package['name']} {package['version']}: no licence named and no text found")
        print(f"{package['name']} {package['version']}: {package['license']} {' '.join(dict.fromkeys(places))}".rstrip())
    for number, body in enumerate(bodies, 1):
        print(f"\n{'=' * 78}\n[{number}]\n\n{body}")


main()
