//! Runs a property and tells how many random steps that was. `PROPTEST_CASES=N` runs more of them.

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::cell::Cell;

/// Runs so many cases, unless told otherwise. The test says how many steps its case had.
pub fn run<S: Strategy>(
    name: &str,
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<usize, TestCaseError>,
) {
    let told = std::env::var("PROPTEST_CASES").ok().map(|text| text.parse().expect("PROPTEST_CASES"));
    let cases = told.unwrap_or(cases);
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
