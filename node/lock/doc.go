// Package lock makes sure that at most one driver container works on a node, ours or NVIDIA's.
//
// Acquire takes three locks, all or none. Each is an flock(2): it works between containers that share the
// node's /run, and the kernel drops it when the holder is killed.
//
//   - our own file: it is never unlinked, and the holder is written into it, for people and for the status;
//   - the folder of that file: somebody can unlink the file by force, the next instance would then lock a new
//     inode and believe itself alone; a folder that is a mount or has content cannot be replaced like this;
//   - the file of NVIDIA's container, /run/nvidia/nvidia-driver.pid, so that NVIDIA's image and ours exclude
//     each other.
//
// This package avoids three faults of NVIDIA's scheme: an instance that does not get the lock never truncates
// the holder's process id (content is changed only with the lock held); an unlinked file is not taken for the
// lock (the inode is compared after locking); no child inherits a descriptor (O_CLOEXEC). One gap of NVIDIA's
// scheme cannot be closed from this side: when their script has opened the legacy file, and calls flock only
// after we released and removed it, the script holds an unlinked file. That window is microseconds.
//
// The package starts nothing in the background: the caller has to call Lost at intervals.
package lock
