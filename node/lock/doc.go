// Package lock makes sure that at most one driver container works on a node, ours or NVIDIA's.
//
// Three locks are taken, all or none, all with flock(2), which works between containers on the node's /run and is dropped by the
// kernel when the holder is killed:
//
//   - a file of our own, never unlinked, with the holder written inside, for people and for status;
//   - the folder that holds it, because a file can be unlinked by force and the next one would then lock a new inode
//     and believe itself alone; a folder that is a mount or has content cannot;
//   - the file of NVIDIA's container, /run/nvidia/nvidia-driver.pid, so that its image and ours exclude each other.
//
// What is wrong with NVIDIA's scheme and not repeated here: the winner's process id is not truncated by a loser (content is
// touched only with the lock held); an unlinked file is not taken for the lock (the inode is compared after locking); no
// child inherits a descriptor (O_CLOEXEC). One gap of theirs cannot be closed from this side: their script that has opened the
// legacy file, and calls flock only after we released and removed it, holds an unlinked file. That window is microseconds.
//
// The package starts nothing in the background: somebody has to call Lost now and then.
package lock
