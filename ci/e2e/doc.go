// Package e2e is the real tier: it runs the real driver-build with real packages, base images made
// from a distribution's own archive, a real registry server, and tools of other projects.
//
// Every journey is a file NN_name_test.go. Journeys run in that order and share one download cache
// and the images that earlier ones built; a journey that runs alone makes what it needs. They need
// root, the network and what ci/e2e/setup installs, so they are skipped unless DRIVER_E2E=1; with
// it, anything that is missing is a failure. The package has no unit tests: those are next to the
// code.
package e2e
