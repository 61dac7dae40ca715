package rpm

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

var testNow = repotest.Now

// testKeys returns keys that are generated once.
var testKeys = sync.OnceValue(func() (k struct{ good, stranger, expired *openpgp.Entity }) {
	k.good, k.stranger, k.expired = repotest.Key("good", 0), repotest.Key("stranger", 0), repotest.Key("expired", 365*24*time.Hour)
	return k
})

// repository is served over HTTP, without its packages. Tests may change its fields before publish, and its
// files after it.
type repository struct {
	*repotest.Server
	*repotest.Repository
	url string
}

func newRepository(t *testing.T, packages ...repotest.RPM) *repository {
	t.Helper()
	s := repotest.Serve(t, nil)
	r := &repository{s, repotest.NewRepository(t, s.URL, "/os", func(path string, data []byte) { s.Files[path] = data }), s.URL + "/os"}
	r.Packages, r.ListsOnly, r.Revision, r.Timestamp = packages, true, 1750000000, 1750000000
	return r
}

// published returns a signed repository with basics, and the options that read it.
func published(t *testing.T) (*repository, Options) {
	t.Helper()
	r := newRepository(t, basics()...)
	r.publish(t, testKeys().good)
	return r, r.options(t)
}

// publish writes the lists and repomd.xml to /os, signed with the keys.
func (r *repository) publish(t *testing.T, es ...*openpgp.Entity) {
	t.Helper()
	r.publishAt(t, "/os", testNow.AddDate(0, 0, -10), es...)
}

func (r *repository) publishAt(t *testing.T, dir string, when time.Time, es ...*openpgp.Entity) {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	r.Signers, r.SignedAt = es, when
	r.PublishIn(dir)
}

// options returns options that check the signature of repomd.xml with the good key.
func (r *repository) options(t *testing.T) Options {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	return Options{
		Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Root: testfile.FS(nil), Arch: "x86_64", Now: testNow, Modules: ParseModules,
		Sources: []repoconf.Source{{Origin: "test", ID: "os", BaseURLs: []string{r.url}, RepoGPGCheck: true, Key: repotest.Public(t, testKeys().good)}},
	}
}

// openIndex opens the repositories and loads their lists.
func openIndex(ctx context.Context, o Options) (*Index, error) {
	r, err := OpenReleases(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Load(ctx)
}
