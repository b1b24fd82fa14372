//! Modules and files of a crate that import each other in a circle: there are none, but for those listed here.
#![expect(
    clippy::disallowed_methods,
    reason = "this test reads the repository; the domain reads nothing"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates whose modules are aggregates, which name each other's rows: only their files are in an order.
const OF_AGGREGATES: &[&str] = &["domain"];

/// Files that import each other and stay, each circle with its reason: the crate, files.
const ALLOWED: &[(&str, &[&str])] = &[];

/// A file of a crate as a path of modules; empty for the root.
type Module = Vec<String>;

/// Modules or files by name, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The files of a crate without their comments and tests, and the names that each exports of others.
#[derive(Default)]
struct Files {
    texts: BTreeMap<Module, String>,
    exports: BTreeMap<(Module, String), Module>,
}

/// A module is a file directly below `src`, with the folder of its name.
#[test]
fn modules_do_not_import_each_other() {
    check(OF_AGGREGATES, |files| {
        let mut imports = Imports::new();
        for (file, imported) in files.imports() {
            let found = imports.entry(file[0].clone()).or_default();
            let others = imported.into_iter().map(|it| it[0].clone()).filter(|it| *it != file[0]);
            found.extend(others);
        }
        imports
    });
}

/// A file and those in the folder of its name, which are its parts, may name each other.
#[test]
fn files_do_not_import_each_other() {
    check(&[], |files| {
        let named = |file: &Module| file.join("/");
        let imports = files.imports().into_iter().map(|(file, imported)| {
            let is_part = |it: &Module| it.starts_with(&file) || file.starts_with(it);
            (named(&file), imported.iter().filter(|it| !is_part(it)).map(named).collect())
        });
        imports.collect()
    });
}

/// Looks for circles in all crates but some.
fn check(without: &[&str], imports: impl Fn(&Files) -> Imports) {
    let mut wrong = vec![];
    for (name, folder) in crates().iter().filter(|(name, _)| !without.contains(&name.as_str())) {
        for cycle in cycles(&imports(&Files::read(&folder.join("src")))) {
            if !ALLOWED.iter().any(|(of, files)| of == name && cycle == *files) {
                wrong.push(format!("{name}: {}", cycle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "these import each other:\n{}", wrong.join("\n"));
    assert!(ALLOWED.len() <= 2, "more circles are a change of architecture");
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
    let files = Files::of([
        ("", "pub use gamma::Name;"),
        (
            "alpha",
            "use crate::{beta, gamma::{inner::X, y}};\nuse crate::Name;\nuse super::delta as it;\n\
             fn f() { self::part::g() }\n// crate::epsilon\n#[cfg(test)]\nmod tests { use crate::epsilon; }\n",
        ),
        ("alpha/part", "use super::Thing;"),
        ("beta", ""),
        ("gamma", ""),
        ("gamma/inner", ""),
        ("delta", ""),
        ("epsilon", ""),
    ]);
    let imports = files.imports();
    let of = |file: &[&str]| -> Vec<String> {
        imports[&file.iter().map(ToString::to_string).collect::<Module>()]
            .iter()
            .map(|it| it.join("/"))
            .collect()
    };
    assert_eq!(of(&["alpha"]), ["alpha/part", "beta", "delta", "gamma", "gamma/inner"]);
    assert_eq!(of(&["alpha", "part"]), ["alpha"]);
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

impl Files {
    fn read(src: &Path) -> Self {
        let mut paths = vec![];
        collect(src, &mut paths);
        let mut files = Self::default();
        for path in paths {
            let below = path.strip_prefix(src).expect("a file below src").with_extension("");
            let file = below.to_str().expect("a plain path").to_owned();
            let is_test = file.split('/').any(|it| ["tests", "testing"].contains(&it));
            if file != "main" && !is_test {
                files.add(&file, &std::fs::read_to_string(&path).expect("a readable file"));
            }
        }
        files
    }

    fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let mut all = Self::default();
        files.iter().for_each(|(file, text)| all.add(file, text));
        all
    }

    fn add(&mut self, file: &str, text: &str) {
        let parts = file.split('/').filter(|it| !["", "lib"].contains(it));
        let module: Module = parts.map(str::to_owned).collect();
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        for statement in
            ["pub use ", "pub(crate) use "].iter().flat_map(|it| text.split(it).skip(1))
        {
            let is_absolute = statement.starts_with("crate::");
            let path = statement.trim_start_matches("self::").trim_start_matches("crate::");
            let base = if is_absolute { vec![] } else { module.clone() };
            for mut path in paths(path) {
                let Some(name) = path.pop() else { continue };
                self.exports.insert((module.clone(), name), [base.clone(), path].concat());
            }
        }
        self.texts.insert(module, text);
    }

    /// Each file but the root, with those that it imports.
    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let below_root = self.texts.iter().filter(|(file, _)| !file.is_empty());
        let imports = below_root.map(|(file, text)| {
            let parent = &file[..file.len() - 1];
            let named = [("crate::", &[][..]), ("super::", parent), ("self::", file)];
            let mut found = BTreeSet::new();
            for (start, base) in named {
                let all = text.split(start).skip(1).flat_map(paths);
                found.extend(all.filter_map(|path| self.file_of([base, &path].concat())));
            }
            found.remove(file);
            (file.clone(), found)
        });
        imports.collect()
    }

    /// The file that a path leads to, through what files export of others; `None` for the root.
    fn file_of(&self, mut path: Module) -> Option<Module> {
        for _ in 0..10 {
            let len = (0..=path.len()).rev().find(|len| self.texts.contains_key(&path[..*len]))?;
            let (file, rest) = path.split_at(len);
            let exported =
                rest.first().and_then(|name| self.exports.get(&(file.to_vec(), name.clone())));
            match exported {
                Some(of) => path = [of.as_slice(), rest].concat(),
                None => return Some(file.to_vec()).filter(|it| !it.is_empty()),
            }
        }
        None
    }
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

/// The paths that a text begins with: one, or all of a list.
fn paths(text: &str) -> Vec<Module> {
    let Some(list) = text.strip_prefix('{') else {
        let len = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(len);
        if name.is_empty() {
            return vec![];
        }
        let below = rest.strip_prefix("::").map(paths).unwrap_or_default();
        let whole = |path: Module| [vec![name.to_owned()], path].concat();
        return match below.is_empty() {
            true => vec![vec![name.to_owned()]],
            false => below.into_iter().map(whole).collect(),
        };
    };
    let (mut found, mut depth, mut start) = (vec![], 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(paths(list[start..at].trim_start()));
                start = at + 1;
            }
            _ => {}
        }
        if c == '}' && start == at + 1 {
            break;
        }
    }
    found
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
