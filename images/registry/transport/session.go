// Package transport is the HTTP of the registry protocol: authenticated sessions with one repository each,
// retries with deadlines, errors of answers, and the requests that have no blob.
//
// It does not know images, transfers or mirrors: package registry does.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// The rights that a session asks for.
const (
	Pull = transport.PullScope
	Push = transport.PushScope
)

// requestTimeout is the deadline of one attempt of the handshake.
const requestTimeout = time.Minute

// Options say how registries are reached.
type Options struct {
	Insecure bool   // allow plain HTTP and certificates that no CA signed
	CAFile   string // PEM certificates that are trusted beside the system's; "": none
	Keychain authn.Keychain
	Backoff  time.Duration // pause before the second try, doubled for each further one
}

// Pool keeps the sessions of a client. It is safe for concurrent use.
type Pool struct {
	opts Options
	http *http.Transport

	mu       sync.Mutex
	sessions map[string]*Session
}

// NewPool returns a pool without sessions. It uses no network; it fails on an unreadable CA file.
func NewPool(o Options) (*Pool, error) {
	t, err := newTransport(o)
	if err != nil {
		return nil, err
	}
	return &Pool{opts: o, http: t, sessions: map[string]*Session{}}, nil
}

// Close closes idle connections. The pool may still be used.
func (p *Pool) Close() { p.http.CloseIdleConnections() }

// Endpoint is a mirror or registry that serves a repository.
type Endpoint struct {
	Repo  name.Repository
	Plain bool // plain HTTP is allowed
}

// Session is an authenticated connection to one repository.
type Session struct {
	HTTP *http.Client // sends the credentials to the registry, and only there

	repo  name.Repository
	ready sync.Mutex // held during the handshake: several transfers that begin together log in once

	failed error // of the last handshake
	when   time.Time
}

// URL returns the address of a manifest, a blob or a listing: kind is "manifests", "blobs", "tags" or
// "referrers".
func (s *Session) URL(kind, identifier string) string {
	u := url.URL{
		Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + identifier,
	}
	return u.String()
}

// Session returns the session for a repository and logs in if there is none. pull lists further repositories
// of the same registry that must be readable (sources of mounts).
func (p *Pool) Session(ctx context.Context, e Endpoint, attempts int, scope string, pull ...string) (*Session, error) {
	scopes := []string{e.Repo.Scope(scope)}
	for _, r := range slices.Sorted(slices.Values(pull)) {
		scopes = append(scopes, e.Repo.Registry.Repo(r).Scope(Pull))
	}
	key := e.Repo.Name() + " " + strings.Join(scopes, " ")
	p.mu.Lock()
	s := p.sessions[key]
	if s == nil {
		s = &Session{repo: e.Repo}
		p.sessions[key] = s
	}
	p.mu.Unlock()

	began := time.Now()
	s.ready.Lock()
	defer s.ready.Unlock()
	if s.HTTP != nil {
		return s, nil
	}
	if s.failed != nil && s.when.After(began) {
		// The error of the transfer that held the lock: without this, each waiting transfer would wait for a dead
		// host in turn.
		return nil, s.failed
	}
	auth, err := authn.Resolve(ctx, p.opts.Keychain, e.Repo) // once, because it may ask the user
	if err != nil {
		err = Final(fmt.Errorf("read the credentials for %s: %w", e.Repo.RegistryStr(), err))
	} else {
		err = p.Try(ctx, attempts, requestTimeout, func(ctx context.Context) error {
			rt, err := p.login(ctx, e, auth, scopes)
			if err == nil {
				s.HTTP = &http.Client{Transport: rt, CheckRedirect: checkRedirect}
			}
			return err
		})
	}
	if err == nil {
		return s, nil
	}
	if ctx.Err() == nil {
		s.failed, s.when = err, time.Now()
	}
	return nil, err
}

// login does the handshake. A token server may refuse the whole request because of one source of mounts;
// login then asks for the repository alone, and the blobs are uploaded instead of mounted.
func (p *Pool) login(ctx context.Context, e Endpoint, auth authn.Authenticator, scopes []string) (http.RoundTripper, error) {
	rt, err := p.handshake(ctx, e.Repo.Registry, e.Plain, auth, scopes)
	if code := Status(err); len(scopes) > 1 && (code == http.StatusUnauthorized || code == http.StatusForbidden) {
		rt, err = p.handshake(ctx, e.Repo.Registry, e.Plain, auth, scopes[:1])
	}
	if Status(err) == http.StatusUnauthorized && auth != authn.Anonymous {
		err = fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return rt, err
}

func (p *Pool) handshake(ctx context.Context, r name.Registry, plain bool, auth authn.Authenticator, scopes []string) (http.RoundTripper, error) {
	plain = plain || p.opts.Insecure || isLoopback(r.RegistryStr())
	hctx := context.WithValue(ctx, handshaking{}, true)
	rt, err := transport.NewWithContext(hctx, r, auth, &guard{inner: p.http, plain: plain}, scopes)
	if errors.Is(err, http.ErrSchemeMismatch) && !plain {
		err = Final(err)
	}
	return rt, err
}

// CheckLogin asks a registry whether it accepts these credentials. A registry without passwords accepts all.
func (p *Pool) CheckLogin(ctx context.Context, r name.Registry, auth authn.Authenticator, attempts int) error {
	return p.Try(ctx, attempts, requestTimeout, func(ctx context.Context) error {
		rt, err := p.handshake(ctx, r, false, auth, nil)
		if err != nil {
			return err
		}
		s := Session{HTTP: &http.Client{Transport: rt, CheckRedirect: checkRedirect}}
		resp, err := s.get(ctx, http.MethodGet, r.Scheme()+"://"+r.RegistryStr()+"/v2/", "")
		if err != nil {
			return err
		}
		return errors.Join(Check(resp, http.StatusOK), resp.Body.Close())
	})
}
