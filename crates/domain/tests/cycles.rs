//! Modules of a crate that import each other in a circle: there are none, but for those listed here.
#![expect(
    clippy::disallowed_methods,
    reason = "this test reads the repository; the domain reads nothing"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Cycles that stay, each with its reason: crate, modules.
const ALLOWED: &[(&str, &[&str])] = &[];

/// Files of one folder that import each other, each pair with the reason: the folder below `crates`, files.
const ALLOWED_FILES: &[(&str, &[&str])] = &[];

/// A crate's modules by name, each with the modules that it imports. A module is a file directly
/// below `src`, with the folder of its name.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_do_not_import_each_other() {
    let mut wrong = vec![];
    for (name, folder) in crates() {
        let imports = imports(&folder.join("src"));
        for cycle in cycles(&imports) {
            let is_allowed = ALLOWED.iter().any(|(of, modules)| *of == name && cycle == *modules);
            if !is_allowed {
                wrong.push(format!("{name}: {}", cycle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "modules that import each other:\n{}", wrong.join("\n"));
    assert!(ALLOWED.len() <= 5, "more cycles are a change of architecture");
}

/// Modules below another one: those beside a file that it names after `super::`.
#[test]
fn files_of_a_folder_do_not_import_each_other() {
    let mut files = vec![];
    let all = crates();
    all.iter().for_each(|(_, folder)| collect(&folder.join("src"), &mut files));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates");
    let mut folders: BTreeMap<String, Imports> = BTreeMap::new();
    for path in files {
        let below = path.strip_prefix(root).expect("a file of a crate");
        let folder = below.parent().expect("a folder");
        if folder.ends_with("src") || is_test(below) {
            continue;
        }
        let module = path.file_stem().and_then(|it| it.to_str()).expect("a plain name").to_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let mut found = named_after("super::", &text, &BTreeMap::new());
        found.remove(&module);
        let of_folder = folders.entry(folder.display().to_string()).or_default();
        of_folder.insert(module, found);
    }
    let mut wrong = vec![];
    for (folder, imports) in &folders {
        for cycle in cycles(imports) {
            if !ALLOWED_FILES.iter().any(|(of, files)| of == folder && cycle == *files) {
                wrong.push(format!("{folder}: {}", cycle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "files that import each other:\n{}", wrong.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let of = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    let imports = Imports::from([
        ("a".to_owned(), of(&["b"])),
        ("b".to_owned(), of(&["c", "d"])),
        ("c".to_owned(), of(&["a"])),
        ("d".to_owned(), of(&[])),
    ]);
    assert_eq!(cycles(&imports), [vec!["a", "b", "c"]]);
}

#[test]
fn imports_are_found_in_paths_lists_and_reexports() {
    let exports = BTreeMap::from([("Name".to_owned(), "named".to_owned())]);
    let text = "use crate::alpha::Thing;\nuse crate::{beta, gamma::{x, y}, Name};\n\
                fn f() { crate::delta::g() }\n// crate::comment\n#[cfg(test)]\nmod tests { use crate::test; }\n";
    let found = imported(text, &exports);
    let expected = ["alpha", "beta", "delta", "gamma", "named"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// Every crate, with its folder.
fn crates() -> Vec<(String, PathBuf)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates").to_owned();
    let mut found = vec![];
    for folder in [crates.clone(), crates.join("api")] {
        for entry in folder.read_dir().expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.join("Cargo.toml").exists() {
                let name = path.file_name().and_then(|it| it.to_str()).expect("a plain name");
                found.push((name.to_owned(), path));
            }
        }
    }
    assert!(found.len() > 10, "the crates were not found");
    found
}

fn imports(src: &Path) -> Imports {
    let root = std::fs::read_to_string(src.join("lib.rs"));
    let exports = reexports(&root.unwrap_or_default());
    let mut imports = Imports::new();
    let mut files = vec![];
    collect(src, &mut files);
    for path in files {
        let below = path.strip_prefix(src).expect("a file below src");
        let first = below.components().next().expect("a file has a name");
        let module = first.as_os_str().to_str().expect("a plain name").trim_end_matches(".rs");
        if module == "lib" || module == "main" || is_test(below) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let mut found = imported(&text, &exports);
        found.remove(module);
        imports.entry(module.to_owned()).or_default().append(&mut found);
    }
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    imports.values_mut().for_each(|it| it.retain(|name| modules.contains(name)));
    imports
}

fn is_test(below: &Path) -> bool {
    below.components().any(|part| {
        let name = part.as_os_str().to_str().unwrap_or_default();
        name == "tests" || name == "tests.rs" || name == "testing.rs"
    })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().into_iter().flatten() {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// The names that a crate's root exports, each with its module: `pub use module::{Name, ...};`.
fn reexports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root.split("use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let statement = statement.trim_start_matches("self::").trim_start_matches("crate::");
        let Some((module, rest)) = statement.split_once("::") else { continue };
        for name in rest.split(|c: char| !c.is_alphanumeric() && c != '_') {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

/// The modules that a file names after `crate::`, without its comments and its tests.
fn imported(text: &str, exports: &BTreeMap<String, String>) -> BTreeSet<String> {
    named_after("crate::", text, exports)
}

fn named_after(start: &str, text: &str, exports: &BTreeMap<String, String>) -> BTreeSet<String> {
    let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut found = BTreeSet::new();
    for rest in code.split(start).skip(1) {
        for name in first_names(rest) {
            found.insert(exports.get(name).map_or(name, String::as_str).to_owned());
        }
    }
    found
}

/// The first name of a path, or the first names in a list of paths.
fn first_names(rest: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name = |text: &'_ str| text.find(|c| !is_part(c)).unwrap_or(text.len());
    let Some(list) = rest.strip_prefix('{') else { return vec![&rest[..name(rest)]] };
    let (mut names, mut depth, mut is_first) = (vec![], 0, true);
    for (at, c) in list.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            c if depth == 0 && is_first && is_part(c) => {
                names.push(&list[at..at + name(&list[at..])]);
                is_first = false;
            }
            _ => {}
        }
    }
    names
}

/// The strongly connected modules, where they are several.
fn cycles(imports: &Imports) -> Vec<Vec<&str>> {
    let reaches = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in imports.get(module).into_iter().flatten() {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reaches(module))).collect();
    let mut found: Vec<Vec<&str>> = vec![];
    for (module, own) in &reached {
        let is_known = found.iter().any(|cycle| cycle.contains(module));
        if is_known || !own.contains(module) {
            continue;
        }
        let back = own.iter().filter(|it| reached.get(*it).is_some_and(|it| it.contains(module)));
        found.push(back.copied().collect());
    }
    found.retain(|cycle| cycle.len() > 1);
    found
}
