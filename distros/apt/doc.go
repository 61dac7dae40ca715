// Package apt reads Debian and Ubuntu package repositories without apt: the sources a base image is configured with,
// their signed Release files, their Packages indexes, and from those the set of packages that must be added so that a
// request is met.
//
// Trust runs one way: a key of the base signs a Release file, the Release file names the sha256 of each index, an index
// names the sha256 of each package. Nothing is parsed before its digest or signature is checked, and MD5 or SHA-1 count
// as no digest at all.
//
// It does not download or unpack packages, run their scripts, remove anything, look at Recommends, or read preferences
// (pins). It resolves without backtracking, as apt's classic resolver does: each choice follows fixed preferences, and a
// dead end is an error with the chain that led there, never a surprising second-best set.
package apt
