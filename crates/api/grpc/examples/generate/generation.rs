//! Generates the Rust code and the file descriptors for reflection from the protos.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use protox::prost::Message as _;

/// The file with the encoded descriptors.
const DESCRIPTORS: &str = "faregate.v1.bin";

/// All protos, relative to `proto`.
const PROTOS: &[&str] = &[
    "faregate/v1/account_service.proto",
    "faregate/v1/balance_service.proto",
    "faregate/v1/entitlement_service.proto",
    "faregate/v1/flag_service.proto",
    "faregate/v1/money.proto",
    "faregate/v1/payment.proto",
    "faregate/v1/payment_service.proto",
    "faregate/v1/property.proto",
];

/// The folder of the committed generated files.
pub fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated")
}

/// The generated files by name.
///
/// # Errors
/// A proto is invalid, or the temporary folder cannot be written.
pub fn generate() -> io::Result<BTreeMap<String, Vec<u8>>> {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../proto");
    let descriptors = protox::compile(PROTOS, [protos]).map_err(io::Error::other)?;
    let folder = std::env::temp_dir().join(format!("faregate-protos-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(&folder)
        .compile_fds(descriptors.clone())?;
    let mut files = BTreeMap::from([(DESCRIPTORS.to_owned(), descriptors.encode_to_vec())]);
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        files.insert(name.to_owned(), std::fs::read(&path)?);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(files)
}
