package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
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
	remote  *remote.Repository
	raw     *http.Client // without credentials
	auth    *auth.Client
	actions []string     // that a token must allow
	chunk   atomic.Int64 // bytes of a request that is not refused for its size; 0: any

	mu       sync.Mutex
	scheme   string          // "": not known
	password auth.Credential // valid if asked
	asked    bool
}

// session returns the session for a repository. It asks the registry which protocol it speaks, if plain HTTP is allowed.
func (c *Client) session(ctx context.Context, e endpoint, actions ...string) (*session, error) {
	key := fmt.Sprint(e.repo.Name(), e.plain, actions)
	c.mu.Lock()
	s := c.sessions[key]
	if s == nil {
		s = c.newSession(e, func(ctx context.Context) (auth.Credential, error) {
			return c.opts.Credentials(ctx, e.repo.RegistryStr(), e.repo.RepositoryStr())
		})
		s.actions = actions
		c.sessions[key] = s
	}
	c.mu.Unlock()
	return s, s.findScheme(ctx)
}

func (c *Client) newSession(e endpoint, credential func(context.Context) (auth.Credential, error)) *session {
	e.plain = e.plain || c.opts.Insecure || isLoopback(e.repo.RegistryStr())
	s := &session{endpoint: e, Client: c, raw: &http.Client{Transport: &guard{c.http, e.plain}, CheckRedirect: checkRedirect}}
	s.auth = &auth.Client{Client: s.raw, Cache: auth.NewCache(), ClientID: "driver-build", Header: http.Header{"User-Agent": {"driver-build"}}}
	s.auth.Credential = func(ctx context.Context, host string) (auth.Credential, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if host != e.repo.RegistryStr() { // another server, to which the registry redirected
			return auth.EmptyCredential, nil
		}
		if !s.asked { // once, because a helper may ask the user
			var err error
			if s.password, err = credential(ctx); err != nil {
				return auth.EmptyCredential, final(fmt.Errorf("read the credentials for %s: %w", host, err))
			}
			s.asked = true
		}
		return s.password, nil
	}
	s.remote = &remote.Repository{
		Client: s, Reference: orasregistry.Reference{Registry: e.repo.RegistryStr(), Repository: e.repo.RepositoryStr()},
		TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages, MaxMetadataBytes: maxAnswer,
	}
	return s
}

// findScheme asks a registry that may speak plain HTTP whether it does: HTTPS is tried first.
func (s *session) findScheme(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scheme != "" {
		return nil
	}
	if !s.plain {
		s.scheme = "https"
		return nil
	}
	return s.try(ctx, s.attempts, func(ctx context.Context) (err error) {
		for _, scheme := range []string{"https", "http"} {
			pingErr := s.ping(ctx, scheme)
			if pingErr == nil {
				s.scheme, s.remote.PlainHTTP = scheme, scheme == "http"
				return nil
			}
			if err == nil || errors.Is(err, http.ErrSchemeMismatch) {
				err = pingErr
			}
			if isCertificate(err) || statusOf(err) != 0 {
				break
			}
		}
		return err
	})
}

// ping asks whether there is a registry that speaks this protocol.
func (s *session) ping(ctx context.Context, scheme string) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.request)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.repo.RegistryStr()+"/v2/", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.raw.Do(req)
	if err != nil {
		return err
	}
	if e := newStatusError(resp, nil); !isFinal(e) {
		err = e
	}
	return errors.Join(err, resp.Body.Close())
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
	u := url.URL{Scheme: s.scheme, Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + identifier}
	return u.String()
}

// RoundTrip sends a request with credentials, which only the registry gets.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.auth.Do(req.WithContext(auth.AppendRepositoryScope(req.Context(), s.remote.Reference, s.actions...)))
	if err == nil {
		return resp, nil
	}
	if ue, ok := errors.AsType[*url.Error](err); ok { // whoever called adds the URL
		err = ue.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, loginError(err, s.password != auth.EmptyCredential)
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

// answer reads an answer.
func answer(resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	err = errors.Join(err, resp.Body.Close())
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, newStatusError(resp, body)
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, final(fmt.Errorf("it sent a document of more than %d bytes", maxAnswer))
	}
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
	s := c.newSession(endpoint{r.Repo(""), false, c.opts.Attempts}, func(context.Context) (auth.Credential, error) {
		return auth.Credential{Username: user, Password: password}, nil
	})
	if err = s.findScheme(ctx); err == nil {
		_, err = s.ask(ctx, http.MethodGet, s.scheme+"://"+r.RegistryStr()+"/v2/", "")
	}
	return wrapped(ctx, op, registry, r.RegistryStr(), err)
}
