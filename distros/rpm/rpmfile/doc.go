// Package rpmfile reads the formats of .rpm packages: versions and their order, dependencies, headers,
// signatures and archives, without rpm. It treats all input as hostile: everything is bounded, and the names
// of archive members cannot leave the folder that they are unpacked into.
//
// It does not run scripts, unpack to disk, or read repositories or the files of rpm's database
// (distros/rpm/rpmdb), whose records are these headers.
package rpmfile
