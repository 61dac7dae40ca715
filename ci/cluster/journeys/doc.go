// Package journeys are the tests of what happens to drivers in a real cluster (package cluster): numbered,
// each from the same state, one after the other.
package journeys
