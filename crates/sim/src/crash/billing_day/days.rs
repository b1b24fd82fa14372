//! The days that a subscription's invoices charge, counted one by one.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde_json::Value;

/// The day of a time or a date in ISO 8601.
pub fn day(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}

/// What is wrong with the days that the items of invoices charge. From the first on each is charged once, and past
/// `until`, where the subscription goes on.
pub fn check(invoices: &[Value], until: Option<Date>) -> Option<String> {
    let mut charged: BTreeMap<Date, i32> = BTreeMap::new();
    let items = invoices.iter().filter_map(|it| it["items"].as_array()).flatten();
    for item in items {
        let sign = match item["itemType"].as_str() {
            Some("RECURRING") => 1,
            Some("REPAIR_ADJ") => -1,
            _ => continue,
        };
        let (Some(mut at), Some(end)) = (date(item, "startDate"), date(item, "endDate")) else {
            return Some(format!("an item without its days: {item}"));
        };
        while at < end {
            *charged.entry(at).or_default() += sign;
            at = at.tomorrow().ok()?;
        }
    }
    if let Some((day, times)) = charged.iter().find(|(_, times)| **times != 1) {
        return Some(format!("{day} is charged {times} times"));
    }
    let days: Vec<Date> = charged.into_keys().collect();
    let gap = days.windows(2).find(|it| it[0].tomorrow().ok() != Some(it[1]));
    if let Some(gap) = gap {
        return Some(format!("the days after {} are not charged", gap[0]));
    }
    match (days.last(), until) {
        (None, _) => Some("nothing is charged".to_owned()),
        (Some(last), Some(until)) if *last < until => {
            Some(format!("{until} is not charged, the last day is {last}"))
        }
        (Some(_), _) => None,
    }
}

fn date(item: &Value, name: &str) -> Option<Date> {
    day(item[name].as_str()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn invoices(items: &[(&str, &str, &str)]) -> Vec<Value> {
        let item = |(kind, start, end): &(&str, &str, &str)| json!({ "itemType": kind, "startDate": start, "endDate": end });
        vec![json!({ "items": items.iter().map(item).collect::<Vec<_>>() })]
    }

    #[test]
    fn each_day_is_charged_once() {
        let month = ("RECURRING", "2026-01-01", "2026-02-01");
        let next = ("RECURRING", "2026-02-01", "2026-03-01");
        let until = day("2026-02-28T00:00:00Z");
        let wrong = |items: &[_]| check(&invoices(items), until).unwrap_or_default();
        assert_eq!(wrong(&[month, next]), "");
        assert_eq!(wrong(&[month]), "2026-02-28 is not charged, the last day is 2026-01-31");
        assert_eq!(check(&invoices(&[month]), None), None);
        assert_eq!(wrong(&[month, month, next]), "2026-01-01 is charged 2 times");
        let later = ("RECURRING", "2026-02-02", "2026-03-01");
        assert_eq!(wrong(&[month, later]), "the days after 2026-01-31 are not charged");
        let back = ("REPAIR_ADJ", "2026-01-11", "2026-02-01");
        let again = ("RECURRING", "2026-01-11", "2026-02-01");
        assert_eq!(wrong(&[month, back, again, next]), "");
        assert_eq!(wrong(&[month, back, next]), "2026-01-11 is charged 0 times");
        assert_eq!(wrong(&[]), "nothing is charged");
    }
}
