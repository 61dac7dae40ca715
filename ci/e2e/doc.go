// Package e2e is the real tier: it drives the real driver-build with real packages, base images made from a distribution's
// own archive, a real registry server, and tools that are not ours.
//
// Every journey is a file NN_name_test.go; they run in that order and share one download cache and the images that earlier
// ones built, and each makes what it needs when it runs alone. They need root, the network and what ci/e2e/setup installs,
// so they are skipped unless DRIVER_E2E=1; with it, whatever is missing is a failure. It holds no unit tests: those lie
// beside the code.
package e2e
