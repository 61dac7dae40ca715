// Command tiers runs the tests that need more than Go, tier by tier, as tiers.yaml lists them.
//
//	go run ./ci/tiers              what CI runs of each tier
//	go run ./ci/tiers -all         every tier, whole
//	go run ./ci/tiers NAME...      these tiers, whole; "lab" stands for all tiers that begin with lab-
//
// It prints how long each tier took. Tiers that ran whole leave a line each in e2e-results.md, with the
// commit that they ran at; the line of an earlier run is replaced. A tier that fails does not stop the
// others. ci/e2e/run installs what the tests need and calls it.
package main
