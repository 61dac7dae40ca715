// Package bounds checks the bounds on foreign input: docs/security.md names every constant with its value,
// and each bound on the content of images is exceeded once, by input that the test makes. It has no code of
// its own.
package bounds
