// Package imagetest makes small worlds for tests: base images in a registry, a signed package
// archive with a toolchain and a driver in Debian's layout, and .run archives. Everything is
// generated, and served by one server on the loopback interface. [NewRPM] makes worlds of systems
// with .rpm packages.
//
// Every file has a few kilobytes and the format of the real one: real ELF headers, real .deb, .rpm
// and .run files, real signatures. None of it can be executed. Tests change what a [World] serves
// to test how bad input is handled.
package imagetest
