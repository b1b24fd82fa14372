//! Tokens of customers: text that was not issued never verifies, an issued token with any one change does
//! not either, and the ids that are read from a token are the ones that it was issued for. Recovery codes
//! print back to the same code, and no text but the code of the time is taken as a second factor.
#![no_main]

use std::sync::LazyLock;

use domain::TenantNo;
use libfuzzer_sys::fuzz_target;
use secrets::RootKey;
use sign_up::tokens::{MailedToken, Purpose, TokenKey};
use sign_up::totp::{RecoveryCode, Secret};
use uuid::Uuid;

const TENANT: TenantNo = TenantNo(7);
const OTHER: TenantNo = TenantNo(8);
const TOKEN: Uuid = Uuid::from_u128(2);

static KEY: LazyLock<TokenKey> = LazyLock::new(|| TokenKey::new(&RootKey::new([7; 32])));

/// Whether a text verifies as any of the tokens, for the ids that it names itself.
fn verifies(text: &str, generation: u32) -> [bool; 4] {
    let mailed =
        |purpose| MailedToken::read(text).is_some_and(|it| KEY.matches(purpose, &it, TOKEN));
    let access = TokenKey::read_access(text);
    [
        mailed(Purpose::VerifyEmail),
        mailed(Purpose::ResetPassword),
        access.is_some_and(|it| KEY.matches_access(TENANT, it, generation)),
        KEY.read_refresh(TENANT, text).is_some(),
    ]
}

fn check_issued(id: Uuid, generation: u32, (at, flip): (usize, u8)) {
    let tokens = [
        KEY.issue(Purpose::VerifyEmail, TENANT, id, TOKEN),
        KEY.issue(Purpose::ResetPassword, TENANT, id, TOKEN),
        KEY.issue_access(TENANT, id, generation),
        KEY.issue_refresh(TENANT, id, generation),
    ];
    for (kind, token) in tokens.iter().enumerate() {
        let expected: [bool; 4] = std::array::from_fn(|it| it == kind);
        assert_eq!(verifies(token, generation), expected);
        let mut changed = token.clone().into_bytes();
        let at = at % changed.len();
        changed[at] ^= flip;
        if flip != 0
            && let Ok(changed) = String::from_utf8(changed)
        {
            assert_eq!(verifies(&changed, generation), [false; 4], "{changed}");
        }
    }
    assert_eq!(MailedToken::read(&tokens[0]).map(|it| it.customer), Some(id));
    assert_eq!(TokenKey::read_access(&tokens[2]).map(|it| it.0), Some(id));
    assert_eq!(KEY.read_refresh(TENANT, &tokens[3]), Some((id, generation)));
    assert_eq!(KEY.read_refresh(OTHER, &tokens[3]), None);
    assert!(!verifies(&tokens[2], generation ^ 1)[2]);
}

fn check_second_factor(text: &str, id: Uuid, seconds: u64) {
    let secret = Secret::from_bytes(&[9; 20]).expect("a secret has 20 bytes");
    let step = secret.check(text, seconds, None);
    let around = [seconds.saturating_sub(30), seconds, seconds.saturating_add(30)];
    assert_eq!(step.is_some(), around.iter().any(|it| secret.code_at(*it) == text));
    // Each step once.
    assert!(
        step.is_none_or(|step| secret.check(text, seconds, Some(step)).is_none_or(|it| it > step))
    );
    let Some(code) = RecoveryCode::read(text) else {
        return;
    };
    assert_eq!(RecoveryCode::read(&code.shown()).as_ref(), Some(&code));
    let lower = code.shown().to_ascii_lowercase().replace('-', " ");
    assert_eq!(RecoveryCode::read(&lower).as_ref(), Some(&code));
    let mut stored = code.stored(&KEY, TENANT, id);
    assert!(code.matches(&KEY, TENANT, id, &stored));
    assert!(!code.matches(&KEY, OTHER, id, &stored));
    stored[0] ^= 1;
    assert!(!code.matches(&KEY, TENANT, id, &stored));
}

fuzz_target!(|data: &[u8]| {
    let Some((head, text)) = data.split_first_chunk::<30>() else {
        return;
    };
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let id = Uuid::from_u64_pair(number(0), number(8));
    let generation = u32::from_be_bytes(head[16..20].try_into().expect("four bytes"));
    check_issued(id, generation, (usize::from(head[28]), head[29]));
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    assert_eq!(verifies(text, generation), [false; 4], "{text} was never issued");
    check_second_factor(text, id, number(20) >> 16);
});
