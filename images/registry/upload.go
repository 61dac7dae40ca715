package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// errStalled is the cause that ends an upload that does not go on.
var errStalled = errors.New("it took no byte for too long")

// blob makes sure that the repository has a blob, and returns how.
func (p *push) blob(ctx context.Context, b oci.Blob) (State, error) {
	digest := b.Desc.Digest.String()
	here := p.ref.repo.Name()
	if _, known := p.sent.Load(here + "@" + digest); known {
		return Exists, nil
	}
	state, err := p.transfer(ctx, b)
	if err != nil {
		return Running, &itemError{"blob " + digest, err}
	}
	p.sent.Store(here+"@"+digest, true)
	p.origins.Store(b.Desc.Digest, here)
	return state, nil
}

// transfer mounts a blob from another repository, or uploads it, unless the repository has it.
func (p *push) transfer(ctx context.Context, b oci.Blob) (State, error) {
	exists, err := p.s.hasBlob(ctx, b.Desc.Digest.String())
	if err != nil || exists {
		return Exists, err
	}
	sent := &sentBlob{push: p, blob: b}
	layer, err := partial.CompressedToLayer(sent)
	if err != nil {
		return Running, err
	}
	source, found, err := p.mountSource(ctx, b.Desc.Digest)
	if err != nil {
		return Running, err
	}
	if found {
		layer = &remote.MountableLayer{
			Layer:     layer,
			Reference: source.Digest(b.Desc.Digest.String()),
		}
	}
	hopeless := func(err error) bool { return isFinal(err) && !lostUpload(err) }
	err = p.try(
		ctx,
		p.opts.Attempts,
		hopeless,
		func(ctx context.Context) error { return p.upload(ctx, layer, sent) },
	)
	if err != nil {
		return Running, err
	}
	switch {
	case sent.opened.Load():
		return Done, nil
	case found:
		return Mounted, nil
	}
	return Exists, nil // another push of this client sent it meanwhile
}

// mountSource returns another repository of the registry that has a blob.
func (p *push) mountSource(ctx context.Context, h v1.Hash) (name.Repository, bool, error) {
	known, _ := p.origins.Load(h)
	origin, _ := known.(string)
	if r, ok := p.sibling(origin); ok {
		return r, true, nil
	}
	for _, candidate := range p.from {
		reader := p.session(endpoint{candidate, false, p.opts.Attempts}, transport.PullScope)
		has, err := reader.hasBlob(ctx, h.String())
		if err != nil && statusOf(err) == 0 { // a status means that the blob can still be uploaded
			return name.Repository{}, false, err
		}
		if has {
			return candidate, true, nil
		}
	}
	return name.Repository{}, false, nil
}

// upload tries once to mount or to send a blob. It gives up when the registry takes no byte for
// long.
func (p *push) upload(ctx context.Context, layer v1.Layer, sent *sentBlob) error {
	pusher, err := p.s.pusher(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent.idle = time.AfterFunc(
		p.limits.commit,
		func() { cancel(fmt.Errorf("%w (%v)", errStalled, p.limits.commit)) },
	)
	defer sent.idle.Stop()
	err = pusher.Upload(ctx, p.s.repo, layer)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return context.Cause(ctx)
	}
	return p.s.statusError(err)
}

// lostUpload reports whether the registry does not know an upload any more, or counts other bytes
// than we do. Beginning again helps in both cases.
func lostUpload(err error) bool {
	answer, ok := errors.AsType[*StatusError](err)
	if !ok {
		return false
	}
	sends := []string{http.MethodPatch, http.MethodPut}
	lost := []int{
		http.StatusNotFound, http.StatusBadRequest, http.StatusConflict,
		http.StatusRequestedRangeNotSatisfiable,
	}
	return slices.Contains(sends, answer.request().Method) &&
		slices.Contains(lost, answer.answer.StatusCode)
}

// sentBlob is a blob that is sent, as a [partial.CompressedLayer].
type sentBlob struct {
	push   *push
	blob   oci.Blob
	idle   *time.Timer // ends the try; each byte that is read puts the end off
	opened atomic.Bool
}

// Digest is that of the blob.
func (b *sentBlob) Digest() (v1.Hash, error) { return b.blob.Desc.Digest, nil }

// Size is that of the blob.
func (b *sentBlob) Size() (int64, error) { return b.blob.Desc.Size, nil }

// MediaType is that of the blob.
func (b *sentBlob) MediaType() (types.MediaType, error) { return b.blob.Desc.MediaType, nil }

// Compressed opens the blob, once for each try.
func (b *sentBlob) Compressed() (io.ReadCloser, error) {
	r, err := b.blob.Open()
	if err != nil {
		return nil, final(err) // the source's: another try cannot help
	}
	b.opened.Store(true)
	desc := b.blob.Desc
	event := Event{
		Op:     "push",
		Ref:    b.push.ref.text,
		Name:   desc.Digest.String(),
		Called: b.blob.Name,
		Total:  desc.Size,
	}
	b.push.report(event)
	return &uploadBody{
		Verifier: oci.Verify(r, desc, "blob"),
		push:     b.push,
		idle:     b.idle,
		event:    event,
	}, nil
}

// uploadBody is the content of a blob. Its last bytes are given away only if all have the right
// digest.
type uploadBody struct {
	*oci.Verifier
	push  *push
	idle  *time.Timer // of the try
	event Event
	used  atomic.Bool
}

func (u *uploadBody) Read(buffer []byte) (int, error) {
	u.used.Store(true)
	n, err := u.Verifier.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, final(err) // the source's
	}
	u.idle.Reset(u.push.limits.commit)
	u.event.Current += int64(n)
	u.push.report(u.event)
	u.push.mu.Lock()
	defer u.push.mu.Unlock()
	u.push.stats.Bytes += int64(n)
	return n, err
}

// Close ends the reading.
func (u *uploadBody) Close() error {
	u.used.Store(true)
	return u.Verifier.Close()
}
