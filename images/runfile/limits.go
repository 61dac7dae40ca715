package runfile

import "cmp"

// The bounds that count unless the caller of [OpenLimited] gives others.
const (
	maxStub    = 16 << 20
	maxContent = 4 << 30
	maxMembers = 20_000
	maxWindow  = 64 << 20
)

// Limits bounds what an archive can make its reader do. A zero field means the default.
type Limits struct {
	// Stub is the most bytes before the payload: shell stub and embedded decompressor. 610.57.04 has 160,635.
	// Default 16 MiB.
	Stub int64
	// Content is the most bytes the payload may decompress to, tar headers and padding included. 610.57.04 has
	// 1.8 GB. Default 4 GiB.
	Content int64
	// Members is the most tar members, directories included. 610.57.04 has 1,189. Default 20,000.
	Members int
	// Window is the most bytes of history that a decompressor may keep (the dictionary of xz, the window of
	// zstd). NVIDIA's archives need 8 MiB in either. Default 64 MiB, which is also the window of xz -9.
	Window uint32
}

// maxName bounds the length of a member's name and maxDepth its directories: real ones have 90 bytes and 6.
const (
	maxName  = 1024
	maxDepth = 32
)

func (l Limits) withDefaults() Limits {
	l.Stub = cmp.Or(max(l.Stub, 0), maxStub)
	l.Content = cmp.Or(max(l.Content, 0), maxContent)
	l.Members = cmp.Or(max(l.Members, 0), maxMembers)
	l.Window = cmp.Or(l.Window, maxWindow)
	return l
}
