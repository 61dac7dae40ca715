// Package apt reads Debian and Ubuntu package repositories without apt: the sources that a base image
// configures, their signed Release files, and their Packages indexes. From these it computes the set of
// packages to add so that a request is met.
//
// Trust has one direction: a key of the base signs a Release file, the Release file has the sha256 of each
// index, an index has the sha256 of each package. The package parses nothing before it has checked the digest
// or signature, and does not accept MD5 or SHA-1 as digests.
//
// It does not download or unpack packages, run their scripts, remove anything, use Recommends, or read
// preferences (pins). It resolves without backtracking, like apt's classic resolver: each choice follows
// fixed preferences, and a dead end is an error with the chain that led to it, never a surprising second-best
// set.
package apt
