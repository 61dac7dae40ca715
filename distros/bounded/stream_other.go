//go:build !linux

package bounded

import "os"

// limitWait does nothing: outside of Linux no regular file waits for the kernel.
func limitWait(*os.File) {}
