// Package bounds checks the bounds on the content of images: docs/security.md has their values, and each is
// exceeded once, by input that the test makes. It has no code of its own.
package bounds
