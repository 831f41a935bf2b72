//! Cycles of a directed graph: its strongly connected components of two members or more.

use std::collections::BTreeSet;

/// Returns the members of each cycle, the largest cycle first.
pub fn cycles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reach(edges, from)).collect();
    let mut cycles = BTreeSet::new();
    for from in 0..edges.len() {
        let members: Vec<usize> =
            reached[from].iter().copied().filter(|&to| reached[to].contains(&from)).collect();
        if members.len() > 1 {
            cycles.insert(members);
        }
    }
    let mut cycles: Vec<_> = cycles.into_iter().collect();
    cycles.sort_by_key(|members| std::cmp::Reverse(members.len()));
    cycles
}

/// All nodes on paths of one edge or more that begin at `from`.
fn reach(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<usize> = edges[from].iter().copied().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(&edges[node]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_has_the_nodes_that_reach_each_other_and_no_others() {
        let edges = [vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![0]].map(BTreeSet::from_iter);
        assert_eq!(cycles(&edges), [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn a_graph_without_a_way_back_has_no_cycle() {
        let edges = [vec![1, 2], vec![2], vec![]].map(BTreeSet::from_iter);
        assert_eq!(cycles(&edges), Vec::<Vec<usize>>::new());
    }
}
