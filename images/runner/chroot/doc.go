// Package chroot runs steps on this machine: it unpacks the layers into a private folder, and the command
// gets that folder as its root, in namespaces of its own, without network, devices, capabilities or new
// privileges. It works only on Linux and only for the architecture of the machine.
//
// The process that sets up the namespaces is this same program, started again (Init). It is process 1 of the
// step's pid namespace and dies with the program that started it, so that nothing keeps running or stays
// mounted, whatever happens.
//
// Root runs steps as root. Other users run them in a user namespace in which their own id is 0. No further
// ids are mapped: the runner does not unpack owners of files, and a command without capabilities cannot
// change ids, so a range of ids would only leave files that the user cannot remove. This is not a sandbox for
// hostile programs of unknown origin, because the kernel is shared.
package chroot

// Options say where a Runner works.
type Options struct {
	// Work is the folder for roots, created when missing. Each running step needs a gigabyte or so, which is
	// freed at its end.
	Work string
}
