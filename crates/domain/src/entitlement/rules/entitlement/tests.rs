//! Grants by hand: what is granted, refused and taken back, one line each.

use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::command::EntitlementCommand;
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset, ValueType,
};
use crate::entitlement::{GrantFeature, RevokeGrant};
use crate::flag::definition::Expected;
use crate::reply::EntitlementReply;
use crate::testing::{Rows, TENANT, run_script};
use crate::{AccountId, Command, GrantId, Reply, Timestamp};

/// Runs the steps, separated by `|`, at second 1000, and shows what the account has then, or the refusal. Steps:
/// `feature KEY switch|text|number|limit [largest|sum|latest]`, `grant FEATURE VALUE [from=SECOND] [until=SECOND]
/// [reason=CODE] [to=nobody]`, `revoke N` (the N-th grant from 1), `at SECOND` (shows what the account has then).
fn check(script: &str, expected: Expect) {
    let mut rows = Rows::new();
    let account = rows.account();
    let mut world = World { rows, account, grants: vec![], shown_at: 1_000 };
    expected.assert_eq(&run_script(script, |step| world.step(step)));
}

struct World {
    rows: Rows,
    account: AccountId,
    grants: Vec<GrantId>,
    shown_at: i64,
}

fn second(text: &str) -> Timestamp {
    Timestamp(text.parse::<i64>().unwrap() * Timestamp::SECOND_US)
}

fn kind(name: &str) -> FeatureKind {
    let limit = LimitTerms { unit: "seats".to_owned(), resets: Reset::Never, overdraft: false };
    match name {
        "switch" => FeatureKind::Switch,
        "text" => FeatureKind::Value(ValueType::String),
        "number" => FeatureKind::Value(ValueType::Number),
        "limit" => FeatureKind::Limit(limit),
        other => panic!("no kind {other}"),
    }
}

fn value(text: &str) -> FeatureValue {
    match text.split_once(':') {
        None => FeatureValue::On,
        Some(("text", text)) => FeatureValue::String(text.to_owned()),
        Some(("number", text)) => FeatureValue::Number(text.to_owned()),
        Some((_, limit)) => FeatureValue::Limit(limit.parse().unwrap()),
    }
}

impl World {
    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let option = |name: &str| words.iter().find_map(|it| it.strip_prefix(name));
        let command: EntitlementCommand = match words[0] {
            "feature" => {
                let combine = words.get(3).map_or(Combine::Latest, |name| {
                    Combine::ALL.into_iter().find(|it| it.name() == *name).unwrap()
                });
                EntitlementCommand::PutFeature(Box::new(PutFeature {
                    key: words[1].to_owned(),
                    name: "Feature".to_owned(),
                    terms: FeatureTerms { kind: kind(words[2]), combine },
                    archived: words.contains(&"archived"),
                    expected: Expected::Anything,
                }))
            }
            "grant" => EntitlementCommand::Grant(Box::new(GrantFeature {
                account: match option("to=") {
                    Some(_) => AccountId::new(Uuid::from_u128(7)),
                    None => self.account,
                },
                feature: words[1].to_owned(),
                value: value(words[2]),
                from: option("from=").map(second),
                until: option("until=").map(second),
                reason: option("reason=").unwrap_or("goodwill").to_owned(),
            })),
            "revoke" => EntitlementCommand::Revoke(RevokeGrant {
                account: self.account,
                grant: self.grants[words[1].parse::<usize>().unwrap() - 1],
            }),
            "at" => {
                self.shown_at = words[1].parse().unwrap();
                return self.show();
            }
            other => panic!("no step {other}"),
        };
        match self.rows.run(Command::Entitlement(command)) {
            Ok(executed) => {
                if let Some(Reply::Entitlement(EntitlementReply::Granted(id))) = executed.reply {
                    self.grants.push(id);
                }
                self.show()
            }
            Err(rejection) => rejection.to_string(),
        }
    }

    fn show(&self) -> String {
        let entitled = self.rows.state.entitlement.entitlements.find(&(TENANT, self.account));
        let Some(entitled) = entitled else { return "nothing".to_owned() };
        let all = entitled.at(Timestamp(self.shown_at * Timestamp::SECOND_US));
        let all = all.iter().map(|(key, it)| {
            let until = it
                .until
                .map_or_else(String::new, |it| format!(" until {}", it.0 / Timestamp::SECOND_US));
            format!("{key} {:?} of {}{until}", it.value, it.grants.len())
        });
        let all: Vec<String> = all.collect();
        format!("{} v{}", all.join(", "), entitled.version)
    }
}

#[test]
fn grants_add_up_by_the_rule_of_their_feature() {
    let granted = "grant seats limit:5 | grant seats limit:3";
    check(&format!("feature seats limit sum | {granted}"), expect!["seats Limit(8) of 2 v2"]);
    check(&format!("feature seats limit largest | {granted}"), expect!["seats Limit(5) of 2 v2"]);
    check(&format!("feature seats limit latest | {granted}"), expect!["seats Limit(3) of 2 v2"]);
    let most = "grant seats limit:9007199254740991 | grant seats limit:9007199254740991";
    check(
        &format!("feature seats limit sum | {most}"),
        expect!["seats Limit(9007199254740991) of 2 v2"],
    );
    check(
        "feature plan text | grant plan text:a | grant plan text:b",
        expect![[r#"plan String("b") of 2 v2"#]],
    );
    check("feature pro switch | grant pro on | grant pro on | revoke 1", expect!["pro On of 1 v3"]);
}

#[test]
fn a_grant_holds_from_its_beginning_to_its_end() {
    let granted = "feature pro switch | grant pro on from=2000 until=3000";
    check(granted, expect![" v1"]);
    check(&format!("{granted} | at 2000"), expect!["pro On of 1 until 3000 v1"]);
    check(&format!("{granted} | at 2999"), expect!["pro On of 1 until 3000 v1"]);
    check(&format!("{granted} | at 3000"), expect![" v1"]);
    // The end is that of all that follow without a break.
    let next = format!("{granted} | grant pro on from=3000 until=4000");
    check(&format!("{next} | at 2500"), expect!["pro On of 1 until 4000 v2"]);
    check(
        &format!("{next} | grant pro on from=4001 until=5000 | at 2500"),
        expect!["pro On of 1 until 4000 v3"],
    );
    check(&format!("{next} | grant pro on from=3500 | at 2500"), expect!["pro On of 1 v3"]);
}

#[test]
fn refusals() {
    let pro = "feature pro switch";
    check(&format!("{pro} | grant none on"), expect!["there is no feature none"]);
    check("feature pro switch latest archived | grant pro on", expect!["there is no feature pro"]);
    check(&format!("{pro} | grant pro limit:5"), expect!["value: is not of the feature's kind"]);
    check(
        &format!("{pro} | grant pro on until=1000"),
        expect!["until: should be in the future, and after from"],
    );
    check(&format!("{pro} | grant pro on from=999"), expect!["from: is in the past"]);
    check(
        &format!("{pro} | grant pro on from=2000 until=2000"),
        expect!["until: should be in the future, and after from"],
    );
    check(
        &format!("{pro} | grant pro on reason=For_Ada"),
        expect![
            "reason: should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit"
        ],
    );
    check(
        &format!("{pro} | grant pro on to=nobody"),
        expect!["there is no account 00000000-0000-0000-0000-000000000007"],
    );
    check(
        "feature seats limit | grant seats limit:-1",
        expect!["value: is not between 0 and 9007199254740991"],
    );
    check(
        "feature seats limit | grant seats limit:9007199254740992",
        expect!["value: is not between 0 and 9007199254740991"],
    );
    check(
        "feature pro switch | grant pro on | revoke 1 | revoke 1",
        expect!["there is no grant 01920000-0000-789d-b66f-c5f444fce255"],
    );
}
