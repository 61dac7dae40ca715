package rpm

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
)

// ErrRollback says that a mirror serves an older index than one that was seen before.
var ErrRollback = failure.New(failure.Content, "older than before")

// seen is the newest index seen of a repository. Repositories have no expiry date; comparing with
// seen detects a mirror that withholds updates by serving an old index with its valid signature.
type seen struct {
	Revision string `json:"revision"`
	Newest   int64  `json:"newest"` // newest time of a list, seconds since 1970
}

// RevisionRecord is the kind of the cache's records of what was seen of repositories.
const RevisionRecord = "revision"

func (r *repo) key() string { return r.source.ID + "\x00" + r.identity }

// recall returns the newest index seen of a repository; nil if there is none. A file that cannot be
// read counts as none: it is no reason to fail a build.
func (o Options) recall(r *repo) *seen {
	var s seen
	if _, ok := o.Fetch.Store.Lookup(RevisionRecord, r.key(), &s); !ok {
		return nil
	}
	return &s
}

// notOlder returns ErrRollback if an index is older than the one that was seen.
func (o Options) notOlder(r *repo, md *repomd) error {
	s := o.recall(r)
	if s == nil || o.AllowRollback || compareIndexes(md, s) >= 0 {
		return nil
	}
	return fmt.Errorf(
		"%w: this mirror serves revision %s, and %s was seen before; use another mirror, or allow older indexes",
		ErrRollback,
		describe(md.Revision, md.Newest),
		describe(s.Revision, s.Newest),
	)
}

// compareIndexes returns a negative number if an index is older than the one that was seen.
// Revisions are mostly times, but need not be numbers, and a repository may change their kind.
// Therefore an index with a list that is newer than all lists before does not count as older.
func compareIndexes(r *repomd, s *seen) int {
	a, err1 := strconv.ParseInt(r.Revision, 10, 64)
	b, err2 := strconv.ParseInt(s.Revision, 10, 64)
	times := cmp.Compare(r.Newest, s.Newest)
	if err1 != nil || err2 != nil || a == b {
		return times
	}
	if a < b && times > 0 {
		return 0
	}
	return cmp.Compare(a, b)
}

func describe(revision string, newest int64) string {
	return fmt.Sprintf(
		"%.40q of %s",
		revision,
		time.Unix(newest, 0).UTC().Format("2006-01-02 15:04"),
	)
}

// remember stores an index if it is newer than the one that was seen.
func (o Options) remember(r *repo) error {
	if s := o.recall(r); s != nil && compareIndexes(r.md, s) <= 0 {
		return nil
	}
	return o.Fetch.Store.Note(RevisionRecord, r.key(), "", seen{r.md.Revision, r.md.Newest})
}
