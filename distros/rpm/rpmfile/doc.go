// Package rpmfile reads the formats of .rpm packages: versions and their order, dependencies, headers, signatures and
// archives, without rpm. Input is taken as hostile: everything is bounded, and members of an archive cannot leave the
// folder they are unpacked in.
//
// It does not run scripts, unpack to disk, or know of repositories or of the files of rpm's database (distros/rpm/rpmdb),
// whose records are these headers.
package rpmfile
