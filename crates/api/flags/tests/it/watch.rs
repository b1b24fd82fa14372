//! Reading and watching a user's flags through `FlagReader`.

use std::sync::Arc;

use evaluation::{Evaluation, User};
use feature_flags::{FlagReader, FlagUpdate, Grant, ReadError, Watch, WatchLimits};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::fixture::{
    CHECKOUT, CLIENT_SECRET, ENVIRONMENT, Fixture, LAYOUT, MEMBERS, RELAY_SECRET, SERVER_SECRET,
    TIMEOUT, sample,
};

type Show = fn(&Evaluation<'_>, i64) -> (String, String);
type Update = Result<FlagUpdate<(String, String)>, ReadError>;

fn reader(fixture: &Fixture, limits: WatchLimits) -> (FlagReader, Arc<Grant>) {
    let reader = FlagReader::new(Arc::clone(&fixture.cache), limits);
    let grant = reader.grant(Some(CLIENT_SECRET)).unwrap();
    (reader, grant)
}

/// A flag's key and value.
fn shown(it: &Evaluation<'_>, _: i64) -> (String, String) {
    (it.flag.key.clone(), it.variation.map(|it| it.value.clone()).unwrap_or_default())
}

fn watch(reader: &FlagReader, grant: &Arc<Grant>) -> Result<Watch<Show>, ReadError> {
    let show: Show = shown;
    reader.watch(Arc::clone(grant), User::new("ann"), show)
}

async fn next<S: futures_util::Stream<Item = Update> + Unpin>(stream: &mut S) -> Option<Update> {
    tokio::time::timeout(TIMEOUT, stream.next()).await.expect("no update")
}

fn keys(update: &FlagUpdate<(String, String)>) -> Vec<&str> {
    update.flags.iter().map(|(key, _)| key.as_str()).collect()
}

#[tokio::test]
async fn secrets_of_sdks_grant_their_environment() {
    let fixture = Fixture::start().await;
    let (reader, _) = reader(&fixture, WatchLimits::default());
    for secret in [SERVER_SECRET, CLIENT_SECRET] {
        let grant = reader.grant(Some(secret)).unwrap();
        assert_eq!(grant.environments()[0].id(), ENVIRONMENT);
    }
    for secret in [None, Some("unknown"), Some(""), Some(RELAY_SECRET)] {
        assert_eq!(reader.grant(secret).err(), Some(ReadError::Unauthorized), "{secret:?}");
    }
    fixture.cache.set_available(false);
    assert_eq!(reader.grant(Some(CLIENT_SECRET)).err(), Some(ReadError::Unavailable));
}

#[tokio::test]
async fn flags_are_evaluated() {
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, WatchLimits::default());
    let ask = async |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|it| (*it).to_owned()).collect();
        reader.evaluate(&grant, User::new("ann"), &keys, shown).await.unwrap()
    };
    let all = ask(&[]).await;
    let expected: Vec<String> = sample().snapshot.flags().map(|it| it.flag().key.clone()).collect();
    assert_eq!(all.iter().map(|it| &it.0).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    let two = ask(&[CHECKOUT, "nothing", LAYOUT, CHECKOUT]).await;
    let keys: Vec<&str> = two.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, [LAYOUT, CHECKOUT]);
    fixture.change_flag(CHECKOUT, 1, |flag| flag.is_archived = true);
    assert_eq!(ask(&[CHECKOUT]).await, []);
    assert_eq!(ask(&[]).await.len(), all.len() - 1);
}

#[tokio::test]
async fn a_watch_gets_all_flags_and_then_changes() {
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, WatchLimits::default());
    let mut watching = watch(&reader, &grant).unwrap();
    let full = next(&mut watching).await.unwrap().unwrap();
    let all = reader.evaluate(&grant, User::new("ann"), &[], shown).await.unwrap();
    assert_eq!(full, FlagUpdate { is_full: true, flags: all, removed: vec![] });
    assert!(watching.next().now_or_never().is_none(), "nothing changed");

    fixture.change_flag(CHECKOUT, 1, |flag| flag.is_enabled = !flag.is_enabled);
    let patch = next(&mut watching).await.unwrap().unwrap();
    let keys_of_one = [CHECKOUT.to_owned()];
    let asked = reader.evaluate(&grant, User::new("ann"), &keys_of_one, shown);
    let value = &asked.await.unwrap()[0];
    assert_eq!(patch, FlagUpdate { is_full: false, flags: vec![value.clone()], removed: vec![] });
    // Only that flag asks about the segment.
    fixture.change_segment(MEMBERS, 2, |segment| segment.included.push("ann".to_owned()));
    assert_eq!(keys(&next(&mut watching).await.unwrap().unwrap()), [LAYOUT]);
    fixture.change_flag(CHECKOUT, 3, |flag| flag.is_archived = true);
    let removed = next(&mut watching).await.unwrap().unwrap();
    let gone = FlagUpdate { is_full: false, flags: vec![], removed: vec![CHECKOUT.to_owned()] };
    assert_eq!(removed, gone);
    // A new watch does not contain it.
    let full = next(&mut watch(&reader, &grant).unwrap()).await.unwrap().unwrap();
    assert!(full.is_full && !keys(&full).contains(&CHECKOUT));
}

#[tokio::test]
async fn a_watch_that_is_not_read_ends_as_too_slow() {
    let limits = WatchLimits { behind_max: 3, ..WatchLimits::default() };
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, limits);
    let (mut slow, mut waiting) =
        (watch(&reader, &grant).unwrap(), watch(&reader, &grant).unwrap());
    next(&mut slow).await.unwrap().unwrap();
    next(&mut waiting).await.unwrap().unwrap();
    assert!(waiting.next().now_or_never().is_none());
    for second in 1..=3 {
        fixture.change_flag(CHECKOUT, second, |flag| flag.is_enabled = !flag.is_enabled);
    }
    // As many changes as the bound: one update.
    assert_eq!(keys(&next(&mut slow).await.unwrap().unwrap()), [CHECKOUT]);
    for second in 4..=7 {
        fixture.change_flag(CHECKOUT, second, |flag| flag.is_enabled = !flag.is_enabled);
    }
    assert_eq!(next(&mut slow).await, Some(Err(ReadError::TooSlow)));
    assert_eq!(next(&mut slow).await, None);
    // A reader that waits is not slow, however many changes come at once.
    assert_eq!(keys(&next(&mut waiting).await.unwrap().unwrap()), [CHECKOUT]);
}

#[tokio::test]
async fn watches_above_their_bound_are_refused() {
    let limits = WatchLimits { listeners_max: 1, ..WatchLimits::default() };
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, limits);
    let first = watch(&reader, &grant).unwrap();
    assert_eq!(watch(&reader, &grant).err(), Some(ReadError::Full));
    drop(first);
    watch(&reader, &grant).unwrap();
}

#[tokio::test]
async fn watches_are_streams_of_their_environment() {
    let limits = WatchLimits { environment_streams_max: 1, ..WatchLimits::default() };
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, limits);
    let first = watch(&reader, &grant).unwrap();
    assert_eq!(watch(&reader, &grant).err(), Some(ReadError::Full));
    drop(first);
    let mut socket = fixture.server().await;
    socket.receives_nothing().await;
    assert_eq!(watch(&reader, &grant).err(), Some(ReadError::Full), "a socket is one too");
}

#[tokio::test]
async fn a_watch_ends_with_its_secret() {
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, WatchLimits::default());
    let mut watching = watch(&reader, &grant).unwrap();
    next(&mut watching).await.unwrap().unwrap();
    let mut without = sample();
    without.secrets.retain(|it| it.value != CLIENT_SECRET);
    fixture.cache.upsert([without]);
    assert_eq!(next(&mut watching).await, Some(Err(ReadError::Unauthorized)));
    assert_eq!(next(&mut watching).await, None);
}

#[tokio::test]
async fn a_watch_ends_with_the_node() {
    let fixture = Fixture::start().await;
    let (reader, grant) = reader(&fixture, WatchLimits::default());
    let mut watching = watch(&reader, &grant).unwrap();
    next(&mut watching).await.unwrap().unwrap();
    let zero = std::time::Duration::ZERO;
    let (end, ()) = tokio::join!(next(&mut watching), fixture.cache.drain(zero, zero));
    assert_eq!(end, Some(Err(ReadError::Stopping)));
    let late = reader.grant(Some(CLIENT_SECRET));
    assert_eq!(late.err(), Some(ReadError::Stopping));
}
