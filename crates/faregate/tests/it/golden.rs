//! Data directories that earlier releases wrote: `conformance/goldens`, where PostgreSQL's are tested too.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Launch, Server, TempDir, run};

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/goldens");

fn releases() -> Vec<PathBuf> {
    let entries = fs::read_dir(GOLDENS).unwrap().map(|it| it.unwrap().path());
    entries.filter(|path| path.join("totals.json").exists()).collect()
}

/// Puts what a release left behind into a data directory.
fn unpack(release: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    let packed = release.join("faregate.db.gz");
    let unpacked = Command::new("gzip").arg("-dc").arg(packed).output().unwrap();
    assert!(unpacked.status.success());
    fs::write(to.join("faregate.db"), unpacked.stdout).unwrap();
    for name in ["secrets.key", "signup.key"] {
        fs::copy(release.join(name), to.join(name)).unwrap();
        fs::set_permissions(to.join(name), Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn what_a_release_wrote_is_migrated_verified_and_served() {
    let releases = releases();
    assert!(!releases.is_empty());
    for release in releases {
        let dir = TempDir::new();
        let data = dir.path().join("data");
        unpack(&release, &data);
        let server = Server::start_in(&data, Launch::usual());
        let client = server.client().tenant("equality", "secret");
        let totals: Value =
            serde_json::from_slice(&fs::read(release.join("totals.json")).unwrap()).unwrap();
        let payments = client.get("/1.0/kb/payments/pagination?limit=10000").json();
        assert_eq!(json!(payments.as_array().unwrap().len()), totals["payments"]);
        assert_eq!(client.get("/v1/ledger/accounts").json()["accounts"], totals["ledger"]);
        let tags = client.get("/1.0/kb/tags/pagination").json();
        assert_eq!(tags[0]["objectType"], "ACCOUNT", "tags came along: {tags}");
        let accounts = client.get("/1.0/kb/accounts/pagination?limit=1").json();
        let account = format!("/1.0/kb/accounts/{}", accounts[0]["accountId"].as_str().unwrap());
        assert_eq!(client.delete(&account).status, 204, "an account can be closed");
        assert_eq!(client.get(&format!("{account}/block")).json().as_array().unwrap().len(), 1);
        assert!(server.stop().0.success());
        let verified = run(&["verify", "--data-dir", data.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert_eq!(verified.status.code(), Some(0), "{}: {said}", release.display());
    }
}
