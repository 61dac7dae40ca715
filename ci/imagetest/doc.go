// Package imagetest makes small worlds for tests: base images in a registry, a signed package archive with a toolchain and a
// driver in Debian's layout, and .run archives, all generated, served by one server on the loopback interface. [NewRPM] makes those
// of systems with .rpm packages.
//
// Everything is a few kilobytes and has the shape of the real thing: real ELF headers, real .deb, .rpm and .run files,
// real signatures. Nothing in it can be executed. Tests change what a [World] serves to see how bad input is met.
package imagetest
