//! Runs a property and tells how many random steps that was. `PROPTEST_CASES=N` runs more of them.

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::cell::Cell;
use std::ops::RangeInclusive;

/// Runs as many cases as the range begins with, or as many as is told, up to its end. The test says how many steps
/// its case had.
pub fn run<S: Strategy>(
    name: &str,
    cases: RangeInclusive<u32>,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<usize, TestCaseError>,
) {
    let told = std::env::var("PROPTEST_CASES").ok().map(|text| text.parse().expect("PROPTEST_CASES"));
    let cases = told.map_or(*cases.start(), |told: u32| told.min(*cases.end()));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let steps = Cell::new(0usize);
    let counted = |value| {
        steps.set(steps.get() + test(value)?);
        Ok(())
    };
    match TestRunner::new(config).run(strategy, counted) {
        Ok(()) => println!("property {name}: {} random steps in {cases} cases", steps.get()),
        Err(TestError::Fail(why, value)) => panic!("{name}: {why}\nsmallest failing input: {value:#?}"),
        Err(TestError::Abort(why)) => panic!("{name}: {why}"),
    }
}
