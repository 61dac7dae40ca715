// Command tiers runs the tests that need more than Go, tier by tier, as tiers.yaml lists them.
//
//	go run ./ci/lint/tiers              the part of each tier that CI runs
//	go run ./ci/lint/tiers -all         every tier, whole
//	go run ./ci/lint/tiers NAME...      these tiers, whole; "lab" stands for all tiers that begin with lab-
//
// It prints how long each tier took. A tier that fails does not stop the others. ci/e2e/run installs what the
// tests need and calls this command.
package main
