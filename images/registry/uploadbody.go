package registry

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/driver-container/driver-container/images/oci"
)

// uploadBody is a blob that is sent. Its last bytes are given away only if all have the right digest. net/http may read
// it after the answer has come: the lock is for this.
type uploadBody struct {
	report func(n int)

	mu     sync.Mutex
	source *oci.Verifier
	done   int64
	closed bool
}

// open opens a blob for sending. Each byte that is read puts the end by idle off.
func (p *push) open(b oci.Blob, idle *time.Timer) (*uploadBody, error) {
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	event := Event{Op: "push", Ref: p.ref.text, Name: b.Desc.Digest.String(), Called: b.Name, Total: b.Desc.Size}
	p.report(event)
	return &uploadBody{source: oci.Verify(r, b.Desc, "blob"), report: func(n int) {
		idle.Reset(p.limits.commit)
		event.Current += int64(n)
		p.report(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Bytes += int64(n)
	}}, nil
}

func (u *uploadBody) Read(buffer []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := u.source.Read(buffer)
	if u.done += int64(n); u.done == u.source.Desc.Size && err == nil {
		err = u.source.CheckDigest()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, final(err) // the source's: another try cannot help
	}
	u.report(n)
	return n, err
}

// Close ends the reading. net/http calls it after the last byte is sent, before the answer comes.
func (u *uploadBody) Close() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	return u.source.Close()
}
