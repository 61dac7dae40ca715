// Package rehearse runs the life of a driver's image on a real kernel in a guest with a fake GPU
// (package guest), before the image reaches a node: its start, a stop while a program uses the
// driver, a restart, a stop, and an upgrade from another image. Each is a row of a report, with a
// verdict.
//
// It shows what a kernel and driver-entrypoint do. It shows nothing of a GPU: the fake one never
// initialises, so CUDA, persistence mode and MIG are not rehearsed.
package rehearse
