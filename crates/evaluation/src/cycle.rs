//! Finds the cycles of a graph with Tarjan's algorithm. It is iterative, because paths may be thousands
//! of nodes long.

/// For each node, its cycle if it is on one. Nodes that can reach each other have the same cycle
/// number. `edges` holds the successors of each node.
pub(crate) fn cycles(edges: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut search = Search {
        edges,
        visited: 0,
        index: vec![None; edges.len()],
        low_link: vec![0; edges.len()],
        stack: vec![],
        is_on_stack: vec![false; edges.len()],
        cycles: vec![None; edges.len()],
    };
    for root in 0..edges.len() {
        if search.index[root].is_none() {
            search.visit_from(root);
        }
    }
    search.cycles
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    visited: usize,
    /// The order in which the nodes were visited.
    index: Vec<Option<usize>>,
    /// The smallest index that is known to be reachable from each node.
    low_link: Vec<usize>,
    /// Visited nodes whose cycle is not known yet.
    stack: Vec<usize>,
    is_on_stack: Vec<bool>,
    cycles: Vec<Option<usize>>,
}

impl Search<'_> {
    fn visit_from(&mut self, root: usize) {
        // The path from the root: each node, and the position of its next edge.
        let mut path = vec![(root, 0)];
        self.visit(root);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if let Some(successor) = self.edges[node].get(*next).copied() {
                *next += 1;
                match self.index[successor] {
                    None => {
                        self.visit(successor);
                        path.push((successor, 0));
                    }
                    Some(index) if self.is_on_stack[successor] => {
                        self.low_link[node] = self.low_link[node].min(index);
                    }
                    Some(_) => {}
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.low_link[*parent] = self.low_link[*parent].min(self.low_link[node]);
            }
            if self.index[node] == Some(self.low_link[node]) {
                self.complete(node);
            }
        }
    }

    fn visit(&mut self, node: usize) {
        self.index[node] = Some(self.visited);
        self.low_link[node] = self.visited;
        self.visited += 1;
        self.stack.push(node);
        self.is_on_stack[node] = true;
    }

    /// Removes a strongly connected component from the stack; `first` is its first visited node.
    fn complete(&mut self, first: usize) {
        let start = self.stack.iter().rposition(|it| *it == first).unwrap_or_default();
        let component = self.stack.split_off(start);
        let is_cycle = component.len() > 1 || self.edges[first].contains(&first);
        for node in component {
            self.is_on_stack[node] = false;
            self.cycles[node] = is_cycle.then_some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether there is a path, by exhaustive search.
    fn reaches(edges: &[Vec<usize>], from: usize, to: usize) -> bool {
        let (mut seen, mut next) = (vec![false; edges.len()], edges[from].clone());
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                next.extend(&edges[node]);
            }
        }
        seen[to]
    }

    proptest! {
        #[test]
        fn nodes_on_cycles_are_those_that_reach_themselves(
            edges in prop::collection::vec(prop::collection::vec(0..9_usize, 0..3), 9),
        ) {
            let cycles = cycles(&edges);
            for one in 0..edges.len() {
                prop_assert_eq!(cycles[one].is_some(), reaches(&edges, one, one));
                for other in 0..edges.len() {
                    let is_same = cycles[one].is_some() && cycles[one] == cycles[other];
                    let both = reaches(&edges, one, other) && reaches(&edges, other, one);
                    prop_assert_eq!(is_same, both, "{} and {}", one, other);
                }
            }
        }
    }
}
