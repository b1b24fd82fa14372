//! Writes a page of each resource of the HTTP APIs, made from `docs/reference/openapi.json`:
//! `cargo run -p web --example reference [FOLDER]`. The default folder is `api` beside that document.

mod pages;

use std::error::Error;
use std::path::PathBuf;

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| reference().join("api"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in pages::pages(&document()?)? {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The document that a test of the server compares with the served one.
fn document() -> Result<Value, Box<dyn Error>> {
    Ok(serde_json::from_slice(&std::fs::read(reference().join("openapi.json"))?)?)
}

fn reference() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}
