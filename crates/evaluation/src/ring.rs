//! What asks about itself, through whatever others, found by looking at each once (Tarjan). There may
//! be thousands behind one another: no stack grows with them.

/// For each of the numbers from 0, the ring that it is in, if it asks about itself; `asked` says which
/// numbers each asks about. Those of one ring ask about each other.
pub(crate) fn rings(asked: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut search = Search {
        asked,
        found: 0,
        order: vec![None; asked.len()],
        lowest: vec![0; asked.len()],
        open: vec![],
        is_open: vec![false; asked.len()],
        rings: vec![None; asked.len()],
    };
    for root in 0..asked.len() {
        if search.order[root].is_none() {
            search.from(root);
        }
    }
    search.rings
}

struct Search<'a> {
    asked: &'a [Vec<usize>],
    /// How many were found.
    found: usize,
    /// When each was found.
    order: Vec<Option<usize>>,
    /// The one found first that each leads to, as far as is known, by when that was.
    lowest: Vec<usize>,
    /// Those that were found and whose ring is not known yet.
    open: Vec<usize>,
    is_open: Vec<bool>,
    rings: Vec<Option<usize>>,
}

impl Search<'_> {
    fn from(&mut self, root: usize) {
        let mut way = vec![(root, 0)];
        self.find(root);
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            if let Some(asked) = self.asked[at].get(*next).copied() {
                *next += 1;
                match self.order[asked] {
                    None => {
                        self.find(asked);
                        way.push((asked, 0));
                    }
                    Some(order) if self.is_open[asked] => {
                        self.lowest[at] = self.lowest[at].min(order);
                    }
                    Some(_) => {}
                }
                continue;
            }
            way.pop();
            if let Some((asker, _)) = way.last() {
                self.lowest[*asker] = self.lowest[*asker].min(self.lowest[at]);
            }
            if self.order[at] == Some(self.lowest[at]) {
                self.close(at);
            }
        }
    }

    fn find(&mut self, at: usize) {
        self.order[at] = Some(self.found);
        self.lowest[at] = self.found;
        self.found += 1;
        self.open.push(at);
        self.is_open[at] = true;
    }

    /// Those that were found since then and are open lead back to it.
    fn close(&mut self, first: usize) {
        let since = self.open.iter().rposition(|it| *it == first).unwrap_or_default();
        let ring = self.open.split_off(since);
        let is_ring = ring.len() > 1 || self.asked[first].contains(&first);
        for it in ring {
            self.is_open[it] = false;
            self.rings[it] = is_ring.then_some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether one leads to another, found by trying.
    fn leads(asked: &[Vec<usize>], from: usize, to: usize) -> bool {
        let (mut seen, mut next) = (vec![false; asked.len()], asked[from].clone());
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                next.extend(&asked[at]);
            }
        }
        seen[to]
    }

    proptest! {
        #[test]
        fn rings_are_those_that_lead_back(
            asked in prop::collection::vec(prop::collection::vec(0..9_usize, 0..3), 9),
        ) {
            let rings = rings(&asked);
            for one in 0..asked.len() {
                prop_assert_eq!(rings[one].is_some(), leads(&asked, one, one));
                for other in 0..asked.len() {
                    let is_same = rings[one].is_some() && rings[one] == rings[other];
                    let both = leads(&asked, one, other) && leads(&asked, other, one);
                    prop_assert_eq!(is_same, both, "{} and {}", one, other);
                }
            }
        }
    }
}
