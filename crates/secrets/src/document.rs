//! Signs documents that programs hold: JWS in its compact form (RFC 7515), with Ed25519 (RFC 8037).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::key_file::Key;

/// The algorithm, as a header and a key name it.
pub const ALGORITHM: &str = "EdDSA";

/// The pair of keys that documents are signed with.
pub struct DocumentKey {
    pair: Ed25519KeyPair,
    /// The public half, in base64url.
    public: String,
    id: String,
}

impl DocumentKey {
    /// The pair that follows from a derived key: the same in every process.
    #[must_use]
    pub fn derived(key: &Key) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(key).expect("a seed has a key's length");
        let public = BASE64.encode(pair.public_key());
        // RFC 7638: the members that a key has to have, in the order of their names.
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}"#);
        let id = BASE64.encode(digest(&SHA256, members.as_bytes()));
        Self { pair, public, id }
    }

    /// The key's id: its thumbprint (RFC 7638), in base64url.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public half, in base64url: the member `x` of a JWK.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// A signed document; `kind` is its type, which no text of another type has.
    #[must_use]
    pub fn sign(&self, kind: &str, document: &[u8]) -> String {
        let id = &self.id;
        self.sign_with(&format!(r#"{{"alg":"{ALGORITHM}","typ":"{kind}","kid":"{id}"}}"#), document)
    }

    fn sign_with(&self, header: &str, document: &[u8]) -> String {
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(document));
        let signature = BASE64.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 8037, appendix A.
    #[test]
    fn signs_as_the_rfc_does() {
        let seed = BASE64.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        let key = DocumentKey::derived(&seed.try_into().unwrap());
        assert_eq!(key.public(), "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let signed = key.sign_with(r#"{"alg":"EdDSA"}"#, b"Example of Ed25519 signing");
        assert_eq!(
            signed,
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
             hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        );
    }
}
