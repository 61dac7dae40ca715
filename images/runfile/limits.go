package runfile

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
	if l.Stub <= 0 {
		l.Stub = 16 << 20
	}
	if l.Content <= 0 {
		l.Content = 4 << 30
	}
	if l.Members <= 0 {
		l.Members = 20000
	}
	if l.Window == 0 {
		l.Window = 64 << 20
	}
	return l
}
