// Package drivertoolkit lets a second container of the pod compile the driver's modules: OpenShift's Driver
// Toolkit, which has the headers and the compiler of the node's kernel and nothing of the driver. Both
// containers share a folder.
//
// The driver container asks (Invite, Compile): it puts its own program, the sources and a request into the
// folder, waits with a deadline, and takes the modules over as the
// entry of a cache that they are. The toolkit container answers
// (Builder). Each request has the name of a run, and answers to another run do not count, so that what
// earlier containers left does no harm. To the driver container the folder is untrusted input. To the toolkit
// container it is what the driver container wrote, and it runs a compile of it.
//
// The package decides nothing about a node, signs nothing and loads nothing. The names of flags are those of
// NVIDIA's containers; programs beside ours read them.
package drivertoolkit
