// Package journeys are the tests that drive a real cluster (package cluster) through what happens to drivers in one: numbered, each
// from the same state, one after the other.
package journeys
