//! The built-in formats, which are compiled on first use.

use std::sync::OnceLock;

use crate::packager::Packager;

const DESCRIPTIONS: [(&str, &str); 13] = [
    ("iso87a", include_str!("../../packagers/iso87a.toml")),
    ("iso87b", include_str!("../../packagers/iso87b.toml")),
    ("iso87e", include_str!("../../packagers/iso87e.toml")),
    ("iso93a", include_str!("../../packagers/iso93a.toml")),
    ("iso93b", include_str!("../../packagers/iso93b.toml")),
    ("iso93e", include_str!("../../packagers/iso93e.toml")),
    ("iso2003a", include_str!("../../packagers/iso2003a.toml")),
    ("iso2003b", include_str!("../../packagers/iso2003b.toml")),
    ("base1", include_str!("../../packagers/base1.toml")),
    ("base24", include_str!("../../packagers/base24.toml")),
    ("postilion", include_str!("../../packagers/postilion.toml")),
    ("euro", include_str!("../../packagers/euro.toml")),
    ("xml", include_str!("../../packagers/xml.toml")),
];

const NAMES: [&str; DESCRIPTIONS.len()] = {
    let mut names = [""; DESCRIPTIONS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = DESCRIPTIONS[at].0;
        at += 1;
    }
    names
};

static COMPILED: [OnceLock<Packager>; DESCRIPTIONS.len()] =
    [const { OnceLock::new() }; DESCRIPTIONS.len()];

pub(super) fn names() -> &'static [&'static str] {
    &NAMES
}

pub(super) fn packager(name: &str) -> Option<Packager> {
    let at = NAMES.iter().position(|known| *known == name)?;
    let compile = || {
        let text = DESCRIPTIONS[at].1;
        Packager::from_toml(text).expect("a test compiles every built-in description")
    };
    Some(COMPILED[at].get_or_init(compile).clone())
}
