// Package builder tests the ways of driver-build into a cluster: the examples for a BuildKit daemon in a pod,
// the rights of their accounts, and the errors of the real kubectl. The daemon itself runs in a pod in
// package journeys.
package builder
