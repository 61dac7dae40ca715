package registry

import (
	"errors"
	"io"
	"time"

	"github.com/driver-container/driver-container/images/oci"
)

// uploadBody is a blob that is sent. Its last bytes are given away only if all have the right digest.
type uploadBody struct {
	*oci.Verifier
	report func(n int)
}

// open opens a blob for sending. Each byte that is read puts the end by idle off.
func (p *push) open(b oci.Blob, idle *time.Timer) (*uploadBody, error) {
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	event := Event{Op: "push", Ref: p.ref.text, Name: b.Desc.Digest.String(), Called: b.Name, Total: b.Desc.Size}
	p.report(event)
	return &uploadBody{oci.Verify(r, b.Desc, "blob"), func(n int) {
		idle.Reset(p.limits.commit)
		event.Current += int64(n)
		p.report(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Bytes += int64(n)
	}}, nil
}

func (u *uploadBody) Read(buffer []byte) (int, error) {
	n, err := u.Verifier.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, final(err) // the source's: another try cannot help
	}
	u.report(n)
	return n, err
}
