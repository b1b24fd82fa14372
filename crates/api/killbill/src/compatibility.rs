//! The page `docs/reference/killbill-compatibility.md`: every route of Kill Bill with its state here.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Method;

use crate::openapi::openapi;
use crate::routes;
use crate::unserved::UNSERVED;

const HEAD: &str = "\
# Kill Bill's routes, one by one

Made from the tables of routes and compared by a test. What holds for all routes is in \
[Kill Bill's API](killbill-routes.md), deliberate differences are in `conformance/differences.toml`, and \
clients that were tried are in [compatibility](compatibility.md).

A route that is not served answers 501 with an error body: nothing was done. Routes of the test clock are \
served where the server has one (`--test-clock`), and are 404 elsewhere.

Kill Bill's own clients read the currencies of its enum only. Its Java client fails to read a whole page with one \
object in another currency (`InvalidFormatException`): BYN, CLF, MRU, SLE, SSP, STN, UYI, UYW, VED, VES, XCG, ZWG and \
ZWL. They are taken, with a warning; a tenant [can refuse them](killbill-routes.md#currencies).

Of what tenants store, the configuration of `faregate-rules`, the settings about retries and invoices, and the one \
about currencies are evaluated; other settings and other configurations of plugins are kept, and nothing evaluates \
them yet.

";

/// The state of a route on the page.
enum State {
    Served { about: String },
    OfTestClock { about: String },
    Unserved,
}

#[test]
fn the_page_has_every_route() {
    let document = serde_json::to_value(openapi()).expect("a document is JSON");
    let about = |method: &Method, path: &str| {
        let method = method.as_str().to_ascii_lowercase();
        let summary = &document["paths"][path][&method]["summary"];
        summary.as_str().expect("every served route has a summary").trim_end_matches('.').to_owned()
    };
    let mut all: BTreeMap<&str, Vec<(&str, &str, State)>> = BTreeMap::new();
    let (mut served, mut unserved) = (0, 0);
    for route in routes::all() {
        let (method, path) = (&route.method, route.path.as_str());
        let state = match route.is_of_test_clock {
            true => State::OfTestClock { about: about(method, path) },
            false => State::Served { about: about(method, path) },
        };
        served += 1;
        all.entry(resource(path)).or_default().push((path, method.as_str(), state));
    }
    for (path, methods) in UNSERVED {
        for method in *methods {
            unserved += 1;
            all.entry(resource(path)).or_default().push((path, method.as_str(), State::Unserved));
        }
    }
    let mut page = HEAD.to_owned();
    let total = served + unserved;
    writeln!(page, "Of {total} routes {served} are served and {unserved} are not.").unwrap();
    for (resource, mut routes) in all {
        routes.sort_by_key(|(path, method, _)| (*path, *method));
        write!(page, "\n## {resource}\n\n| Route | State | |\n| --- | --- | --- |\n").unwrap();
        for (path, method, state) in routes {
            let (state, about) = match state {
                State::Served { about } => ("served", about),
                State::OfTestClock { about } => ("test clock", about),
                State::Unserved => ("501", String::new()),
            };
            writeln!(page, "| `{method} {path}` | {state} | {about} |").unwrap();
        }
    }
    let page = page.replace(" |  |\n", " | |\n");
    expect_test::expect_file!["../../../../docs/reference/killbill-compatibility.md"]
        .assert_eq(&page);
}

/// The resource of a path: its first segment below Kill Bill's API.
fn resource(path: &'static str) -> &'static str {
    path.strip_prefix("/1.0/kb/").map_or("others", |rest| rest.split('/').next().unwrap_or(rest))
}
