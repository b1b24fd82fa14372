//! The distribution of users by a rollout.

use evaluation::{
    Fallthrough, Flag, MissingAttribute, RolloutVariation, Snapshot, User, Variation,
};

#[test]
fn a_rollout_covers_its_share_of_the_users() {
    const USERS: u32 = 200_000;
    for percent in [1.0, 10.0, 33.0, 50.0, 90.0] {
        let share = percent / 100.0;
        let part =
            |id: &str, rollout| RolloutVariation { id: id.to_owned(), rollout, expt_rollout: 1.0 };
        let variation = |id: &str| Variation { id: id.to_owned(), ..Variation::default() };
        let flag = Flag {
            key: format!("rollout-{percent}"),
            is_enabled: true,
            variations: vec![variation("in"), variation("out")],
            fallthrough: Fallthrough {
                variations: vec![part("in", [0.0, share]), part("out", [share, 1.0])],
                ..Fallthrough::default()
            },
            ..Flag::default()
        };
        let key = flag.key.clone();
        let snapshot = Snapshot::new(MissingAttribute::Empty).with([flag], []);
        let is_in = |number: &u32| {
            let evaluation = snapshot.evaluate(&key, &User::new(format!("user-{number}")));
            evaluation.and_then(|it| it.variation).is_some_and(|it| it.id == "in")
        };
        let taken = u32::try_from((0..USERS).filter(is_in).count())
            .expect("there are fewer users than u32::MAX");
        let found = f64::from(taken) / f64::from(USERS) * 100.0;
        assert!((found - percent).abs() <= 0.3, "{percent} %: {found} %");
    }
}
