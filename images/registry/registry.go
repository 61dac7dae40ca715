// Package registry copies artifacts (images, indexes, charts) and what belongs to them (signatures,
// attestations, SBOMs) out of and into container registries, OCI layouts and archives. Package
// go-containerregistry below it logs in and sends blobs; this package adds mirrors, a store of what
// was downloaded, deadlines, tags that several programs change, and errors that say what to do.
//
//   - [Client.Open] reads an artifact, [Client.Attachments] what belongs to it, [Client.ListTags] the tags beside it.
//   - [Client.Push] sends an artifact with attachments, and moves the tags after everything else is in the registry.
//     [Client.Attach] sends attachments only, [Client.CheckPush] tries a push before long work.
//   - [Client.Copy] is Open, Attachments and Push.
//
// What is pulled is verified before anything reads it, and never pulled twice. A push sends only
// what the registry lacks. Options.Offline forbids what downloads; Push, CheckPush and Attach work,
// and Copy from this machine.
package registry

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/driver-container/driver-container/distros/fetch"
)

// Options say how to reach registries. Store is mandatory; everything else has a default.
type Options struct {
	Store *fetch.Store // keeps pulled content
	// allow plain HTTP and certificates that no CA signed; loopback may use plain HTTP in any case
	Insecure bool
	CAFile   string // PEM certificates that are trusted beside the system's; "": none
	// Mirrors lists mirrors by registry host, tried in this order before the registry:
	// "host[:port][/prefix]", with "http://" in front if plain HTTP is allowed.
	Mirrors  map[string][]string
	Offline  bool          // download only what is in Store or on this machine; pushes work
	Jobs     int           // parallel transfers within one pull or push; 0: 4
	Attempts int           // tries of a request, or of a transfer that makes no progress; 0: 5
	Backoff  time.Duration // pause before the second try, doubled for each further one; 0: 500ms
	// called often, from several goroutines in parallel: must be fast; nil: no reports
	Progress func(Event)

	// Keychain has the credentials for repositories. nil: those of docker login and podman login,
	// in their files and helpers.
	Keychain authn.Keychain

	// MountFrom names repositories whose blobs may be mounted into the push's repository, beside
	// those that bases came from. Repositories of other registries are ignored.
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
	http     *http.Transport
	mirrors  map[string][]mirror
	limits   limits
	sessions sync.Map // repository with what a token must allow -> *session
	tagLocks sync.Map // repository:tag -> *sync.Mutex
	origins  sync.Map // v1.Hash of a blob -> repository it can be mounted from
	sent     sync.Map // repository@digest of the blobs that are known to be there
}

// New checks the options and returns a client. It does not use the network. It fails on an
// unreadable CA file and on malformed mirrors.
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
		o.Keychain = userKeychain{}
	}
	c := &Client{o, &connections{limits: defaultLimits}}
	var err error
	c.http, err = newTransport(o)
	if err != nil {
		return nil, err
	}
	c.mirrors, err = parseMirrors(o.Mirrors)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Target returns a client for what the user names as the target of a change: it reads from its
// registry even if Options.Offline is set, to add to what is there. It shares connections and locks
// with c.
func (c *Client) Target() *Client {
	o := c.opts
	o.Offline = false
	return &Client{o, c.connections}
}

// Close closes idle connections. The client may still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) report(e Event) {
	if c.opts.Progress != nil {
		c.opts.Progress(e)
	}
}
