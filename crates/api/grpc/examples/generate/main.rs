//! Writes `src/generated` from the protos: `cargo run -p grpc --example generate`.

use std::io;

mod generation;

fn main() -> io::Result<()> {
    let folder = generation::committed();
    for (name, content) in generation::generate()? {
        std::fs::write(folder.join(name), content)?;
    }
    Ok(())
}
