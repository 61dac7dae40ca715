// Package rpmdb reads and writes the database in which rpm records the installed packages, without
// rpm.
//
// There are three formats. The files in the folder show which one it is:
//
//   - bdb, the hash file Packages of Berkeley DB: rpm before 4.16 (el6, el7, el8, Amazon Linux 2, SLES 12)
//   - ndb, Packages.db and Index.db: SLES and openSUSE Leap 15
//   - sqlite, rpmdb.sqlite: el9 and later, Fedora, Amazon Linux 2023, Azure Linux
//
// Each holds the headers of packages by number, and indexes that find the numbers by names, files
// and the like. The package reads only the headers. It never changes a file but writes each one
// from the start, so that neither damage nor malicious content in the base's files reaches the
// result. Index files of ndb and sqlite are equal to those that rpm would write. Those of bdb
// (Name, Basenames, ...) and its environment (__db.*) are left out: rpm makes a missing one when it
// next opens the database, even for reading.
//
// A base image is not trusted: everything that is read is bounded, and no format is read with code
// written in C or with code that follows the numbers in a file without checking them. That is why
// bdb and ndb have readers of their own: the known library (github.com/knqyf263/go-rpmdb, which the
// tests compare with) drops package numbers, does not end on a cycle of pages, and panics in its
// own goroutine on an offset outside of a page. SQLite is modernc.org/sqlite, C translated to Go,
// with limits and without trust in the schema; the program that runs on nodes must not import this
// package.
//
// The package does not lock a database, run scriptlets or triggers, or decide what may be
// installed.
package rpmdb
