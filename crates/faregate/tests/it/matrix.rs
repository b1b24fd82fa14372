//! Every route of every API with every kind of credential: what may not, and what may. The routes
//! are those of the tables that the server mounts; a route without a row fails. Each answer is one that the
//! OpenAPI document declares.

mod credentials;
mod declared;
mod flags;
mod grpc;
mod killbill;
mod parameters;
mod row;
mod send;
mod signup;
mod v1;
mod world;

use std::collections::BTreeSet;

use expect_test::expect_file;
use prost::Message as _;
use prost_types::FileDescriptorSet;

use self::credentials::{SWITCHED_OFF, Shown};
use self::declared::Declared;
use self::row::{Needs, Row};
use self::send::Sender;
use self::world::{CANARY, World};
use crate::client::Answer;

/// Answers of a request that was admitted to its handler and found what it names.
fn is_admitted(row: &Row, status: u16) -> bool {
    match status {
        _ if row.or == Some(status) => true,
        401 | 403 | 404 | 405 | 429 | 501 => false,
        _ => status < 500,
    }
}

/// The rows of each API, with its title.
fn apis() -> [(&'static str, Vec<Row>); 6] {
    [
        ("Kill Bill's API", killbill::rows()),
        ("Faregate's own API", v1::rows()),
        ("Sign-up by SaaSOdoo's paths", signup::rows()),
        ("Feature flags: FeatBit's API and OFREP", flags::rows()),
        ("gRPC", grpc::rows()),
        ("Health, metrics and pages", v1::operations()),
    ]
}

fn rows() -> Vec<Row> {
    apis().into_iter().flat_map(|(_, rows)| rows).collect()
}

/// The routes that the server has.
fn routes(world: &World) -> BTreeSet<String> {
    let document = world.server.client().get("/openapi.json").json();
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        // OpenAPI has no word for a parameter that takes the rest of the path.
        let path =
            path.replace("/ofrep/v1/evaluate/flags/{key}", "/ofrep/v1/evaluate/flags/{*key}");
        routes.extend(
            methods.as_object().unwrap().keys().map(|it| format!("{} {path}", it.to_uppercase())),
        );
    }
    routes.extend(::signup::ROUTES.iter().map(|it| format!("{} {}", it.method, it.path)));
    routes.extend(::flags::ROUTES.iter().map(|it| format!("{} {}", it.method, it.path)));
    routes.extend(server::paths().map(|path| format!("GET {path}")));
    let sets = [
        ::grpc::api::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    ];
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                let methods = service.method.iter();
                let (package, name) = (file.package(), service.name());
                routes.extend(methods.map(|it| format!("RPC /{package}.{name}/{}", it.name())));
            }
        }
    }
    routes
}

#[test]
fn every_route_refuses_and_admits_whom_its_row_says() {
    let (mut world, rows) = (World::start(), rows());
    compare_with_routes(&world, &rows);
    let declared = Declared::new(world.server.client().get("/openapi.json").json());
    let (mut sender, mut wrong) = (Sender::new(declared), vec![]);
    for row in by_permission(&rows) {
        refuse(&world, &mut sender, row, &mut wrong);
    }
    keep_from_others(&world, &mut sender, &rows, &mut wrong);
    assert_none(&wrong);
    // Last: it changes and removes what the rows are about.
    admit(&mut world, &mut sender, &rows, &mut wrong);
    wrong.extend(sender.undeclared);
    assert_none(&wrong);
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows of one permission after each other, so that roles change seldom.
fn by_permission(rows: &[Row]) -> Vec<&Row> {
    let mut ordered: Vec<&Row> = rows.iter().collect();
    ordered.sort_by_key(|row| row.permission());
    ordered
}

/// The rank of a method in the order of requests: reads come first, deletions last.
fn method_rank(method: &str) -> usize {
    ["GET", "POST", "PUT", "PATCH", "RPC", "DELETE"].iter().position(|it| *it == method).unwrap()
}

#[test]
fn the_reference_of_permissions_is_true() {
    let mut page = include_str!("matrix/permissions_head.md").to_owned();
    for (title, rows) in apis() {
        page += &format!("\n## {title}\n\n| Route | Needs |\n| --- | --- |\n");
        for row in rows {
            page += &format!("| `{}` | {} |\n", row.route.trim_start_matches("RPC "), row.needs);
        }
    }
    expect_file!["../../../../docs/reference/permissions.md"].assert_eq(&page);
}

fn compare_with_routes(world: &World, rows: &[Row]) {
    let routes = routes(world);
    let of_rows: BTreeSet<String> = rows.iter().map(|row| row.route.to_owned()).collect();
    assert_eq!(of_rows.len(), rows.len(), "a route has two rows");
    let without_row: Vec<_> = routes.difference(&of_rows).collect();
    let without_route: Vec<_> = of_rows.difference(&routes).collect();
    assert!(
        without_row.is_empty(),
        "these routes have no row in crates/faregate/tests/it/matrix: add one to the file of the \
         API that says what a caller needs: {without_row:#?}"
    );
    assert!(without_route.is_empty(), "these rows have no route any more: {without_route:#?}");
}

/// Credentials that are none here, and an operator without the permission.
fn refuse(world: &World, sender: &mut Sender, row: &Row, wrong: &mut Vec<String>) {
    let is_kill_bill = row.route.contains(" /1.0/") || row.route.contains(" /plugins/");
    let permission = format!("permission [{}]", row.permission().unwrap_or_default());
    world.assign(row.permission());
    for shown in credentials::refused(world, row) {
        let answer = sender.send(world, row, &shown.1);
        // Its credentials are right. Kill Bill answers 401 for everything that is not permitted.
        let is_off = shown.0.ends_with(SWITCHED_OFF);
        let expected = if is_off && !is_kill_bill { 403 } else { 401 };
        let names_permission = answer.text().contains(&permission);
        if answer.status != expected || shows_canary(&answer) || names_permission {
            wrong.push(describe(row, &shown, &answer, &format!("is {expected}")));
        }
    }
    for shown in credentials::forbidden(world, row) {
        let answer = sender.send(world, row, &shown.1);
        let is_refused = match is_kill_bill {
            true => answer.status == 401 && answer.text().contains(&permission),
            false => answer.status == 403,
        };
        if !is_refused || shows_canary(&answer) {
            wrong.push(describe(row, &shown, &answer, "is refused for the permission"));
        }
    }
    if let Needs::Path(object) = row.needs {
        let target = row.target(&world.objects);
        let made_up = target.replace(&world.objects.get(object), "made-up");
        let shown = (format!("a made-up {object}"), world.admin());
        let answer = sender.send_to(world, row, (&shown.1, &made_up));
        if ![401, 404].contains(&answer.status) {
            wrong.push(describe(row, &shown, &answer, "is 401 or 404"));
        }
    }
}

/// Right credentials of another tenant: its own data, or nothing; and nothing is changed.
fn keep_from_others(world: &World, sender: &mut Sender, rows: &[Row], wrong: &mut Vec<String>) {
    let mut before = world.state();
    for (path, read) in &before {
        assert!(read.starts_with("200 "), "GET {path}");
    }
    let mut ordered: Vec<&Row> = rows.iter().collect();
    ordered.sort_by_key(|row| row.is_last);
    for row in ordered {
        let all = credentials::foreign(world, row);
        for shown in &all {
            let answer = sender.send(world, row, &shown.1);
            let is_expected = match row.foreign {
                _ if row.or == Some(answer.status) => true,
                None => answer.status < 500 && answer.status != 401,
                Some(status) => status == answer.status,
            };
            if !is_expected || shows_canary(&answer) || shows_id(world, row, &answer) {
                let status = row.foreign.map_or("not 401".to_owned(), |it| it.to_string());
                let expected = format!("is {status} and shows nothing of tenant a");
                wrong.push(describe(row, shown, &answer, &expected));
            }
        }
        if row.method() == "GET" || all.is_empty() {
            continue;
        }
        let after = world.state();
        for ((path, before), (_, after)) in before.iter().zip(&after) {
            if before != after {
                let text = "of another tenant or customer changed";
                wrong.push(format!("{} {text} {path}", row.route));
            }
        }
        before = after;
    }
}

/// Whom the row names reaches the object.
fn admit(world: &mut World, sender: &mut Sender, rows: &[Row], wrong: &mut Vec<String>) {
    let mut ordered: Vec<&Row> = rows.iter().collect();
    ordered.sort_by_key(|row| (row.is_last, method_rank(row.method())));
    for row in ordered {
        world.assign(row.permission());
        if row.route.ends_with("/sessions/{id}") {
            world.renew_session();
        }
        for shown in credentials::permitted(world, row) {
            let answer = sender.send(world, row, &shown.1);
            if !is_admitted(row, answer.status) {
                wrong.push(describe(row, &shown, &answer, "is admitted"));
            }
        }
    }
}

fn shows_canary(answer: &Answer) -> bool {
    answer.text().contains(CANARY)
}

/// Whether an answer has an id of tenant `a` that was not in the request.
fn shows_id(world: &World, row: &Row, answer: &Answer) -> bool {
    let text = answer.text();
    let content = row.content(&world.objects).unwrap_or_default();
    let sent = row.target(&world.objects) + &String::from_utf8_lossy(&content);
    world.objects.ids().any(|id| text.contains(id) && !sent.contains(id))
}

fn describe(row: &Row, (name, _): &Shown, answer: &Answer, expected: &str) -> String {
    // A success may show a secret.
    let text = if answer.status < 400 { String::new() } else { answer.text() };
    let text: String = text.chars().take(200).collect();
    format!(
        "{} with {name}: expected that it {expected}, but it is {}: {text}",
        row.route, answer.status
    )
}
