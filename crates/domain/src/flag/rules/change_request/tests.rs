//! The states of change requests, step by step.

use expect_test::{Expect, expect};
use uuid::Uuid;

use super::*;
use crate::Command;
use crate::command::FlagCommand;
use crate::flag::definition::DefinitionKey;
use crate::flag::definition::{DefinitionKind, PutDefinitions};
use crate::flag::environment::{CreateEnvironment, UpdateEnvironment};
use crate::reply::FlagReply;
use crate::testing::{Rows, TENANT};
use crate::{DefinitionId, Timestamp};

const HERE: EnvironmentId = EnvironmentId::new(Uuid::from_u128(1));

fn key() -> DefinitionKey {
    DefinitionKey { environment: HERE, kind: DefinitionKind::Flag, key: "a".to_owned() }
}

/// An environment, and the changes that were asked for in it.
struct World {
    rows: Rows,
    changes: Vec<ChangeRequestId>,
    seen: Option<Seen>,
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        rows.run(Command::Flag(FlagCommand::CreateEnvironment(CreateEnvironment {
            id: HERE,
            project: "default".to_owned(),
            key: "dev".to_owned(),
            name: "Dev".to_owned(),
            secrets: vec![],
        })))
        .unwrap();
        Self { rows, changes: vec![], seen: None }
    }

    fn there(&self) -> Option<i64> {
        self.rows.state.flag.definitions.find(&(TENANT, key())).map(|it| it.version)
    }

    fn put(&mut self, body: &str) -> Result<Option<Reply>, Rejection> {
        let new = NewDefinition {
            kind: DefinitionKind::Flag,
            key: key().key,
            id: DefinitionId::new(Uuid::from_u128(7)),
            body: body.to_owned(),
            is_archived: false,
            expected: Expected::Anything,
        };
        let put = PutDefinitions { environment: HERE, version: None, definitions: vec![new] };
        Ok(self.rows.run(Command::Flag(FlagCommand::PutDefinitions(put)))?.reply)
    }

    /// `in N`: after so many seconds; `review`: with somebody's approval; `expecting`: upon the
    /// version that is there, or `expecting N`.
    fn request(&mut self, words: &[&str]) -> Result<Option<Reply>, Rejection> {
        let after =
            |word: &str| words.iter().position(|it| *it == word).map(|at| words.get(at + 1));
        let seconds = after("in").flatten().map(|it| it.parse::<i64>().unwrap());
        let expected = after("expecting").and_then(|next| match next {
            Some(version) => Some(version.parse().unwrap()),
            None => self.there(),
        });
        let at = |seconds| Timestamp(self.rows.now + seconds * Timestamp::SECOND_US);
        let request = RequestChange {
            key: key(),
            patch: "{}".to_owned(),
            expected,
            due_at: seconds.map(at),
            needs_approval: words.contains(&"review"),
        };
        let reply = self.rows.run(Command::Flag(FlagCommand::RequestChange(request)))?.reply;
        let Some(Reply::Flag(FlagReply::ChangeRequested(id))) = reply else { panic!("{reply:?}") };
        self.changes.push(id);
        Ok(reply)
    }

    fn decide(&mut self, decision: Decision) -> Result<Option<Reply>, Rejection> {
        let change = *self.changes.last().unwrap();
        let seen = self.seen.clone();
        let it = DecideChange { environment: HERE, change, decision, seen };
        Ok(self.rows.run(Command::Flag(FlagCommand::DecideChange(it)))?.reply)
    }

    fn apply(&mut self, upon: Option<i64>, judged: Judged) -> Result<Option<Reply>, Rejection> {
        self.apply_within(None, upon, judged)
    }

    /// Upon a version of the whole environment.
    fn apply_within(
        &mut self,
        version: Option<i64>,
        upon: Option<i64>,
        judged: Judged,
    ) -> Result<Option<Reply>, Rejection> {
        let change = *self.changes.last().unwrap();
        let it = ApplyChange { change, key: key(), upon, version, judged };
        Ok(self.rows.run(Command::Flag(FlagCommand::ApplyChange(it)))?.reply)
    }

    fn step(&mut self, step: &str) -> Result<Option<Reply>, Rejection> {
        let words: Vec<&str> = step.split_whitespace().collect();
        let fits = || Judged::Fits {
            id: DefinitionId::new(Uuid::from_u128(8)),
            body: "changed".to_owned(),
            is_archived: false,
        };
        match words[..] {
            ["ann" | "bob"] => self.rows.user = if step == "ann" { "ann" } else { "bob" },
            ["because", why] => self.rows.reason = Some(if why == "no" { "no" } else { "yes" }),
            ["wait", seconds] => {
                self.rows.now += seconds.parse::<i64>().unwrap() * Timestamp::SECOND_US;
            }
            ["demand", yes] => {
                let changes_need_approval = Some(yes == "approval");
                let it = UpdateEnvironment { environment: HERE, name: None, changes_need_approval };
                return Ok(self.rows.run(Command::Flag(FlagCommand::UpdateEnvironment(it)))?.reply);
            }
            ["put", body] => return self.put(body),
            ["request", ref rest @ ..] => return self.request(rest),
            ["look"] => {
                let last = *self.changes.last().unwrap();
                let change = self.rows.state.change_request(TENANT, last).unwrap().revision.seq;
                self.seen = Some(Seen { change, key: key(), version: self.there() });
            }
            ["approve"] => return self.decide(Decision::Approve),
            ["reject"] => return self.decide(Decision::Reject),
            ["withdraw"] => return self.decide(Decision::Withdraw),
            ["apply"] => return self.apply(self.there(), fits()),
            ["apply", "upon", version] => return self.apply(version.parse().ok(), fits()),
            ["apply", "within", version] => {
                let version = version.parse().ok();
                return self.apply_within(version, self.there(), fits());
            }
            ["fail"] => {
                let explanation = "it cannot be".to_owned();
                return self.apply(self.there(), Judged::Fails { explanation });
            }
            _ => panic!("{step}"),
        }
        Ok(None)
    }

    fn shown(&self) -> String {
        let mut lines = vec![];
        for id in &self.changes {
            let it = self.rows.state.change_request(TENANT, *id).unwrap();
            let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let (decided, why) = (said(&it.decided_by), said(&it.explanation));
            lines.push(format!("{:?} {} {decided} {why}", it.status, it.author));
        }
        let flag = self.rows.state.flag.definitions.find(&(TENANT, key()));
        let body = flag.map_or("nothing", |it| it.body.as_str());
        let waiting = self.rows.state.environment(TENANT, HERE).unwrap().changes_waiting;
        lines.push(format!("flag {body}, waiting {waiting}"));
        lines.join("; ")
    }
}

/// The last step may be refused, the ones before may not.
fn check(steps: &str, expected: Expect) {
    let mut world = World::new();
    let steps: Vec<&str> = steps.split('|').map(str::trim).collect();
    let (last, before) = steps.split_last().unwrap();
    for step in before {
        world.step(step).unwrap();
    }
    let mut refused = world.step(last).err().map(|it| format!("{it:?}"));
    for id in &world.changes {
        refused = refused.map(|shown| shown.replace(&id.to_string(), "it"));
    }
    let refused = refused.map(|it| format!("refused: {it}; ")).unwrap_or_default();
    expected.assert_eq(&format!("{refused}{}", world.shown()));
}

#[test]
fn approval_is_anothers() {
    check("ann | request review", expect!["Pending ann - -; flag nothing, waiting 1"]);
    check(
        "ann | request review | approve",
        expect![
            "refused: Flag(ApprovalByAuthor { id: it }); Pending ann - -; flag nothing, waiting 1"
        ],
    );
    check(
        "ann | request review | bob | approve",
        expect!["Scheduled ann bob -; flag nothing, waiting 1"],
    );
    check(
        "ann | request review | bob | approve | apply",
        expect!["Applied ann bob -; flag changed, waiting 0"],
    );
    check(
        "ann | request review | bob | approve | approve",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Scheduled }); Scheduled ann bob -; flag nothing, waiting 1"
        ],
    );
    check(
        "ann | request | bob | approve",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Scheduled }); Scheduled ann - -; flag nothing, waiting 1"
        ],
    );
    check(
        "ann | request review | bob | apply",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Pending }); Pending ann - -; flag nothing, waiting 1"
        ],
    );
}

#[test]
fn decision_applies_to_the_version_that_was_seen() {
    check(
        "put old | ann | request review | bob | look | approve",
        expect!["Scheduled ann bob -; flag old, waiting 1"],
    );
    check(
        "put old | ann | request review | bob | look | put new | approve",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "a", version: Some(1000001) }); Pending ann - -; flag new, waiting 1"#
        ]],
    );
    check(
        "ann | request review | bob | look | put new | reject",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "a", version: Some(1000000) }); Pending ann - -; flag new, waiting 1"#
        ]],
    );
    // It has waited for its time, and for approval since.
    check(
        "ann | request in 9 | bob | look | demand approval | wait 9 | apply | approve",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "it", version: Some(4) }); Pending ann - -; flag nothing, waiting 1"#
        ]],
    );
    check(
        "ann | request review | bob | look | reject | approve",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Rejected }); Rejected ann bob -; flag nothing, waiting 0"
        ],
    );
}

#[test]
fn rejected_and_withdrawn_changes_are_not_applied() {
    check(
        "ann | request review | bob | because no | reject",
        expect!["Rejected ann bob no; flag nothing, waiting 0"],
    );
    check(
        "ann | request in 9 | bob | reject",
        expect!["Rejected ann bob -; flag nothing, waiting 0"],
    );
    check(
        "ann | request review | bob | reject | wait 9 | apply",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Rejected }); Rejected ann bob -; flag nothing, waiting 0"
        ],
    );
    check(
        "ann | request review | bob | withdraw",
        expect![
            "refused: Flag(WithdrawalByAnother { id: it }); Pending ann - -; flag nothing, waiting 1"
        ],
    );
    check("ann | request review | withdraw", expect!["Withdrawn ann - -; flag nothing, waiting 0"]);
    check(
        "ann | request in 9 | withdraw | wait 9 | apply",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Withdrawn }); Withdrawn ann - -; flag nothing, waiting 0"
        ],
    );
    check(
        "ann | request | apply | withdraw",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Applied }); Applied ann - -; flag changed, waiting 0"
        ],
    );
}

#[test]
fn a_change_is_made_once_and_not_before_its_time() {
    check(
        "put old | ann | request in 9 | apply",
        expect![[
            r#"refused: InvalidParameter { field: "change", reason: "is not due, or of something else" }; Scheduled ann - -; flag old, waiting 1"#
        ]],
    );
    check(
        "put old | ann | request in 9 | wait 9 | apply",
        expect!["Applied ann - -; flag changed, waiting 0"],
    );
    check("ann | request | apply", expect!["Applied ann - -; flag changed, waiting 0"]);
    check(
        "put old | ann | request | apply | apply",
        expect![
            "refused: Flag(ChangeNotWaiting { id: it, status: Applied }); Applied ann - -; flag changed, waiting 0"
        ],
    );
    check(
        "put old | ann | request review in 9 | wait 10 | bob | approve | apply",
        expect!["Applied ann bob -; flag changed, waiting 0"],
    );
}

#[test]
fn concurrent_change_is_noticed() {
    check(
        "put old | ann | request expecting | apply",
        expect!["Applied ann - -; flag changed, waiting 0"],
    );
    check(
        "put old | ann | request expecting | put new | apply",
        expect!["Failed ann - it is in the version 1000001, not 1000000; flag new, waiting 0"],
    );
    check(
        "ann | request expecting 7 | apply",
        expect![
            "Failed ann - it is not there, and was to be in the version 7; flag nothing, waiting 0"
        ],
    );
    // It was made of what is not there any more: the caller has to read again.
    check(
        "put old | ann | request | apply upon 7",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "a", version: Some(1000000) }); Scheduled ann - -; flag old, waiting 1"#
        ]],
    );
    check(
        "put old | ann | request | apply upon nothing",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "a", version: Some(1000000) }); Scheduled ann - -; flag old, waiting 1"#
        ]],
    );
    // Nor is the environment as it was when the change was looked at among all that is there.
    check(
        "put old | ann | request | apply within 1000000",
        expect!["Applied ann - -; flag changed, waiting 0"],
    );
    check(
        "put old | ann | request | put new | apply within 1000000",
        expect![[
            r#"refused: Flag(DefinitionChanged { key: "dev", version: Some(1000001) }); Scheduled ann - -; flag new, waiting 1"#
        ]],
    );
    check(
        "put old | ann | request | fail",
        expect!["Failed ann - it cannot be; flag old, waiting 0"],
    );
}

#[test]
fn an_environment_demands_approval() {
    check(
        "put old | demand approval | put new",
        expect![[r#"refused: Flag(ApprovalNeeded { environment: "dev" }); flag old, waiting 0"#]],
    );
    check("put old | demand approval | demand none | put new", expect!["flag new, waiting 0"]);
    check(
        "demand approval | ann | request | bob | approve | apply",
        expect!["Applied ann bob -; flag changed, waiting 0"],
    );
    // What waited for its time alone needs approval now.
    check(
        "ann | request in 9 | demand approval | wait 9 | apply",
        expect!["Pending ann - -; flag nothing, waiting 1"],
    );
    check(
        "ann | request in 9 | demand approval | wait 9 | apply | bob | approve | apply",
        expect!["Applied ann bob -; flag changed, waiting 0"],
    );
}

#[test]
fn so_many_wait() {
    let mut world = World::new();
    for _ in 0..CHANGES_WAITING_MAX {
        world.step("request review").unwrap();
    }
    let full = Rejection::invalid("changes", "too many of the environment wait");
    assert_eq!(world.step("request review"), Err(full));
    world.rows.user = "u";
    world.step("withdraw").unwrap();
    world.step("request review").unwrap();
}

#[test]
fn a_full_environment_takes_no_new_flag() {
    let mut world = World::new();
    let environment = world.rows.state.flag.environments.find_mut(&(TENANT, HERE)).unwrap();
    environment.definitions = u32::try_from(crate::flag::definition::DEFINITIONS_MAX).unwrap();
    world.step("ann").unwrap();
    world.step("request").unwrap();
    world.step("apply").unwrap();
    expect!["Failed ann - the environment has too many; flag nothing, waiting 0"]
        .assert_eq(&world.shown());
}

#[test]
fn absent_change_and_environment_are_refused() {
    let mut world = World::new();
    world.step("request").unwrap();
    let (change, elsewhere) = (world.changes[0], EnvironmentId::new(Uuid::from_u128(2)));
    world.rows.state.flag.environments.set((TENANT, elsewhere), None);
    let decide = |environment, change| {
        Command::Flag(FlagCommand::DecideChange(DecideChange {
            environment,
            change,
            decision: Decision::Reject,
            seen: None,
        }))
    };
    let nowhere = Rejection::Flag(FlagRejection::EnvironmentNotFound { id: elsewhere });
    assert_eq!(world.rows.run(decide(elsewhere, change)), Err(nowhere));
    let stranger = ChangeRequestId::new(Uuid::from_u128(9));
    let unknown = Rejection::Flag(FlagRejection::ChangeNotFound { id: stranger });
    assert_eq!(world.rows.run(decide(HERE, stranger)), Err(unknown));
    // A change is not made of something else.
    let (upon, judged) = (None, Judged::Fails { explanation: String::new() });
    let key = DefinitionKey { key: "b".to_owned(), ..key() };
    let other = Command::Flag(FlagCommand::ApplyChange(ApplyChange {
        change,
        key,
        upon,
        version: None,
        judged,
    }));
    let refused = world.rows.run(other);
    assert!(matches!(refused, Err(Rejection::InvalidParameter { .. })), "{refused:?}");
    // A change is not decided upon as one of another environment.
    world.step("demand none").unwrap();
    let mut other = world.rows.state.environment(TENANT, HERE).unwrap().clone();
    other.id = elsewhere;
    world.rows.state.flag.environments.put(other);
    let unknown = Rejection::Flag(FlagRejection::ChangeNotFound { id: change });
    assert_eq!(world.rows.run(decide(elsewhere, change)), Err(unknown));
}
