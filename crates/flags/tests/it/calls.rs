//! What doors of other protocols are told: flags for a user, once and as they change.

use std::sync::Arc;

use evaluation::{Evaluation, User};
use flags::{Calls, Grant, News, NoFlags, Settings, Watch};
use futures_util::{FutureExt as _, StreamExt as _};
use http::HeaderMap;

use crate::world::{
    CHECKOUT, CLIENT_SECRET, ENVIRONMENT, LAYOUT, MEMBERS, PATIENCE, RELAY_SECRET, SERVER_SECRET,
    World, sample,
};

type Show = fn(&Evaluation<'_>, i64) -> (String, String);
type Told = Result<News<(String, String)>, NoFlags>;

fn with(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
}

fn calls(world: &World, settings: &Settings) -> (Calls, Arc<Grant>) {
    let calls = Calls::new(Arc::clone(&world.board), settings);
    let grant = calls.enter(&with("x-api-key", CLIENT_SECRET)).unwrap();
    (calls, grant)
}

/// A flag's key and value.
fn shown(it: &Evaluation<'_>, _: i64) -> (String, String) {
    (it.flag.key.clone(), it.variation.map(|it| it.value.clone()).unwrap_or_default())
}

fn watch(calls: &Calls, grant: &Arc<Grant>) -> Result<Watch<Show>, NoFlags> {
    let show: Show = shown;
    calls.watch(Arc::clone(grant), User::new("ann"), show)
}

async fn next<S: futures_util::Stream<Item = Told> + Unpin>(stream: &mut S) -> Option<Told> {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("nothing is told")
}

fn keys(news: &News<(String, String)>) -> Vec<&str> {
    news.flags.iter().map(|(key, _)| key.as_str()).collect()
}

#[tokio::test]
async fn secrets_open_an_environment_in_each_of_their_places() {
    let world = World::start().await;
    let (calls, _) = calls(&world, &Settings::default());
    let bearer = format!("Bearer {SERVER_SECRET}");
    for (name, value) in [
        ("x-api-key", SERVER_SECRET),
        ("authorization", bearer.as_str()),
        ("authorization", CLIENT_SECRET),
    ] {
        let grant = calls.enter(&with(name, value)).unwrap();
        assert_eq!(grant.environments()[0].id(), ENVIRONMENT);
    }
    for headers in [
        HeaderMap::new(),
        with("x-api-key", "nothing"),
        with("authorization", "Bearer "),
        with("x-api-key", RELAY_SECRET),
    ] {
        assert_eq!(calls.enter(&headers).err(), Some(NoFlags::Unauthorized), "{headers:?}");
    }
    world.board.set_available(false);
    let refused = calls.enter(&with("x-api-key", CLIENT_SECRET));
    assert_eq!(refused.err(), Some(NoFlags::Unavailable));
}

#[tokio::test]
async fn flags_are_evaluated() {
    let world = World::start().await;
    let (calls, grant) = calls(&world, &Settings::default());
    let ask = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|it| (*it).to_owned()).collect();
        calls.evaluate(&grant, &User::new("ann"), &keys, shown)
    };
    let all = ask(&[]);
    let expected: Vec<String> = sample().snapshot.flags().map(|it| it.flag().key.clone()).collect();
    assert_eq!(all.iter().map(|it| &it.0).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    let two = ask(&[CHECKOUT, "nothing", LAYOUT, CHECKOUT]);
    let keys: Vec<&str> = two.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, [LAYOUT, CHECKOUT]);
    world.change_flag(CHECKOUT, 1, |flag| flag.is_archived = true);
    assert_eq!(ask(&[CHECKOUT]), []);
    assert_eq!(ask(&[]).len(), all.len() - 1);
}

#[tokio::test]
async fn who_watches_is_told_what_changes() {
    let world = World::start().await;
    let (calls, grant) = calls(&world, &Settings::default());
    let mut watching = watch(&calls, &grant).unwrap();
    let full = next(&mut watching).await.unwrap().unwrap();
    let all = calls.evaluate(&grant, &User::new("ann"), &[], shown);
    assert_eq!(full, News { is_full: true, flags: all, removed: vec![] });
    assert!(watching.next().now_or_never().is_none(), "nothing is new");

    world.change_flag(CHECKOUT, 1, |flag| flag.is_enabled = !flag.is_enabled);
    let patch = next(&mut watching).await.unwrap().unwrap();
    let value = &calls.evaluate(&grant, &User::new("ann"), &[CHECKOUT.to_owned()], shown)[0];
    assert_eq!(patch, News { is_full: false, flags: vec![value.clone()], removed: vec![] });
    // Only that flag asks about the segment.
    world.change_segment(MEMBERS, 2, |segment| segment.included.push("ann".to_owned()));
    assert_eq!(keys(&next(&mut watching).await.unwrap().unwrap()), [LAYOUT]);
    world.change_flag(CHECKOUT, 3, |flag| flag.is_archived = true);
    let removed = next(&mut watching).await.unwrap().unwrap();
    let gone = News { is_full: false, flags: vec![], removed: vec![CHECKOUT.to_owned()] };
    assert_eq!(removed, gone);
    // Who comes now does not hear of it at all.
    let full = next(&mut watch(&calls, &grant).unwrap()).await.unwrap().unwrap();
    assert!(full.is_full && !keys(&full).contains(&CHECKOUT));
}

#[tokio::test]
async fn who_does_not_read_is_told_that_and_no_more() {
    let settings = Settings { behind_max: 3, ..Settings::default() };
    let world = World::start().await;
    let (calls, grant) = calls(&world, &settings);
    let (mut slow, mut waiting) = (watch(&calls, &grant).unwrap(), watch(&calls, &grant).unwrap());
    assert!(next(&mut slow).await.unwrap().is_ok() && next(&mut waiting).await.unwrap().is_ok());
    assert!(waiting.next().now_or_never().is_none());
    for second in 1..=3 {
        world.change_flag(CHECKOUT, second, |flag| flag.is_enabled = !flag.is_enabled);
    }
    // As many as it may: told together.
    assert_eq!(keys(&next(&mut slow).await.unwrap().unwrap()), [CHECKOUT]);
    for second in 4..=7 {
        world.change_flag(CHECKOUT, second, |flag| flag.is_enabled = !flag.is_enabled);
    }
    assert_eq!(next(&mut slow).await, Some(Err(NoFlags::TooSlow)));
    assert_eq!(next(&mut slow).await, None);
    // Who waits for changes is not slow, however many come at once.
    assert_eq!(keys(&next(&mut waiting).await.unwrap().unwrap()), [CHECKOUT]);
}

#[tokio::test]
async fn there_are_so_many_watchers_and_no_more() {
    let settings = Settings { listeners_max: 1, ..Settings::default() };
    let world = World::start().await;
    let (calls, grant) = calls(&world, &settings);
    let first = watch(&calls, &grant).unwrap();
    assert_eq!(watch(&calls, &grant).err(), Some(NoFlags::Full));
    drop(first);
    assert!(watch(&calls, &grant).is_ok());
}

#[tokio::test]
async fn watching_ends_with_the_secret() {
    let world = World::start().await;
    let (calls, grant) = calls(&world, &Settings::default());
    let mut watching = watch(&calls, &grant).unwrap();
    assert!(next(&mut watching).await.unwrap().is_ok());
    let mut without = sample();
    without.secrets.retain(|it| it.value != CLIENT_SECRET);
    world.board.put([without]);
    assert_eq!(next(&mut watching).await, Some(Err(NoFlags::Unauthorized)));
    assert_eq!(next(&mut watching).await, None);
}

#[tokio::test]
async fn watching_ends_with_the_node() {
    let world = World::start().await;
    let (calls, grant) = calls(&world, &Settings::default());
    let mut watching = watch(&calls, &grant).unwrap();
    assert!(next(&mut watching).await.unwrap().is_ok());
    let zero = std::time::Duration::ZERO;
    let (told, ()) = tokio::join!(next(&mut watching), world.board.drain(zero, zero));
    assert_eq!(told, Some(Err(NoFlags::Stopping)));
    let late = calls.enter(&with("x-api-key", CLIENT_SECRET));
    assert_eq!(late.err(), Some(NoFlags::Stopping));
}
