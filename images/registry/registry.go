// Package registry pulls artifacts from and pushes them to container registries, OCI layouts and archives:
// images, indexes, charts, and what belongs to them. It stores pulled content in the content-addressed store,
// verifies it before anything reads it, and never pulls it twice. A push sends only what the registry lacks,
// and moves the tag after everything else is in the registry.
//
//   - [Client.Base], [Client.Resolve], [Client.Describe], [Client.ListTags] read images, for a build.
//   - [Client.Open] reads an artifact of any kind, [Client.Push] sends one, [Client.CheckPush]
//     tries it before.
//   - [Client.Attachments] finds signatures, attestations, SBOMs and other referrers, [Client.Attach]
//     adds some.
//   - [Client.Copy] copies an artifact with its attachments.
//
// Options.Offline forbids what downloads; Push, CheckPush and Attach work, and Copy from this machine.
//
// It does not build or change images, does not run anything and does not talk to a container daemon. Packages
// credentials and transport below it keep passwords and speak HTTP.
package registry

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/registry/credentials"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Options say how to reach registries. Store is mandatory; everything else has a default.
type Options struct {
	Store    *fetch.Store // keeps pulled content
	Insecure bool         // allow plain HTTP and certificates that no CA signed; loopback may use plain HTTP in any case
	CAFile   string       // PEM certificates that are trusted beside the system's; "": none
	// Mirrors lists mirrors by registry host, tried in this order before the registry: "host[:port][/prefix]",
	// with "http://" in front if plain HTTP is allowed.
	Mirrors  map[string][]string
	Offline  bool           // download only what is in Store or on this machine; pushes work
	Keychain authn.Keychain // nil: credentials and helpers of Docker and Podman, see credentials.NewKeychain
	Jobs     int            // parallel transfers within one pull or push; 0: 4
	Attempts int            // tries of a request, or of a transfer that makes no progress; 0: 5
	Backoff  time.Duration  // pause before the second try, doubled for each further one; 0: 500ms
	Progress func(Event)    // called often, from several goroutines in parallel: must be fast; nil: no reports

	// MountFrom names repositories whose blobs may be mounted into the push's repository, beside those that
	// bases came from. Repositories of other registries are ignored.
	MountFrom []string
}

// State is the progress of an item.
type State string

// The states of an item. All but Running are final.
const (
	Running State = ""        // bytes are being transferred
	Exists  State = "exists"  // it existed before: nothing was sent or received
	Mounted State = "mounted" // the registry took it from another of its repositories
	Done    State = "done"    // it was transferred
)

// Event reports on one item (a blob or a manifest) of a pull or a push.
type Event struct {
	Op      string // "pull" or "push"
	Ref     string // what is pulled or pushed, as the caller wrote it
	Name    string // the digest of a blob, or "manifest" with a tag or digest
	Called  string // what people call the blob, such as "packages"; "" if nothing says it
	Current int64  // bytes so far
	Total   int64  // all bytes
	State   State
}

// Client talks to registries. It is safe for concurrent use. Close closes idle connections.
type Client struct {
	opts Options
	*connections
}

// connections is what a client has in common with its [Client.Target].
type connections struct {
	pool    *transport.Pool
	mirrors map[string][]mirror
	limits  limits

	mu       sync.Mutex
	apis     map[string]bool // repository -> whether it has the referrers API; absent: not asked
	tagLocks map[string]*sync.Mutex
	origins  map[string]string // blob digest -> repository it can be mounted from
}

// New checks the options and returns a client. It does not use the network. It fails on an unreadable CA file
// and on malformed mirrors.
func New(o Options) (*Client, error) {
	if o.Store == nil {
		return nil, fmt.Errorf("registry client: no store was given")
	}
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	if o.Attempts <= 0 {
		o.Attempts = 5
	}
	if o.Backoff <= 0 {
		o.Backoff = 500 * time.Millisecond
	}
	if o.Keychain == nil {
		o.Keychain = credentials.NewKeychain()
	}
	c := &Client{o, &connections{apis: map[string]bool{}, tagLocks: map[string]*sync.Mutex{}, origins: map[string]string{}, limits: defaultLimits}}
	var err error
	if c.pool, err = transport.NewPool(transport.Options{Insecure: o.Insecure, CAFile: o.CAFile, Keychain: o.Keychain, Backoff: o.Backoff}); err != nil {
		return nil, err
	}
	if c.mirrors, err = parseMirrors(o.Mirrors); err != nil {
		return nil, err
	}
	return c, nil
}

// Target returns a client for what the user names as the target of a change: it reads from its registry even
// if Options.Offline is set, to add to what is there. It shares connections and locks with c.
func (c *Client) Target() *Client {
	o := c.opts
	o.Offline = false
	return &Client{o, c.connections}
}

// Close closes idle connections. The client may still be used.
func (c *Client) Close() { c.pool.Close() }

func (c *Client) report(e Event) {
	if c.opts.Progress != nil {
		c.opts.Progress(e)
	}
}

// recordMountSource records that a repository has a blob, so that a push to the same registry can mount it.
func (c *Client) recordMountSource(h v1.Hash, repository string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.origins[h.String()] = repository
}

func (c *Client) mountSource(h v1.Hash) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.origins[h.String()]
}
