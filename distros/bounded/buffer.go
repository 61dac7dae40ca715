package bounded

// Buffer keeps at most Limit bytes and drops what is more. It embeds no bytes.Buffer, because io.Copy
// would fill that past the limit by ReadFrom.
type Buffer struct {
	Kept  []byte
	Limit int
	More  bool
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	part := p[:min(len(p), b.Limit-len(b.Kept))]
	b.Kept = append(b.Kept, part...)
	b.More = b.More || len(part) < len(p)
	return len(p), nil
}
