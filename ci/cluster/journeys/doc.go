// Package journeys is the test of what happens to drivers in a real cluster (package cluster). A
// guest takes minutes to boot, so one has the whole life.
package journeys
