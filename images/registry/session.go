package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
)

// maxAnswer bounds an answer that is read into memory, in bytes. Registries accept manifests of up to 4 MiB.
const maxAnswer = 8 << 20

// limits are the deadlines of a client. Tests have shorter ones.
type limits struct {
	request time.Duration // for a request without a blob, from dialling to the last byte of the answer
	commit  time.Duration // for an upload to go on, and for the answer after its last byte: the registry may copy and hash it first
}

var defaultLimits = limits{request: time.Minute, commit: 10 * time.Minute}

// endpoint is a mirror or registry that serves a repository.
type endpoint struct {
	repo     name.Repository
	plain    bool // plain HTTP is allowed
	attempts int  // tries of a request
}

// session sends the requests for one repository of one registry or mirror. oras-go logs in, for remote too; the session
// adds deadlines, further tries, bounds and errors.
type session struct {
	endpoint
	*Client
	remote    *remote.Repository
	auth      *auth.Client
	actions   []string             // that a token must allow
	plainHTTP atomic.Bool          // it does not speak TLS
	piece     atomic.Int64         // bytes of a request that is not refused for its size
	pause     atomic.Int64         // that a server requested last, in nanoseconds
	lists     atomic.Pointer[bool] // whether the registry has the referrers API; nil: not asked

	mu       sync.Mutex
	password *auth.Credential // nil: not asked for
}

// session returns the session for a repository.
func (c *Client) session(e endpoint, actions ...string) *session {
	key := fmt.Sprint(e.repo.Name(), e.plain, actions)
	known, ok := c.sessions.Load(key)
	if !ok {
		known, _ = c.sessions.LoadOrStore(key, c.newSession(e, actions, func(ctx context.Context) (auth.Credential, error) {
			return c.opts.Credentials(ctx, e.repo.RegistryStr(), e.repo.RepositoryStr())
		}))
	}
	s, _ := known.(*session)
	return s
}

func (c *Client) newSession(e endpoint, actions []string, credential func(context.Context) (auth.Credential, error)) *session {
	e.plain = e.plain || c.opts.Insecure || isLoopback(e.repo.RegistryStr())
	s := &session{endpoint: e, Client: c, actions: actions}
	s.piece.Store(math.MaxInt64)
	raw := &http.Client{Transport: &guard{c.http, e.plain, &s.pause}, CheckRedirect: checkRedirect}
	s.auth = &auth.Client{Client: raw, Cache: auth.NewCache(), ClientID: "driver-build", Header: http.Header{"User-Agent": {"driver-build"}}}
	s.auth.Credential = func(ctx context.Context, host string) (auth.Credential, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if host != e.repo.RegistryStr() { // another server, to which the registry redirected
			return auth.EmptyCredential, nil
		}
		if s.password == nil { // once, because a helper may ask the user
			got, err := credential(ctx)
			if err != nil {
				return got, final(fmt.Errorf("read the credentials for %s: %w", host, err))
			}
			s.password = &got
		}
		return *s.password, nil
	}
	s.remote = &remote.Repository{
		Client: s, Reference: orasregistry.Reference{Registry: e.repo.RegistryStr(), Repository: e.repo.RepositoryStr()},
		TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages, MaxMetadataBytes: maxAnswer,
	}
	return s
}

// try calls f until it succeeds, cannot succeed, or has failed too often.
func (c *Client) try(ctx context.Context, attempts int, f func(context.Context) error) error {
	_, err := fetch.Retry{Attempts: attempts, Backoff: c.opts.Backoff, Final: isFinal}.Do(ctx, func(ctx context.Context) (bool, error) {
		return false, f(ctx)
	})
	return err
}

// url returns the address of a manifest, a blob or a listing: kind is "manifests" or "blobs".
func (s *session) url(kind, identifier string) string {
	return "https://" + s.repo.RegistryStr() + "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + identifier
}

// RoundTrip sends a request with credentials, which only the registry gets. Where plain HTTP is allowed, it is tried if the
// server does not speak TLS, or if nobody listens.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	own := s.plain && req.URL.Scheme == "https" && req.URL.Host == s.repo.RegistryStr()
	if own && s.plainHTTP.Load() {
		return s.send(req, "http")
	}
	resp, err := s.send(req, req.URL.Scheme)
	dial, _ := errors.AsType[*net.OpError](err)
	if mismatch := errors.Is(err, http.ErrSchemeMismatch); own && (mismatch || dial != nil && dial.Op == "dial") {
		s.plainHTTP.Store(mismatch)
		return s.send(req, "http")
	}
	return resp, err
}

func (s *session) send(req *http.Request, scheme string) (*http.Response, error) {
	req = req.Clone(auth.AppendRepositoryScope(req.Context(), s.remote.Reference, s.actions...))
	req.URL.Scheme = scheme
	resp, err := s.auth.Do(req)
	if err == nil {
		return resp, nil
	}
	if ue, ok := errors.AsType[*url.Error](err); ok { // whoever called adds the URL
		err = ue.Err
	}
	return nil, s.loginError(err)
}

// Do sends a request of oras-go, or of this package, that has no blob, again where that can help. It returns the whole
// answer; one with another status than success is a *StatusError.
func (s *session) Do(req *http.Request) (resp *http.Response, err error) {
	err = s.try(req.Context(), s.attempts, func(ctx context.Context) (err error) {
		resp, err = s.once(ctx, req)
		return err
	})
	return resp, err
}

func (s *session) once(ctx context.Context, req *http.Request) (*http.Response, error) {
	limit := s.limits.request
	if req.Method == http.MethodPut {
		limit = s.limits.commit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req = req.Clone(ctx)
	if req.GetBody != nil {
		var err error
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err := s.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return answer(resp)
}

// nextPage is the link to the next page of a listing, https://www.rfc-editor.org/rfc/rfc8288.
var nextPage = regexp.MustCompile(`<[^>]*>[^,<]*;\s*rel="?next\b[^,<]*`)

// answer reads an answer.
func answer(resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	err = errors.Join(err, resp.Body.Close())
	referrers := strings.Contains(resp.Request.URL.Path, "/referrers/") && resp.Header.Get("Content-Type") == ocispec.MediaTypeImageIndex
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, newStatusError(resp, body)
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, final(fmt.Errorf("it sent a document of more than %d bytes", maxAnswer))
	case referrers && !bytes.Contains(body, []byte(`"manifests"`)):
		return nil, final(errors.New("the list of referrers is malformed: it has no manifests"))
	}
	resp.Header["Link"] = nextPage.FindAllString(strings.Join(resp.Header["Link"], ","), 1) // oras-go takes a link of any kind
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.Request.Method != http.MethodHead {
		resp.ContentLength = int64(len(body))
	}
	return resp, nil
}

// ask sends a request without a body. accept lists the types of documents that are wanted; "": any.
func (s *session) ask(ctx context.Context, method, to, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return s.Do(req)
}

// CheckLogin asks a registry (host[:port]) whether it accepts user and password, before they are stored. A
// registry without passwords accepts all. Errors: *Error.
func (c *Client) CheckLogin(ctx context.Context, registry, user, password string) error {
	const op = "log in to"
	r, err := name.NewRegistry(registry)
	if err = errors.Join(imagename.CheckRegistry(registry), err); err != nil {
		return fmt.Errorf("%s %w", op, err)
	}
	s := c.newSession(endpoint{r.Repo(""), false, c.opts.Attempts}, nil, func(context.Context) (auth.Credential, error) {
		return auth.Credential{Username: user, Password: password}, nil
	})
	_, err = s.ask(ctx, http.MethodGet, "https://"+r.RegistryStr()+"/v2/", "")
	return wrapped(ctx, op, registry, r.RegistryStr(), err)
}
