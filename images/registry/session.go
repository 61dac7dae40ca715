package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// maxAnswer bounds an answer that is read into memory, in bytes. Registries accept manifests of up
// to 4 MiB.
const maxAnswer = 8 << 20

// maxComplaint bounds what is read of an answer that refuses, in bytes.
const maxComplaint = 32 << 10

// limits are the deadlines of a client. Tests have shorter ones.
type limits struct {
	// for a request without a blob, from dialling to the last byte of the answer
	request time.Duration
	// for an upload to go on, and for the answer after its last byte: the registry may copy and
	// hash it first
	commit time.Duration
}

var defaultLimits = limits{request: time.Minute, commit: 10 * time.Minute}

// endpoint is a mirror or registry that serves a repository.
type endpoint struct {
	repo     name.Repository
	plain    bool // plain HTTP is allowed
	attempts int  // tries of a request
}

// session sends the requests for one repository of one registry or mirror. Package transport of
// go-containerregistry logs in, and its Pusher sends blobs. The session adds deadlines, further
// tries, bounds and errors.
//
// Manifests and listings are asked for here: remote's Puller wants digests in headers that the
// specification makes optional, follows no pages of referrers, and has no type for content with a
// wrong digest.
type session struct {
	endpoint
	*Client
	guard  *guard
	scopes []string             // that a token must allow
	lists  atomic.Pointer[bool] // whether the registry has the referrers API; nil: not asked

	mu       sync.Mutex
	user     authn.Authenticator // nil: not asked for
	loggedIn *http.Client        // nil: not yet
	sender   *remote.Pusher      // nil: not yet
}

// session returns the session for a repository. scope is transport.PullScope or
// transport.PushScope.
func (c *Client) session(e endpoint, scope string) *session {
	key := fmt.Sprint(e.repo.Name(), e.plain, scope)
	known, ok := c.sessions.Load(key)
	if !ok {
		known, _ = c.sessions.LoadOrStore(key, c.newSession(e, scope))
	}
	s, _ := known.(*session)
	return s
}

func (c *Client) newSession(e endpoint, scope string) *session {
	e.plain = e.plain || c.opts.Insecure || isLoopback(e.repo.RegistryStr())
	if e.plain { // HTTPS is tried first. The error is nil: the registry has this name already
		e.repo.Registry, _ = name.NewRegistry(e.repo.RegistryStr(), name.Insecure)
	}
	s := &session{endpoint: e, Client: c, scopes: []string{e.repo.Scope(scope)}}
	s.guard = &guard{inner: c.http, registry: e.repo.RegistryStr(), plain: e.plain}
	return s
}

// try calls f until it succeeds, fails in a way that is final, or has failed too often.
func (c *Client) try(
	ctx context.Context,
	attempts int,
	final func(error) bool,
	f func(context.Context) error,
) error {
	retry := fetch.Retry{Attempts: attempts, Backoff: c.opts.Backoff, Final: final}
	_, err := retry.Do(ctx, func(ctx context.Context) (bool, error) { return false, f(ctx) })
	return err
}

// url returns the address of a manifest, a blob or a listing: kind is "manifests", "blobs", "tags"
// or "referrers".
func (s *session) url(kind, identifier string) string {
	return "https://" + s.repo.RegistryStr() + "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + identifier
}

// credentials asks for the credentials once, because a helper may ask the user. The caller holds
// the lock.
func (s *session) credentials(ctx context.Context) (authn.Authenticator, error) {
	if s.user != nil {
		return s.user, nil
	}
	user, err := authn.Resolve(ctx, s.opts.Keychain, s.repo)
	if err != nil {
		return nil, final(fmt.Errorf("read the credentials for %s: %w", s.repo.RegistryStr(), err))
	}
	s.user = user
	return user, nil
}

// base is the transport below logging in.
func (s *session) base() http.RoundTripper { return transport.NewUserAgent(s.guard, "driver-build") }

// login returns a client that sends the credentials to the registry, and to nobody else.
func (s *session) login(ctx context.Context) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loggedIn != nil {
		return s.loggedIn, nil
	}
	user, err := s.credentials(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.request)
	defer cancel()
	loggedIn, err := transport.NewWithContext(ctx, s.repo.Registry, user, s.base(), s.scopes)
	if err != nil {
		return nil, s.statusError(err)
	}
	s.loggedIn = &http.Client{Transport: loggedIn}
	return s.loggedIn, nil
}

// RoundTrip sends a request with credentials, and follows redirections: it knows whether the
// registry speaks HTTPS.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	loggedIn, err := s.login(req.Context())
	if err != nil {
		return nil, err
	}
	resp, err := loggedIn.Do(req.Clone(req.Context()))
	if failed, ok := errors.AsType[*url.Error](err); ok { // the caller adds the URL
		err = failed.Err
	}
	return resp, s.statusError(err)
}

// statusError is that of an answer to a request of go-containerregistry.
func (s *session) statusError(err error) error {
	return statusError(err, time.Duration(s.guard.pause.Load()))
}

// request is one that has no blob.
type request struct {
	method, to string
	accept     string       // the types of documents that are wanted; "": any
	content    oci.Document // is sent; the zero value: nothing is
}

// answer is the whole answer to a request.
type answer struct {
	*http.Response
	body []byte
}

// send sends a request, again where that can help. An answer with another status than success is a
// *StatusError.
func (s *session) send(ctx context.Context, r request) (got answer, err error) {
	err = s.try(ctx, s.attempts, isFinal, func(ctx context.Context) (err error) {
		got, err = s.once(ctx, r)
		return err
	})
	return got, err
}

// get is send of GET. accept lists the types of documents that are wanted; "": any.
func (s *session) get(ctx context.Context, from, accept string) (answer, error) {
	return s.send(ctx, request{method: http.MethodGet, to: from, accept: accept})
}

func (s *session) once(ctx context.Context, r request) (got answer, err error) {
	limit := s.limits.request
	if r.method == http.MethodPut {
		limit = s.limits.commit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.to, bytes.NewReader(r.content.Raw))
	if err != nil {
		return got, err
	}
	req.Header = http.Header{}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.content.Raw != nil {
		req.Header.Set("Content-Type", string(r.content.Desc.MediaType))
	}
	got.Response, err = s.RoundTrip(req)
	if err != nil {
		return got, err
	}
	defer got.Body.Close()
	if got.StatusCode >= http.StatusBadRequest {
		return got, statusError(transport.CheckError(got.Response), fetch.RetryAfter(got.Response))
	}
	got.body, err = io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if len(got.body) > maxAnswer {
		return got, final(fmt.Errorf("it sent a document of more than %d bytes", maxAnswer))
	}
	return got, err
}

// hasBlob says whether the repository has a blob.
func (s *session) hasBlob(ctx context.Context, digest string) (bool, error) {
	_, err := s.send(ctx, request{method: http.MethodHead, to: s.url("blobs", digest)})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// pusher returns what sends blobs. It logs in by itself, because it widens its token for what it
// mounts. It tries once: [Client.try] knows what a registry asks to wait for, and ends with its
// context.
func (s *session) pusher(ctx context.Context) (*remote.Pusher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sender != nil {
		return s.sender, nil
	}
	user, err := s.credentials(ctx)
	if err != nil {
		return nil, err
	}
	s.sender, err = remote.NewPusher(
		remote.WithTransport(s.base()), remote.WithAuth(user), remote.WithNondistributable,
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	)
	return s.sender, err
}

// pages asks for a listing page by page. accept is the type of document that is wanted; "": any.
func (s *session) pages(
	ctx context.Context,
	first, accept string,
	read func(page []byte, mediaType string) error,
) error {
	at := first
	for range maxPages {
		page, err := s.get(ctx, at, accept)
		if err != nil {
			return err
		}
		err = read(page.body, page.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		next := nextPage.FindStringSubmatch(strings.Join(page.Header["Link"], ","))
		if next == nil {
			return nil
		}
		following, err := page.Request.URL.Parse(next[1])
		if err != nil || following.Host != page.Request.URL.Host {
			return final(
				fmt.Errorf("its link to the next page is malformed: %q", printable(next[1])),
			)
		}
		at = following.String()
	}
	return fmt.Errorf("it has more than %d pages", maxPages)
}
