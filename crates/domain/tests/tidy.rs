//! The rules of STYLE.md that a machine can check, checked over the whole repository.
#![expect(
    clippy::disallowed_methods,
    reason = "this test reads the repository; the domain reads nothing"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 800;

/// The crates that a crate may use. A crate that is not here is architecture: add it with a reason.
/// APIs (`crates/api`) never use each other: what two of them need is a crate or module below them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("engine", &["domain"]),
    // Libraries by themselves: they could be published.
    ("evaluation", &[]),
    ("iso8583", &[]),
    // Options of both binaries.
    ("command-line", &["iso8583"]),
    ("secrets", &[]),
    ("store", &["domain", "engine", "secrets"]),
    // HTTP to addresses of others.
    ("outbound", &["domain", "engine"]),
    ("gateway", &["domain", "engine", "outbound", "secrets"]),
    ("webhooks", &["domain", "engine", "outbound", "secrets"]),
    ("kafka", &["domain", "engine", "secrets"]),
    ("import", &["domain"]),
    ("web", &["domain", "engine"]),
    ("feature-flags", &["domain", "engine", "evaluation", "secrets"]),
    ("sign-up", &["domain", "engine", "secrets"]),
    // The tokens in mails are sign-up's.
    ("mail", &["domain", "engine", "secrets", "sign-up"]),
    // Tests of its users script the simulated gateway; the JSON of an event is what webhooks post.
    ("killbill", &["domain", "engine", "gateway", "secrets", "web", "webhooks"]),
    ("grpc", &["domain", "engine", "evaluation", "feature-flags", "web"]),
    ("flags", &["evaluation", "feature-flags", "web"]),
    ("signup", &["domain", "engine", "sign-up", "web"]),
    (
        "v1",
        &[
            "domain",
            "engine",
            "evaluation",
            "feature-flags",
            // The simulator's pages, and the names of Stripe's objects.
            "gateway",
            "outbound",
            "secrets",
            "sign-up",
            "web",
            "webhooks",
        ],
    ),
    ("http-server", &["engine", "domain", "secrets", "web"]),
    (
        "config",
        &[
            "domain",
            "engine",
            "evaluation",
            "feature-flags",
            "gateway",
            "http-server",
            "mail",
            "outbound",
            "sign-up",
            "store",
            "web",
        ],
    ),
    (
        "server",
        &[
            "config",
            "domain",
            "engine",
            "evaluation",
            "feature-flags",
            "flags",
            "gateway",
            "grpc",
            "http-server",
            "kafka",
            "killbill",
            "mail",
            "outbound",
            "secrets",
            "sign-up",
            "signup",
            "store",
            "v1",
            "web",
            "webhooks",
        ],
    ),
    // The gRPC client and the tokens of streams are those of the APIs under load.
    (
        "bench",
        &["command-line", "domain", "evaluation", "flags", "grpc", "iso8583", "kafka", "secrets"],
    ),
    (
        "cli",
        &[
            "command-line",
            "config",
            "domain",
            "engine",
            "evaluation",
            "gateway",
            "import",
            "iso8583",
            "kafka",
            // It signs what it forwards.
            "secrets",
            "server",
            "store",
            "webhooks",
        ],
    ),
    ("faregate", &["cli", "command-line", "config", "server"]),
    ("sim", &["domain", "engine", "store", "gateway", "evaluation", "feature-flags", "flags"]),
];

/// All that the domain may be built with: nothing that waits, asks the time, draws or logs.
const DOMAIN_DEPENDENCIES: &[&str] = &["jiff", "serde", "thiserror", "uuid"];

/// The words that the domain may not contain outside comments.
const DOMAIN_WORDS: &[&str] = &[
    "HashMap",
    "HashSet",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "Timestamp::now",
    "Zoned::now",
    "TimeZone::system",
    "now_v4",
    "now_v7",
    "new_v4",
    "rusqlite",
    "serde_json",
    "tracing",
    "async",
    "await",
    "f32",
    "f64",
    "println",
    "unsafe",
];

/// Who may name a database driver: a file, and what lies below it.
const DRIVERS: &[(&str, &str)] = &[
    ("rusqlite", "crates/store/src/driver/sqlite"),
    ("tokio_postgres", "crates/store/src/driver/postgres"),
];

const MODULE_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "misc", "types", "manager"];

/// Extensions of the text that people write here.
const TEXT: &[&str] =
    &["rs", "toml", "md", "py", "sh", "java", "js", "mjs", "json", "xml", "html", "sql", "proto"];

struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    /// The text without a trailing test module.
    fn without_tests(&self) -> &str {
        self.text.find("\n#[cfg(test)]").map_or(&self.text, |at| &self.text[..at])
    }

    /// The test module, or all of a file that holds nothing else.
    fn tests(&self) -> &str {
        if self.path.contains("/tests/") || self.path.ends_with("/tests.rs") {
            return &self.text;
        }
        self.text.find("\n#[cfg(test)]").map_or("", |at| &self.text[at..])
    }
}

#[test]
fn crates_depend_inwards_only() {
    let may_use: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = vec![];
    for (name, folder) in crates() {
        let manifest = read(&folder.join("Cargo.toml"));
        let Some(allowed) = may_use.get(name.as_str()) else {
            wrong.push(format!("crates/{name} is not in MAY_USE"));
            continue;
        };
        for used in dependencies(&manifest, "[dependencies]") {
            if may_use.contains_key(used.as_str()) && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{name} may not use {used}"));
            }
        }
    }
    assert_none("dependencies that point outwards", &wrong);
}

/// The profile `dist`, which is shipped, inherits `release`, in which some crates are not optimised.
#[test]
fn what_is_shipped_is_optimised() {
    let manifest = read(&root().join("Cargo.toml"));
    let names = |profile: &str| -> BTreeSet<String> {
        let head = format!("[profile.{profile}.package.");
        let names = manifest.lines().filter_map(|line| line.strip_prefix(&head));
        names.map(|name| name.trim_end_matches(']').to_owned()).collect()
    };
    let (release, dist) = (names("release"), names("dist"));
    assert!(!release.is_empty());
    let wrong: Vec<String> = release.difference(&dist).cloned().collect();
    assert_none("crates at level 0 in `release` without a line for `dist`", &wrong);
}

#[test]
fn the_domain_is_a_function() {
    let manifest = read(&root().join("crates/domain/Cargo.toml"));
    let mut wrong: Vec<String> = dependencies(&manifest, "[dependencies]")
        .into_iter()
        .filter(|name| !DOMAIN_DEPENDENCIES.contains(&name.as_str()))
        .map(|name| format!("crates/domain/Cargo.toml: {name}"))
        .collect();
    for file in sources().iter().filter(|file| file.path.starts_with("crates/domain/src/")) {
        for (line, code) in code_lines(file.without_tests()) {
            for word in DOMAIN_WORDS.iter().filter(|word| has_word(code, word)) {
                wrong.push(format!("{}:{line}: {word}", file.path));
            }
        }
    }
    assert_none("things that the domain may not know", &wrong);
}

#[test]
fn only_the_drivers_know_which_database_runs() {
    let mut wrong = vec![];
    for file in sources() {
        let is_at = |home: &str| {
            let rest = file.path.strip_prefix(home).unwrap_or_default();
            rest == ".rs" || rest.starts_with('/')
        };
        for (driver, home) in DRIVERS.iter().filter(|(_, home)| !is_at(home)) {
            let lines = code_lines(&file.text);
            let naming = lines.filter(|(_, code)| has_word(code, driver));
            // This list names them too.
            let naming = naming.filter(|_| file.path != "crates/domain/tests/tidy.rs");
            wrong.extend(naming.map(|(line, _)| format!("{}:{line}: only {home}", file.path)));
        }
    }
    assert_none("drivers named outside their file", &wrong);
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut wrong = vec![];
    for file in sources() {
        let lines = file.without_tests().lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{}: {lines} lines, {LINES_MAX} at most", file.path));
        }
        if !file.text.starts_with("//! ") {
            wrong.push(format!("{}: does not start with a `//!` sentence", file.path));
        }
    }
    assert_none("files to split or to introduce", &wrong);
}

#[test]
fn modules_are_named_after_what_they_hold() {
    let mut wrong = vec![];
    for file in sources() {
        let path = Path::new(&file.path);
        let parts = path.with_extension("");
        for part in parts.iter().filter_map(|part| part.to_str()) {
            if MODULE_NAMES.contains(&part) {
                wrong.push(format!("{}: {part}", file.path));
            }
        }
        for (line, code) in code_lines(&file.text) {
            let Some((_, after)) = code.split_once("mod ") else { continue };
            let name = after.trim_end_matches([' ', '{', ';']);
            if MODULE_NAMES.contains(&name) {
                wrong.push(format!("{}:{line}: mod {name}", file.path));
            }
        }
    }
    assert_none("modules named after nothing", &wrong);
}

/// Whether a test is ignored only where its server is missing: `conformance/run` starts it.
fn is_run_with_servers(line: &str) -> bool {
    let reason = line.trim().strip_prefix(concat!("#[ig", "nore = \"needs "));
    reason.is_some_and(|reason| reason.ends_with(": conformance/run\"]"))
}

#[test]
fn nothing_is_left_unfinished_or_silenced() {
    let banned_code = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[al", "low"),
        concat!("#![al", "low"),
        concat!("#[ig", "nore"),
        concat!("assert!(tr", "ue)"),
    ];
    let banned_comments = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    let mut wrong = vec![];
    for file in sources() {
        for (line, text) in numbered(&file.text) {
            let code = banned_code.iter().find(|word| code_of(text).contains(**word));
            let code = code.filter(|_| !is_run_with_servers(text));
            let comment = &text[code_of(text).len()..];
            let comment = banned_comments.iter().find(|word| has_word(comment, word));
            let found = code.into_iter().chain(comment);
            wrong.extend(found.map(|word| format!("{}:{line}: {word}", file.path)));
        }
    }
    assert_none("unfinished or silenced code", &wrong);
}

#[test]
fn tests_do_not_sleep() {
    let mut wrong = vec![];
    // On tokio's paused clock a sleep takes no time.
    let is_timed = |file: &&SourceFile| !file.tests().contains("start_paused");
    let others = |file: &&SourceFile| file.path != "crates/domain/tests/tidy.rs";
    for file in sources().iter().filter(others).filter(is_timed) {
        let sleeping = code_lines(file.tests()).filter(|(_, code)| has_word(code, "sleep"));
        wrong.extend(sleeping.map(|(_, code)| format!("{}: {}", file.path, code.trim())));
    }
    assert_none("tests that wait for time to pass", &wrong);
}

#[test]
fn no_machine_is_named() {
    let banned = [
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Use", "rs/"),
        concat!("/wo", "rk/"),
        concat!("/tmp/", "lab"),
    ];
    let mut wrong = vec![];
    for file in texts() {
        for (line, text) in numbered(&file.text) {
            let found = banned.iter().find(|word| text.contains(**word));
            wrong.extend(found.map(|word| format!("{}:{line}: {word}", file.path)));
        }
    }
    assert_none("paths of somebody's machine", &wrong);
}

#[test]
fn documents_point_at_what_exists() {
    let mut wrong = vec![];
    for file in texts().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = root().join(&file.path).parent().expect("a file has a folder").to_owned();
        for target in link_targets(&file.text) {
            let path = target.split('#').next().unwrap_or_default();
            let foreign = path.contains("://") || path.starts_with("mailto:");
            if foreign {
                continue;
            }
            let page = if path.is_empty() { root().join(&file.path) } else { folder.join(path) };
            let is_there = match target.split_once('#') {
                Some((_, anchor)) if page.extension().is_some_and(|it| it == "md") => {
                    page.exists() && anchors(&read(&page)).any(|it| it == anchor)
                }
                _ => page.exists(),
            };
            if !is_there {
                wrong.push(format!("{}: {target}", file.path));
            }
        }
        for path in named_paths(&file.text) {
            if !root().join(path).exists() {
                wrong.push(format!("{}: `{path}`", file.path));
            }
        }
    }
    assert_none("links and paths that lead nowhere", &wrong);
}

#[test]
fn the_index_of_documents_has_each_page() {
    let index = read(&root().join("docs/README.md"));
    let linked: BTreeSet<_> = link_targets(&index).collect();
    let of_readers = ["tutorial/", "how-to/", "reference/", "explanation/"];
    let mut wrong = vec![];
    for file in texts().iter().filter(|file| file.path.ends_with(".md")) {
        let Some(page) = file.path.strip_prefix("docs/") else { continue };
        let is_of_developers = !page.contains('/') && page != "README.md";
        let is_page = is_of_developers || of_readers.iter().any(|it| page.starts_with(it));
        if is_page && !linked.contains(page) {
            wrong.push(file.path.clone());
        }
    }
    assert_none("pages that docs/README.md does not link", &wrong);
}

/// A reader with a job does not read more at a time.
const PARAGRAPH_WORDS_MAX: usize = 60;

#[test]
fn paragraphs_of_documents_are_short() {
    let mut wrong = vec![];
    let is_prose = |path: &str| {
        path == "README.md" || path.starts_with("docs/") && !path.starts_with("docs/decisions/")
    };
    for file in texts().iter().filter(|file| file.path.ends_with(".md") && is_prose(&file.path)) {
        let mut in_code = false;
        for (line, text) in numbered(&file.text) {
            in_code ^= text.trim_start().starts_with("```");
            if in_code || text.starts_with(['|', '#']) {
                continue;
            }
            let shown = text.split("](").enumerate().map(|(n, part)| match n {
                0 => part,
                _ => part.split_once(')').map_or(part, |(_, rest)| rest),
            });
            let words = shown.collect::<String>().split_whitespace().count();
            if words > PARAGRAPH_WORDS_MAX {
                wrong.push(format!("{}:{line}: {words} words", file.path));
            }
        }
    }
    assert_none("paragraphs that are too long", &wrong);
}

/// Functions, paths of code, and names with an underscore in the guides to the code.
#[test]
fn documents_quote_names_that_the_code_has() {
    let sources = sources();
    let code = sources.iter().flat_map(|file| words(&file.text)).collect::<BTreeSet<_>>();
    let mut wrong = vec![];
    for file in texts().iter().filter(|file| file.path.ends_with(".md")) {
        let prose = file.text.split("```").step_by(2);
        for span in prose.flat_map(|text| text.split('`').skip(1).step_by(2)) {
            let Some(name) = quoted_name(span) else { continue };
            let is_of_code = name.contains("::") || name.len() < span.len();
            let is_guide = file.path == "ARCHITECTURE.md"
                || file.path.starts_with("docs/") && file.path.matches('/').count() == 1;
            let quotes =
                is_of_code || is_guide && name.contains('_') && name == name.to_lowercase();
            if quotes && !words(name).all(|word| code.contains(word)) {
                wrong.push(format!("{}: `{span}`", file.path));
            }
        }
    }
    assert_none("names that the code does not have", &wrong);
}

/// The pages that say where in the code something is.
const MAPS: [&str; 3] = ["ARCHITECTURE.md", "docs/glossary.md", "docs/where-to-look.md"];

/// In these pages a name is in the file that follows it (`name` in `path`). Any other name is in a
/// file of its sentence or its part of a table's cell; without one, in a file of its paragraph or row.
#[test]
fn names_are_in_the_files_that_documents_give() {
    let sources = sources();
    let has = |path: &str, name: &str| {
        let mut files = sources.iter().filter(|file| Path::new(&file.path).starts_with(path));
        files.any(|file| has_word(&file.text, name))
    };
    let mut wrong = vec![];
    for page in MAPS {
        let text = read(&root().join(page));
        for line in text.split("```").step_by(2).flat_map(str::lines) {
            let spans = line.split('`').skip(1).step_by(2);
            let short = spans.filter(|it| it.ends_with(".rs") && !it.contains('/'));
            wrong.extend(short.map(|it| format!("{page}: `{it}` lacks its folder")));
            for part in line.split(['|', ';']).flat_map(|it| it.split(". ")) {
                for (name, files) in names_with_files(part, line) {
                    let last = words(name).last().unwrap_or_default();
                    if !files.is_empty() && !files.iter().any(|path| has(path, last)) {
                        wrong.push(format!("{page}: `{name}` is not in {}", files.join(", ")));
                    }
                }
            }
        }
    }
    assert_none("names that are not in the files given for them", &wrong);
}

/// The names in a part of a line, each with the files that are given for it.
fn names_with_files<'a>(part: &'a str, line: &'a str) -> Vec<(&'a str, Vec<&'a str>)> {
    let is_code = |path: &str| path.starts_with("crates/");
    let mut near: Vec<_> = named_paths(part).filter(|it| is_code(it)).collect();
    if near.is_empty() {
        near.extend(named_paths(line).filter(|it| is_code(it)));
    }
    let pieces: Vec<_> = part.split('`').collect();
    let spans = (1..pieces.len()).step_by(2);
    let names = spans.filter_map(|at| Some((quoted_name(pieces[at])?, &pieces[at + 1..])));
    let with_files = names.map(|(name, rest)| match rest {
        [" in ", file, ..] if is_code(file) => (name, vec![*file]),
        _ => (name, near.clone()),
    });
    with_files.collect()
}

/// The name that a text between backticks is: words with `::` between them, perhaps of a call.
fn quoted_name(span: &str) -> Option<&str> {
    let is_name = |it: &str| words(it).count() == 1 && !it.contains([' ', '.', '/', '-']);
    let name = span.trim_end_matches("()");
    name.split("::").all(is_name).then_some(name)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty())
}

#[test]
fn the_reference_names_what_there_is() {
    let settings = read(&root().join("config.default.toml"));
    let mut wrong = unnamed("configuration.md", setting_names(&settings));
    let sources = sources();
    let shipped = sources.iter().filter(|file| file.path.contains("/src/"));
    let metrics = shipped.flat_map(|file| texts_between(&file.text, "\"faregate_", "\""));
    let metrics = metrics.filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let metrics = metrics.map(|name| format!("faregate_{name}"));
    wrong.extend(unnamed("metrics.md", metrics));
    let errors = sources.iter().filter(|file| file.path == "crates/api/v1/src/error.rs");
    let problems = errors.flat_map(|file| texts_between(&file.text, "(StatusCode::", ")"));
    let problems: Vec<_> =
        problems.filter_map(|it| it.split('"').nth(1).map(str::to_owned)).collect();
    assert!(problems.len() > 20, "the names of problems are where they were: {problems:?}");
    wrong.extend(unnamed("errors.md", problems.into_iter()));
    assert_none("things that the reference does not name", &wrong);
}

/// The files that mount routes of tables: the test of all routes with all credentials reads the same.
/// `/v1` mounts by `routes!`, which also documents.
const MOUNTS: [&str; 7] = [
    "crates/api/killbill/src/lib.rs",
    "crates/api/signup/src/lib.rs",
    "crates/api/flags/src/lib.rs",
    "crates/server/src/operations.rs",
    "crates/server/src/pages.rs",
    "crates/server/src/probe.rs",
    "crates/server/src/sign_up.rs",
];

#[test]
fn routes_are_mounted_from_their_tables_only() {
    let is_api = |path: &str| path.starts_with("crates/api/") || path.starts_with("crates/server/");
    let mounts = |file: &SourceFile| {
        let is_shipped = is_api(&file.path) && file.path.contains("/src/");
        is_shipped && file.without_tests().contains(".route(")
    };
    let files = sources().into_iter().filter(mounts).map(|file| file.path);
    let wrong: Vec<_> = files.filter(|path| !MOUNTS.contains(&path.as_str())).collect();
    assert_none("files that mount a route beside the tables of routes", &wrong);
}

#[test]
fn the_readme_has_its_two_commands() {
    let readme = read(&root().join("README.md"));
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "README.md lacks `{command}`");
    }
}

fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

fn root() -> PathBuf {
    let domain = Path::new(env!("CARGO_MANIFEST_DIR"));
    domain.ancestors().nth(2).expect("crates/domain lies two levels down").to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every crate with its folder: those below `crates`, and the APIs below `crates/api`.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = [root().join("crates"), root().join("crates/api")];
    let found = folders.iter().flat_map(|folder| {
        names_in(folder).into_iter().map(|name| (name.clone(), folder.join(name)))
    });
    found.filter(|(_, folder)| folder.join("Cargo.toml").exists()).collect()
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.expect("a readable folder").file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// Every Rust file of ours.
fn sources() -> Vec<SourceFile> {
    texts().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// Every text that people wrote: not what is built, downloaded or recorded.
fn texts() -> Vec<SourceFile> {
    let mut files = vec![];
    collect(&root(), "", &mut files);
    assert!(files.len() > 10, "the repository was not found at {}", root().display());
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) {
    let left_out = ["target", "node_modules", "vectors", "data", "generated", "lib"];
    // In a worktree, `.git` is a file.
    for name in names_in(folder).into_iter().filter(|name| name != ".git") {
        let path = folder.join(&name);
        let shown = format!("{prefix}{name}");
        // Built from openapi.json by its generator, whose test checks the links.
        if shown == "docs/reference/api" {
            continue;
        }
        if path.is_dir() && !left_out.contains(&name.as_str()) {
            collect(&path, &format!("{shown}/"), files);
            continue;
        }
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let is_script = extension.is_empty() && path.is_file();
        if (TEXT.contains(&extension) || is_script)
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            files.push(SourceFile { path: shown, text });
        }
    }
}

/// The names under a heading of a manifest.
fn dependencies(manifest: &str, heading: &str) -> Vec<String> {
    let body = manifest.lines().skip_while(|line| line.trim() != heading).skip(1);
    let body = body.take_while(|line| !line.starts_with('['));
    let named = body.filter(|line| !line.trim_start().starts_with('#'));
    let names = named.filter_map(|line| line.split(['.', '=', ' ']).next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Those of the names that a page of the reference does not have between backticks.
fn unnamed(page: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let text = read(&root().join("docs/reference").join(page));
    let is_named =
        |name: &str| ["`", " "].iter().any(|before| text.contains(&format!("{before}{name}`")));
    let missing = names.filter(|name| !is_named(name));
    missing.map(|name| format!("docs/reference/{page}: {name}")).collect()
}

/// The settings of a configuration file, each with its section.
fn setting_names(toml: &str) -> impl Iterator<Item = String> {
    let mut section = String::new();
    toml.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        }
        let (name, _) = line.split_once(" = ")?;
        (!name.starts_with('#')).then(|| format!("{section}{name}"))
    })
}

fn texts_between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(end).next())
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(text).map(|(line, text)| (line, code_of(text)))
}

/// A line without its comment.
fn code_of(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The targets of links: of `[text](target)` the target.
fn link_targets(markdown: &str) -> impl Iterator<Item = &str> {
    markdown.match_indices("](").filter_map(|(at, _)| markdown[at + 2..].split(')').next())
}

/// The anchors that GitHub gives to the headings of a page; the second of a name ends in `-1`.
fn anchors(markdown: &str) -> impl Iterator<Item = String> {
    let mut known = BTreeMap::<String, usize>::new();
    markdown.lines().filter(|line| line.starts_with('#')).map(move |line| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        // Of a link in a heading only the text counts.
        let text = text.split("](").map(|part| part.split_once(')').map_or(part, |it| it.1));
        let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
        let anchor: String = text.collect::<String>().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let before = known.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    })
}

/// Paths of this repository between backticks: those that begin with one of its folders.
fn named_paths(markdown: &str) -> impl Iterator<Item = &str> {
    let folders = ["crates/", "docs/", "conformance/", "bench/", ".ci/"];
    let spans = markdown.split('`').skip(1).step_by(2);
    spans.filter(move |span| {
        folders.iter().any(|folder| span.starts_with(folder))
            && !span.contains([' ', '*', '{', '<', '\n', '…'])
    })
}
